"""Available memory is compared with the need before allocation; the error has both numbers."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from vaescope import memory
from vaescope.errors import ConfigurationError
from vaescope.memory import available_memory, check_memory, memory_shortage

GIGABYTE = 10**9


def test_the_error_has_the_need_the_available_memory_and_the_remedy() -> None:
    check_memory("a model", 2 * GIGABYTE, "Choose another.", 2 * GIGABYTE)
    with pytest.raises(ConfigurationError, match=r"a model .* 2\.5 GB .* 2\.0 GB .* Choose another\."):
        check_memory("a model", 2.5 * GIGABYTE, "Choose another.", 2 * GIGABYTE)


def test_available_memory_is_the_minimum_over_system_container_and_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, container = tmp_path / "meminfo", tmp_path / "memory.max"
    system.write_text("MemTotal: 9000 kB\nMemAvailable:  4000 kB\nHugePages_Total: 0\nSwapFree: 1000 kB\n")
    monkeypatch.setattr(memory, "MEMORY_FILE", system)
    monkeypatch.setattr(memory, "CONTAINER_FILE", container)
    assert available_memory() == 5000 * 1024
    container.write_text("max\n")
    assert available_memory() == 5000 * 1024
    container.write_text("2048000\n")
    assert available_memory() == 2_048_000


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_the_limit_of_the_process_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda kind: (0, 0))
    assert available_memory() == 0
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY, 0))
    assert 0 < available_memory() < math.inf


def test_a_failed_allocation_becomes_one_sentence_and_other_errors_pass() -> None:
    for failure in (MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 12 bytes")):
        said = pytest.raises(ConfigurationError, match=r"the steps must fit into memory.* Use less\.")
        with said, memory_shortage("the steps", "Use less."):
            raise failure
    with pytest.raises(RuntimeError, match="shapes differ"), memory_shortage("the steps", "Use less."):
        raise RuntimeError("shapes differ")
