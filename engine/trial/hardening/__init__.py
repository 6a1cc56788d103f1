"""Putting out of the verifier's way what an agent left that could steer it.

`steering` says which paths may, `contents` reads what is in them, and `harden` acts.
"""
