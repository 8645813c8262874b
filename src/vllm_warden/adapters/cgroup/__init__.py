"""Attempt groups on cgroup2, or process groups without it."""
