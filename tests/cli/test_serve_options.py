"""``serve`` holds its own options to the rules of the settings file, before anything starts."""

from __future__ import annotations

import pytest

LINE = ("/m", "--max-model-len", "8k")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--name", "My Model"), "did you mean my-model?"),
        (("--name", "x" * 33), "1 to 32 characters"),
        (("--name", "../up"), "a-z, 0-9"),
        (("--allow", "max_model_length=1"), "did you mean max_model_len?"),
        (("--allow", "speed=1"), "there are max_num_seqs"),
        (("--allow", "max_model_len"), "it is KNOB=MIN"),
        (("--allow", "max_model_len=-4"), "it is KNOB=MIN"),
        (("--allow", "gpu_memory_utilization=85"), "allowed: 0.01 to 1"),
        (("--allow", "max_num_seqs=0"), "allowed: 1 to 281474976710656"),
        (("--allow", "max_model_len=8001"), "above the asked 8000"),
        (("--gpus", "0,one"), "one is no NVML index"),
        (("--gpus", "0,0"), "0 is named twice"),
        ((), "--port 70000"),
    ],
)
def test_a_wrong_option_is_exit_2_and_says_what_is_allowed(warden, tmp_path, words, says):
    state = ("--state-directory", str(tmp_path / "state"))
    port = () if words else ("--port", "70000")
    code, _, err = warden("serve", *state, *words, *LINE, *port)

    assert code == 2
    assert says in err
    assert not (tmp_path / "state").exists()
