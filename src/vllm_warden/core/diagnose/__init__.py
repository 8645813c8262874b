"""From what was gathered about a death to its cause, with the lines that prove it."""
