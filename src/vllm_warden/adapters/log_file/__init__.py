"""Engine output in one capped file per attempt."""
