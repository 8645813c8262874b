"""Which attempt's figures a later plan gets."""

from vllm_warden.core.lifecycle.events import BecameReady
from vllm_warden.core.lifecycle.states import Attempt, Instance
from vllm_warden.core.plan.spec import EngineFacts, InstanceSpec
from vllm_warden.daemon.measured import figures_at_ready
from vllm_warden.daemon.measured import measured_document as document_of

READY = {
    "number": 3,
    "settings": {"max_num_seqs": 64},
    "figures": {"weights_bytes": 5},
    "engine_version": "0.15.1",
}


def measured_document(attempts, incident):
    found = document_of(attempts, incident)
    assert found is not None
    return found


def incident(attempt, **figures):
    return {
        "attempt": attempt,
        "settings_before": {"max_num_seqs": 128},
        "diagnosis": {"figures": figures, "engine_version": "0.15.1"},
    }


def test_the_newest_attempt_that_got_as_far_as_its_weights_is_taken():
    attempts = [{"number": 4, "settings": {}}, READY, {**READY, "number": 2}]
    assert measured_document(attempts, None)["attempt"] == 3
    death = measured_document(attempts, incident(4, weights_bytes=7))
    assert (death["attempt"], death["moment"], death["figures"]) == (
        *(4, "death"),
        {"weights_bytes": 7},
    )
    assert death["settings"] == {"max_num_seqs": 128}


def test_a_death_after_it_was_ready_or_before_its_weights_tells_nothing_new():
    assert measured_document([READY], incident(3, weights_bytes=7))["moment"] == "ready"
    assert measured_document([READY], incident(4, free_bytes=7))["attempt"] == 3
    assert document_of([], incident(1, free_bytes=7)) is None


def test_an_engine_that_prints_no_weights_has_measured_nothing():
    instance = Instance(InstanceSpec("x", "/m", ()), engine=EngineFacts("0.15.1"))
    assert figures_at_ready(instance, BecameReady(0.0, 1, {"kv_tokens": 5}), None) == {}
    attempt = Attempt(1, {}, {}, 0.0, total_at_launch_bytes=80)
    running = Instance(instance.spec, engine=instance.engine, attempt=attempt)
    event = BecameReady(0.0, 1, {"weights_bytes": 5})
    assert figures_at_ready(running, event, "0.16.0") == {
        "figures": {"weights_bytes": 5, "total_bytes": 80},
        "engine_version": "0.16.0",
    }
    assert figures_at_ready(running, event, None)["engine_version"] == "0.15.1"
