"""A verifier that nobody but the engine may see."""

MARK = "verifier-mark-52c1"
