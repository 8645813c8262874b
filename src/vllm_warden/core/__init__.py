"""Decides. Pure functions over frozen values: no I/O, no clock, no logging, no randomness."""
