"""Random numbers as a function of (seed, stream, step, row, column): Philox 4x32-10 (Salmon et al., 2011).

There is no state: runs resume exactly, members of an ensemble are independent of each other, several steps can be drawn
at once, and the first n columns of a wide draw equal a draw of n columns.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

Members: TypeAlias = Int[Tensor, "*members"]
Steps: TypeAlias = Int[Tensor, "*steps"]
Rows: TypeAlias = Int[Tensor, "rows"]
# The axes of the steps, then those of the members, come first.
Draws: TypeAlias = Float[Tensor, "... rows columns"]
Words: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor]

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = 0xFFFFFFFF


def philox(counter: Sequence[Tensor], key: Sequence[Tensor]) -> Words:
    """Four words of 32 random bits, held in int64, for four counter and two key words that broadcast."""
    first, second, third, fourth = counter
    low, high = key
    for _ in range(_ROUNDS):
        left, right = first * _MULTIPLIERS[0], third * _MULTIPLIERS[1]
        first, second, third, fourth = (
            ((right >> 32) & _LOW) ^ second ^ low,
            right & _LOW,
            ((left >> 32) & _LOW) ^ fourth ^ high,
            left & _LOW,
        )
        low, high = (low + _WEYL[0]) & _LOW, (high + _WEYL[1]) & _LOW
    return first, second, third, fourth


def float64_device(device: torch.device | str) -> torch.device:
    """Where float64 numbers, those of this module too, are computed for a device: there, or on the CPU for 'mps'."""
    device = torch.device(device)
    return torch.device("cpu") if device.type == "mps" else device


def stream_number(name: str) -> int:
    """A 32-bit number for a named stream of randomness."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")


def derived_seed(seed: int, name: str) -> int:
    """A separate seed for a named use of `seed`, for generators with state."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:8], "little") >> 1


@contextmanager
def seeded(seed: int, name: str, device: torch.device) -> Iterator[None]:
    """Seed torch's own generators inside the block, for modules that draw by themselves.

    Afterwards their previous state is restored.
    """
    mps = torch.mps.get_rng_state() if device.type == "mps" else None
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        # `torch.manual_seed` also keeps seeds for accelerators that are never used, which takes a hundred times longer.
        seed_all = torch.default_generator.manual_seed if device.type == "cpu" else torch.manual_seed
        seed_all(derived_seed(seed, name))
        try:
            yield
        finally:
            if mps is not None:
                torch.mps.set_rng_state(mps)


def _words(seeds: Members, stream: str, steps: Steps, rows: Rows, columns: int) -> Words:
    device = seeds.device
    trailing = (1,) * (seeds.ndim + 2)
    step = steps.to(device).reshape(*steps.shape, *trailing)
    seed = seeds.reshape(*seeds.shape, 1, 1)
    row = rows.to(device).unsqueeze(-1)
    column = torch.arange(columns, device=device)
    number = torch.full((), stream_number(stream), dtype=torch.int64, device=device)
    # Without the mask, the compiler treats the column as an index and multiplies it as int32 (torch 2.11, Triton).
    return philox((column & _LOW, row, step, number), (seed & _LOW, (seed >> 32) & _LOW))


def uniform(seeds: Members, stream: str, steps: Steps, rows: Rows, columns: int) -> Draws:
    """Uniform numbers in [0, 1) with 53 random bits, float64, on the seeds' device."""
    first, second, _, _ = _words(seeds, stream, steps, rows, columns)
    return unit_number(first, second)


def normal(seeds: Members, stream: str, steps: Steps, rows: Rows, columns: int) -> Draws:
    """Standard normal numbers by Box and Muller, float64, on the seeds' device."""
    first, second, third, fourth = _words(seeds, stream, steps, rows, columns)
    radius = torch.sqrt(-2 * torch.log1p(-unit_number(first, second)))
    return radius * torch.cos(2 * math.pi * unit_number(third, fourth))


def permutation(seeds: Members, stream: str, steps: Steps, items: int) -> Int[Tensor, "... items"]:
    """A random permutation of `items` for each step and member; the same integers on every device."""
    rows = torch.arange(items, device=seeds.device)
    first, second, _, _ = _words(seeds, stream, steps, rows, 1)
    keys = ((first << 31) | (second >> 1)).squeeze(-1)
    return torch.argsort(keys, dim=-1, stable=True)


def unit_number(high: Tensor, low: Tensor) -> Tensor:
    """A double in [0, 1) from two words of 32 bits."""
    return ((high >> 5).to(torch.float64) * 2.0**26 + (low >> 6)) * 2.0**-53
