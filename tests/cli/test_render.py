from __future__ import annotations

import pytest

from vllm_warden.cli.render import Style, bar, cut, duration, harmless, ranges, size, value


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(6000, "1 h 40 min"),
     (-3, "0 s"), (8.9, "8 s"), (99, "99 s"), (100, "1 min"), (5999, "99 min"),
     (7200, "2 h"), (47 * 3600 + 60, "47 h 1 min"), (48 * 3600, "2 days"), (9e6, "104 days")],
)  # fmt: skip
def test_durations_have_two_units_at_most(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("setting", "text"),
    [(None, "default"), (True, "true"), (0.9183, "0.9183"), (0.1 + 0.2, "0.3"), (512, "512"),
     ("a\x1b[2Jb", "ab")],
)  # fmt: skip
def test_settings_read_as_a_person_would_write_them(setting, text):
    assert value(setting) == text


def test_sizes_bars_and_ranges():
    assert [size(n) for n in (0, 300 << 20, 60 << 30)] == ["0 MiB", "300 MiB", "60.0 GiB"]
    assert [bar(f, 4) for f in (-1, 0.5, 1, 7)] == ["[----]", "[##--]", "[####]", "[####]"]
    assert ranges([3, 0, 1, 2, 6, 8, 9]) == "0-3,6,8-9"
    assert cut("abcdef", 5) == "ab..."
    assert cut("abcde", 5) == "abcde"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mbold\x1b[0m", "bold"),
        ("\x1b]0;owned\x07x", "x"),
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x9b31mb", "a\N{REPLACEMENT CHARACTER}31mb"),
        ("a\rb\x08c", "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c"),
        ("safe\u202eevil", "safe\N{REPLACEMENT CHARACTER}evil"),
        ("half\ud800", "half\N{REPLACEMENT CHARACTER}"),
        ("Grüße \N{ROCKET}", "Grüße \N{ROCKET}"),
    ],
)
def test_log_text_cannot_steer_a_terminal(text, shown):
    assert harmless(text) == shown


def test_paint_is_plain_without_colour():
    assert Style().paint("x", "red") == "x"
    assert Style(colour=True).paint("x", "bold", "red") == "\x1b[1;31mx\x1b[0m"
