"""Rubric review: a reviewer agent reads what a finished trial left and answers a rubric.

A review reports. It has a stream of its own and appends nothing to a reviewed trial's.
"""
