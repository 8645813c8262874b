"""The demo: the incident that the warden exists for, live on a simulated host."""
