"""Starts engine processes and looks at them in /proc."""
