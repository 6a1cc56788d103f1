"""A desk that has run, and somebody at its command line."""

from helpers.at_desk import desk, fresh_desk, template

__all__ = ("desk", "fresh_desk", "template")
