"""Worlds: apps that live, in this process or in one of their own."""
