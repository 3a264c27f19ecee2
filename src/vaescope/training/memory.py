"""Memory that a step frees stays with the process for the next step."""

from __future__ import annotations

import ctypes
import sys
from functools import cache

# Parameters of mallopt in glibc's malloc.h, and sizes that no activation of a training step passes.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
KEPT, LARGEST = 2**31 - 1, 2**30


@cache
def keep_freed_memory() -> bool:
    """Ask glibc not to hand freed activations back to the system; whether it agreed.

    By default it returns them after every step and the next step meets thousands of page faults, a tenth of its
    time and more. Other C libraries are left as they are.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(M_MMAP_THRESHOLD, LARGEST)) and bool(mallopt(M_TRIM_THRESHOLD, KEPT))
