"""What is to be launched, worked out before anything starts."""
