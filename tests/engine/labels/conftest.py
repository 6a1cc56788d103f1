"""A desk that has run, and somebody at its command line."""

from helpers.at_desk import Desk, Said, desk, fresh_desk, template

__all__ = ("Desk", "Said", "desk", "fresh_desk", "template")
