"""Hooks: verifiers' own code, run apart from everything that it could break."""
