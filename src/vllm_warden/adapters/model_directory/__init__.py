"""Reads a model's directory: its config.json and the headers of its weights, no tensors."""
