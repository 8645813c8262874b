"""Every name that the event stream may carry, and what it means (docs/reference/events.md)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ANNOUNCEMENTS: Mapping[str, str] = MappingProxyType(
    {
        "change-requested": "Somebody asked for a change; `data` holds verb, uid and pid.",
        "instance-started": "A start, restart or resume was taken.",
        "gate-waiting": "The gate is closed; the text says what is missing and who holds it. Told "
        "once for each reason, not at each look.",
        "gate-waiting-long": "The gate has been closed for two minutes: a person may have to act.",
        "gate-opened": "The gate has opened after it had been closed.",
        "lesson-unused": "Learned settings were left out: mode or bounds do not allow them by now.",
        "engine-adopted": "A new daemon has taken over what an earlier one launched.",
        "leftovers-ended": "A new daemon has ended processes that an earlier one had left; `data` "
        "holds attempt, pids and group.",
        "caches-put-aside": "Compile caches may be damaged and were moved; `data` holds the names.",
        "attempt-launched": "The engine's process exists; `data` holds attempt and settings.",
        "launch-failed": "There is no engine, because it could not be started; the text says why.",
        "phase-entered": "The log shows the next phase of the start; `data` holds attempt, phase.",
        "engine-ready": "The first token came back from a socket of this attempt.",
        "death-foreseen": "The start is healthy, but the first full batch will or may want more "
        "memory than is left; `data` holds the slack, the arithmetic and the planned changes.",
        "draining": "A stopping engine has fewer requests left than before.",
        "engine-unready": "A ready engine does not answer at present.",
        "engine-exited": "The engine ended, or lost a process, although nobody had asked.",
        "failure-diagnosed": "What failed; `data` holds failure, phase, site and the proof line.",
        "decision-made": "What is done about it; `data` holds remedy, changes, reason, arithmetic.",
        "settings-changed": "The next attempt runs with other settings; `data` maps them.",
        "settings-proven": "The settings have served real requests long enough.",
        "load-probe-started": "An idle engine is about to be sent a full batch, to prove itself.",
        "load-probe-withheld": "It is not sent, because it may kill the engine; the text says why.",
        "load-probe-ended": "It proved nothing: broken off for real requests, or not all answered.",
        "trial-asked": "Somebody asked to launch once with other settings than learned ones.",
        "trial-failed": "Such a launch did not last; the learned settings are back in force.",
        "settings-forgotten": "Learned settings are no longer used.",
        "settings-accepted": "The configuration asks for the settings in force by now.",
        "instance-held": "It waits for the operator; the text says why.",
        "instance-failed": "It cannot work as configured; the text says why.",
        "instance-stopped": "It was stopped and nothing of it is left.",
        "incident-opened": "A failure was recorded; `data` holds its number.",
        "incident-continued": "One more failure before anything had outlived the soak: it "
        "belongs to the open incident; `data` holds its number.",
        "incident-recovered": "The engine is ready after the newest failure; the incident "
        "stays open until that has lasted for the soak.",
        "incident-resolved": "The incident has ended; the text says how.",
    }
)
