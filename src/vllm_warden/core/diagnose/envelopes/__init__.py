"""Takes off what other programs put around a log: journalctl, containers, terminals."""
