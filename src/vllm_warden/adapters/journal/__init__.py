"""Engine output through systemd-journald."""
