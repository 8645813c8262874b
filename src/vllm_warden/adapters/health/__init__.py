"""The engine's HTTP side."""
