"""How much memory there is, and a check before something larger is allocated."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vaescope.errors import ConfigurationError

MEMORY_FILE, SIZE_FILE = Path("/proc/meminfo"), Path("/proc/self/statm")
CONTAINER_FILE = Path("/sys/fs/cgroup/memory.max")
ALLOCATION_FAILURES = ("can't allocate memory", "out of memory")  # in messages of torch


def check_memory(what: str, needed: float, remedy: str, available: float | None = None) -> None:
    """Raise an error that has both numbers unless `needed` bytes are available; default: of this process's memory."""
    available = available_memory() if available is None else available
    if needed > available:
        raise ConfigurationError(
            f"{what} must fit into memory: {needed / 1e9:,.1f} GB are needed, {available / 1e9:,.1f} GB are available. "
            f"{remedy}"
        )


@contextmanager
def memory_shortage(what: str, remedy: str) -> Iterator[None]:
    """Turn an allocation that fails into an error that says what must fit; on a CPU torch has no class for it."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not any(words in str(error) for words in ALLOCATION_FAILURES):
            raise
        raise ConfigurationError(f"{what} must fit into memory, but memory ran out. {remedy}") from error


def available_memory() -> float:
    """Bytes that this process can still allocate: the minimum over system, container and process limit."""
    return min(_left_by_system(), _left_by_container(), _left_by_process())


def _left_by_system() -> float:
    """Free memory, reclaimable caches and swap; the total memory if the system does not report them."""
    if MEMORY_FILE.is_file():
        lines = (line.split() for line in MEMORY_FILE.read_text(encoding="utf-8").splitlines())
        kilobytes = {name: int(number) for name, number, *_ in lines}
        return 1024 * (kilobytes.get("MemAvailable:", kilobytes["MemTotal:"]) + kilobytes.get("SwapFree:", 0))
    if sys.platform == "win32":
        return math.inf
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _left_by_container() -> float:
    limit = CONTAINER_FILE.read_text(encoding="utf-8").strip() if CONTAINER_FILE.is_file() else ""
    return int(limit) if limit.isdecimal() else math.inf


def _left_by_process() -> float:
    """The remainder of the limit set by `ulimit -v`."""
    if sys.platform == "win32":
        return math.inf
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return math.inf
    used = int(SIZE_FILE.read_text(encoding="utf-8").split()[0]) if SIZE_FILE.is_file() else 0
    return max(0, limit - used * resource.getpagesize())
