"""Judges: a model scores an episode against criteria, over an OpenAI-compatible endpoint."""
