import socket
import sys
from dataclasses import replace

import pytest

from vllm_warden.config.settings import DaemonSettings
from vllm_warden.config.translate import Translated
from vllm_warden.config.world import (
    ObstacleKind,
    admin_uids,
    daemon_faults,
    instance_faults,
    world_faults,
)
from vllm_warden.core.plan.spec import InstanceSpec


@pytest.fixture
def fine(tmp_path):
    """An instance that the world has everything for."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}", encoding="utf-8")
    return InstanceSpec(
        name="a",
        model=str(tmp_path / "model"),
        gpus=(),
        port=free_port(),
        command=(sys.executable, "serve"),
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def only(faults):
    (fault,) = faults
    return fault


def test_nothing_is_said_where_everything_is_there(fine):
    assert world_faults(fine, gpus=[]) == ()


def test_a_missing_model_directory_may_still_come(fine, tmp_path):
    fault = only(world_faults(replace(fine, model=f"{tmp_path}/mnt/model")))

    assert fault.kind is ObstacleKind.MODEL_DIRECTORY
    assert not fault.hopeless
    assert fault.hint == f"{tmp_path} exists; is a mount missing?"


def test_a_directory_without_a_model_in_it_may_be_a_mount_point(fine, tmp_path):
    fault = only(world_faults(replace(fine, model=str(tmp_path))))

    assert fault.kind is ObstacleKind.MODEL_DIRECTORY
    assert not fault.hopeless


def test_a_hugging_face_id_is_left_to_the_engine(fine):
    assert world_faults(replace(fine, model="nobody/no-such-model")) == ()


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("/nonexistent/vllm", "there is no such file"),
        ("no-such-vllm-program", "it is not on PATH"),
        ("/etc/passwd", "it is not executable"),
        ("/etc", "it is a directory"),
    ],
)
def test_a_missing_program_is_hopeless(fine, word, reason):
    fault = only(world_faults(replace(fine, command=(word, "serve"))))

    assert fault.kind is ObstacleKind.PROGRAM
    assert fault.hopeless
    assert fault.reason == reason


def test_the_program_behind_a_wrapper_is_looked_for_too(fine):
    command = (sys.executable, "--", "/nonexistent/vllm", "serve")

    fault = only(world_faults(replace(fine, command=command)))

    assert fault.value == "/nonexistent/vllm"


def test_a_program_is_found_on_the_path_that_the_engine_gets(fine, tmp_path):
    program = tmp_path / "vllm"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o755)
    spec = replace(fine, command=("vllm", "serve"), environment={"PATH": str(tmp_path)})

    assert world_faults(spec) == ()


def test_an_unknown_user_is_hopeless(fine):
    fault = only(world_faults(replace(fine, user="no-such-user")))

    assert fault.kind is ObstacleKind.USER
    assert fault.hopeless


def test_a_gpu_that_the_host_lacks_may_still_come(fine):
    spec = replace(fine, gpus=(0, 7, "GPU-1", "GPU-9"))

    faults = world_faults(spec, gpus=[(0, "GPU-0"), (1, "GPU-1")])

    assert [(fault.key, fault.value) for fault in faults] == [
        ("instance.a.gpus[1]", "7"),
        ("instance.a.gpus[3]", "GPU-9"),
    ]
    assert not any(fault.hopeless for fault in faults)
    assert "indices present: 0, 1" in faults[0].reason


def test_nothing_is_said_of_gpus_when_nobody_asked_nvml(fine):
    assert world_faults(replace(fine, gpus=(7,)), gpus=None) == ()


def test_a_port_that_another_program_holds_may_come_free(fine):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]

        fault = only(world_faults(replace(fine, port=port)))
        of_our_own_engine = world_faults(replace(fine, port=port), own_ports={port})

    assert fault.kind is ObstacleKind.PORT
    assert fault.reason == "another program listens on it"
    assert not fault.hopeless
    assert of_our_own_engine == ()


def test_an_address_of_another_machine_is_named(fine):
    fault = only(world_faults(replace(fine, host="192.0.2.1")))

    assert fault.reason.startswith("cannot listen on 192.0.2.1")


def test_an_unreadable_environment_file_is_hopeless(fine):
    fault = only(instance_faults(Translated(fine, problem="permission denied")))

    assert fault.kind is ObstacleKind.ENVIRONMENT_FILE
    assert fault.hopeless


def test_a_state_directory_that_cannot_be_made_names_path_and_user():
    faults = daemon_faults(DaemonSettings(state_directory="/proc/warden", log_backend="file"))

    fault = only(faults)
    assert fault.kind is ObstacleKind.STATE_DIRECTORY
    assert "/proc" in fault.reason


def test_a_state_directory_yet_to_be_made_is_fine(tmp_path):
    settings = DaemonSettings(state_directory=f"{tmp_path}/not/yet", log_backend="file")

    assert daemon_faults(settings) == ()


def test_admins_are_resolved_and_unknown_names_told():
    uids, unknown = admin_uids([1234, "root", "no-such-user"])

    assert uids == {0, 1234}
    assert unknown == ("no-such-user",)
