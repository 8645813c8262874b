import pytest

from vllm_warden.core.plan.sizes import is_vllm_size, parse_bytes


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("268435456", 268_435_456),
        ("1k", 1_000),
        ("1K", 1_024),
        ("25.6k", 25_600),
        ("16M", 16 * 1024**2),
        ("16m", 16_000_000),
        ("2G", 2 * 1024**3),
        ("1t", 10**12),
        ("256MiB", 256 * 1024**2),
        ("1.5GiB", 3 * 1024**3 // 2),
        (" 4 KiB ", 4_096),
        ("1.5G", None),  # vLLM takes no fraction with a binary letter
        ("1.5", None),
        ("16MB", None),
        ("-1", None),
        ("auto", None),
        ("", None),
        ("9" * 500 + "x", None),
        ("9" * 5000, None),
        ("9" * 400 + ".5k", None),
        ("\N{ARABIC-INDIC DIGIT THREE}k", None),
    ],
)
def test_sizes_are_read_as_vllm_reads_them(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    ("text", "taken"), [("16M", True), ("25.6k", True), ("1024", True), ("16MiB", False)]
)
def test_it_is_known_which_sizes_vllm_takes_as_written(text, taken):
    assert is_vllm_size(text) is taken
