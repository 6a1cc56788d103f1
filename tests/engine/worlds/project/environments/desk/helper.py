"""Code beside the apps."""

SEEN: list[int] = []
"""What an app leaves in a module; it must not be there in the next world."""
