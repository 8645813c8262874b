"""What the diagnosis relies on in vLLM's source, and what a version should have of it."""

from __future__ import annotations

from vllm_warden.core.diagnose.catalogue import SIGNATURES
from vllm_warden.core.diagnose.catalogue.seen_in import RELEASES, SEEN
from vllm_warden.core.diagnose.detect import Counted
from vllm_warden.core.diagnose.reliance import Gone, Kind, gone, is_newer_than_known, relied_on

NEWEST = RELEASES[-1]
KV = "No available memory for the cache blocks"
V0 = "determine_num_available_blocks"


def test_every_row_that_looks_at_text_relies_on_something() -> None:
    # any KeyboardInterrupt, any ImportError, any flaw of Python code
    without = {"interrupted-at-start", "module-missing", "engine-broke"}
    owners = {one.owner for one in relied_on()}
    rows = {row.id for row in SIGNATURES if not isinstance(row.detect, Counted)}
    assert rows - owners <= without


def test_a_complete_tree_lacks_nothing() -> None:
    assert gone(NEWEST, ()) == ()


def test_a_reworded_text_is_named_with_the_row_that_needs_it() -> None:
    assert gone(NEWEST, {KV}) == (Gone("no-cache-blocks", Kind.TEXT, (KV,), whole=True),)


def test_a_version_newer_than_all_that_were_looked_at_should_have_what_the_newest_has() -> None:
    assert gone("0.99.0", {KV}) == gone(NEWEST, {KV})
    assert is_newer_than_known("0.99.0")
    assert not is_newer_than_known(NEWEST)


def test_a_function_of_older_releases_is_not_missed_in_newer_ones() -> None:
    assert SEEN[V0][1] != NEWEST
    assert gone(NEWEST, {V0}) == ()
    (lost,) = gone("0.9.2", {V0})
    assert (lost.owner, lost.kind, lost.whole) == ("functions of profile", Kind.FUNCTION, False)


def test_a_text_of_newer_releases_is_not_missed_in_older_ones() -> None:
    text = "[shutdown] EngineCore: trigger received signal="
    assert gone("0.9.2", {text}) == ()
    assert [one.owner for one in gone(NEWEST, {text})] == ["core-told-to-stop-at-start"]


def test_one_wording_less_leaves_the_row_alive() -> None:
    (lost,) = gone(NEWEST, {"WorkerProc hit an exception"})
    assert (lost.owner, lost.whole) == ("output-handler-failed", False)


def test_words_of_other_libraries_are_not_looked_for_in_vllm() -> None:
    assert "an illegal memory access was encountered" not in SEEN
    assert gone(NEWEST, {"an illegal memory access was encountered"}) == ()


def test_an_unreadable_version_is_older_than_everything() -> None:
    assert not is_newer_than_known("dev")
