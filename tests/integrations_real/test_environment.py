"""The environment of these tests: the versions that are pinned, and no packages for a GPU."""

from __future__ import annotations

import re
from importlib.metadata import distributions
from pathlib import Path

import pytest

PINS = [Path(__file__).parent / "constraints.txt", Path(__file__).parent.parent.parent / "constraints.txt"]


def normalised(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def installed() -> dict[str, str]:
    return {normalised(found.metadata["Name"]): found.version.split("+")[0] for found in distributions()}


def test_every_package_has_the_version_that_is_pinned(installed: dict[str, str]) -> None:
    lines = [line for path in PINS for line in path.read_text(encoding="utf-8").splitlines() if "==" in line]
    pinned = {normalised(name): version for name, version in (line.split("==") for line in lines)}
    assert {name: version for name, version in installed.items() if pinned.get(name, version) != version} == {}
    assert sorted(installed.keys() - pinned.keys() - {"pip", "setuptools", "vaescope"}) == []


def test_no_package_for_a_gpu_is_installed(installed: dict[str, str]) -> None:
    assert [name for name in installed if "nvidia" in name or "cuda" in name] == []
