"""A job's trials in forms that other programs read."""
