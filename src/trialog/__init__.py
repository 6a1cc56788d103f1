"""trialog: an event-sourced engine that runs and grades agent trials."""

from importlib.metadata import version as _version

__version__ = _version("trialog")

__all__ = ["__version__"]
