"""TOML and environment to validated settings, and settings to the specs of the core."""
