"""The model gateway: the one address that an agent in a sandbox calls its model at.

It passes calls on to the configured endpoint, with the key that stays out here, and each is an
event. One gateway is one trial's, under limits and a key of its own.
"""
