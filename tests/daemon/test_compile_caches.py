"""Suspect compile caches are moved, named, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from vllm_warden.daemon.compile_caches import compile_caches, put_aside


@pytest.mark.parametrize(
    ("environment", "caches"),
    [
        (
            {"HOME": "/h", "TORCHINDUCTOR_CACHE_DIR": "/c/i"},
            ["/c/i", "/h/.cache/vllm/torch_compile_cache"],
        ),
        ({"HOME": "/h", "XDG_CACHE_HOME": "/x"}, ["/x/vllm/torch_compile_cache"]),
        ({"HOME": "/h", "VLLM_CACHE_ROOT": "/v"}, ["/v/torch_compile_cache"]),
        ({"TORCHINDUCTOR_CACHE_DIR": "relative"}, []),
    ],
)
def test_caches_are_where_torch_and_vllm_put_them(
    environment: dict[str, str], caches: list[str]
) -> None:
    assert [str(path) for path in compile_caches(environment)] == caches


def test_a_cache_is_moved_whole_and_what_lies_beside_it_stays(tmp_path: Path) -> None:
    cache = tmp_path / "vllm" / "torch_compile_cache"
    (cache / "deep").mkdir(parents=True)
    (cache / "deep" / "file").write_text("x")
    (tmp_path / "vllm" / "assets").mkdir()

    moved, problems = put_aside([cache, tmp_path / "none" / "x", tmp_path / "none"], "0011")

    aside = tmp_path / "vllm" / "torch_compile_cache.aside-0011"
    assert (moved, problems) == ([aside], [])
    assert (aside / "deep" / "file").read_text() == "x"
    assert not cache.exists()
    assert (tmp_path / "vllm" / "assets").is_dir()


def test_no_link_leads_to_somebody_elses_directory(tmp_path: Path) -> None:
    others = tmp_path / "others" / "torch_compile_cache"
    others.mkdir(parents=True)
    (tmp_path / "vllm").symlink_to(tmp_path / "others")

    moved, problems = put_aside([tmp_path / "vllm" / "torch_compile_cache"], "0011")

    assert moved == []
    assert "a link leads to it" in problems[0]
    assert others.is_dir()


def test_what_cannot_be_moved_is_told(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    (tmp_path / "cache.aside-0011").mkdir()
    (tmp_path / "cache.aside-0011" / "full").touch()

    moved, problems = put_aside([cache], "0011")

    assert moved == []
    assert problems == [f"cannot move {cache}: Directory not empty"]
