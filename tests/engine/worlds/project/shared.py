"""Code of the project's own, beside the environments."""

WORD = "from the project"
