"""This program's version; what reads it of an installed distribution is slow to import."""

from __future__ import annotations

__version__ = "0.1.0"
