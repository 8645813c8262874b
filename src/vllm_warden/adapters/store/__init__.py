"""History in SQLite, wanted states in one small file."""
