"""Regrading: saved work graded again, by other verifiers or the same, beside the original."""
