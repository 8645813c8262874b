"""systemd hears what we say, and never holds us up."""

import os
import socket
import subprocess
import sys

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


def test_a_descriptor_is_handed_over_with_its_name(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
        server.bind(str(tmp_path / "notify"))
        notifier = SystemdNotifier(str(tmp_path / "notify"))
        with (tmp_path / "log").open("w") as log:
            notifier.keep("chat-1-0badcafe", log.fileno())
            message, descriptors, *_ = socket.recv_fds(server, 4096, 2)
            assert message == b"FDSTORE=1\nFDNAME=chat-1-0badcafe\nFDPOLL=0"
            assert os.path.samestat(os.fstat(descriptors[0]), os.fstat(log.fileno()))
            os.close(descriptors[0])
        notifier.forget("chat-1-0badcafe")
        assert server.recv(4096) == b"FDSTOREREMOVE=1\nFDNAME=chat-1-0badcafe"


def test_kept_descriptors_come_back_once_by_name_to_the_process_they_are_for():
    script = (
        "import os, sys\n"
        "from vllm_warden.adapters.systemd.notify import SystemdNotifier\n"
        "os.environ['LISTEN_PID'] = str(os.getpid() + int(sys.argv[1]))\n"
        "for fd in (3, 4, 5): os.dup2(1, fd)\n"
        "kept = SystemdNotifier('').kept()\n"
        "print(sorted(kept.items()), [os.get_inheritable(fd) for fd in kept.values()],"
        " [name for name in os.environ if name.startswith('LISTEN')], SystemdNotifier('').kept())"
    )
    variables = {"LISTEN_FDS": "3", "LISTEN_FDNAMES": "a-1:b-2:a-1"}

    def run(offset):
        words = [sys.executable, "-c", script, offset]
        environment = {**os.environ, **variables}
        return subprocess.run(
            words, env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert run("0") == "[('a-1', 3), ('b-2', 4)] [False, False] [] {}"
    assert run("1") == "[] [] [] {}"


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
