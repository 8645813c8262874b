"""Says whether two rows of the history tell of the same thing, whatever their numbers are."""

from __future__ import annotations

from types import MappingProxyType

Document = dict[str, object]

MARKS = MappingProxyType(
    {
        "events": ("instance", "at", "event", "text"),
        "incidents": ("instance", "opened", "attempt"),
        "attempts": ("launch_id",),
    }
)
"""What never changes in a document after it was first written. Numbers are left out: they are
given anew after a history that could not be read."""


def is_same(table: str, one: Document, other: Document) -> bool:
    """True when the second is the first one, perhaps written later."""
    return all(one.get(mark) == other.get(mark) for mark in MARKS[table])


def numbered(document: Document, number: int) -> Document:
    """The document under a number that may not be the one it was written with."""
    return {**document, "number": number} if "number" in document else document
