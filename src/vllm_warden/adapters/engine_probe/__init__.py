"""Asks the engine's installation and the model's files."""
