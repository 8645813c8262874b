"""The imperative shell: turns observations into events, and effects into calls."""
