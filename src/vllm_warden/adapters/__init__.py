"""Touches the world: one folder per outside thing, none knows policy or another adapter."""
