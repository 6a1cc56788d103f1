"""Guesses the same word for ever, and once one that there isn't."""

from trialog import Action


async def act(observation, actions):
    """Learns nothing."""
    first = isinstance(observation, dict) and "instructions" in observation
    return Action("guess", {"word": "xxxxx" if first else "vivid"})
