"""Says a number."""

from trialog import Answer


async def act(observation, actions):
    """A guess."""
    return Answer("7.80")
