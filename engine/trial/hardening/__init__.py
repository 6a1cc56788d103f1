"""Putting out of the verifier's way what an agent left that could steer it.

`steering` says which paths may, `contents`, `git` and `links` read what is in them, `looking`
decides on each, and `harden` acts.
"""
