"""The failure catalogue: rows only, one module per family."""
