"""systemd hears what we say, and never holds us up."""

import os
import socket

from vllm_warden.adapters.systemd.notify import SystemdNotifier, watchdog_seconds


def test_messages_arrive_as_systemd_wants_them(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "notify"))
        notifier = SystemdNotifier(str(tmp_path / "notify"))
        notifier.ready()
        notifier.status("one:\nready")
        notifier.watchdog()
        notifier.stopping()
        received = [server.recv(4096) for _ in range(4)]
    assert received == [b"READY=1", b"STATUS=one: ready", b"WATCHDOG=1", b"STOPPING=1"]


def test_an_abstract_socket_is_understood():
    name = f"vllm-warden-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(f"\0{name}")
        SystemdNotifier(f"@{name}").ready()
        assert server.recv(100) == b"READY=1"


def test_a_full_or_missing_socket_never_blocks(tmp_path):
    SystemdNotifier(str(tmp_path / "missing")).ready()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "notify"))
        notifier = SystemdNotifier(str(tmp_path / "notify"))
        for _ in range(5000):
            notifier.watchdog()


def test_outside_systemd_nothing_happens(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notifier = SystemdNotifier()
    assert not notifier.is_active
    notifier.ready()


def test_the_watchdog_interval_is_ours_only_when_the_pid_says_so(monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "30000000")
    monkeypatch.delenv("WATCHDOG_PID", raising=False)
    assert watchdog_seconds() == 30.0
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    assert watchdog_seconds() == 30.0
    monkeypatch.setenv("WATCHDOG_PID", "1")
    assert watchdog_seconds() is None
    monkeypatch.setenv("WATCHDOG_USEC", "")
    assert watchdog_seconds() is None
