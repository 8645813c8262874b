"""Real daemons and stand-in engines under random faults, and what must hold after each."""
