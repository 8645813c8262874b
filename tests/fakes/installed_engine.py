"""An installation of vLLM that consists of given source only, with its own interpreter."""

from __future__ import annotations

import sys
from pathlib import Path


def install(directory: Path, version: str, source: str, **files: str) -> Path:
    """A program named vllm below ``directory``, whose interpreter finds the package vllm.

    ``files`` are further modules of the package, by name.
    """
    packages = directory / "packages"
    metadata = f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n"
    texts = {"vllm/__init__.py": source, f"vllm-{version}.dist-info/METADATA": metadata}
    for name, text in {**texts, **{f"vllm/{key}.py": text for key, text in files.items()}}.items():
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text(text, encoding="utf-8")
    python = _program(directory / "python", f"/bin/sh\nPYTHONPATH={packages} exec {sys.executable}")
    python.write_text(python.read_text(encoding="utf-8").rstrip() + ' "$@"\n', encoding="utf-8")
    return _program(directory / "vllm", str(python))


def _program(path: Path, behind_the_mark: str) -> Path:
    path.write_text(f"#!{behind_the_mark}\n", encoding="utf-8")
    path.chmod(0o755)
    return path
