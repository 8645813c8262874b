"""Readiness, status and watchdog messages to systemd."""
