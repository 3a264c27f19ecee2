"""The process keeps memory that a step frees for the next step."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

# Parameters of mallopt in glibc's malloc.h, and sizes that no activation of a training step exceeds.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
TRIM_BYTES, MMAP_BYTES = 2**31 - 1, 2**30


@cache
def keep_freed_memory() -> bool:
    """Ask glibc not to return freed activations to the system; returns whether it agreed.

    By default it returns them after every step, and the next step has thousands of page faults, which take a tenth of
    its time or more. Other C libraries are left unchanged.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, MMAP_BYTES)) and bool(mallopt(M_TRIM_THRESHOLD, TRIM_BYTES))
