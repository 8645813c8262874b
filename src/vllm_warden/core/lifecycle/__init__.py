"""The life of one instance as a table of states and events."""
