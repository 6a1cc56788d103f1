"""Calling models: the endpoint, its client, what calls cost. Judges and agents share it."""
