"""Logs that are only read: files of any kind, pipes, and the journal of any unit."""
