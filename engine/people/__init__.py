"""People as verifiers: which trials wait for them, and what they submit."""
