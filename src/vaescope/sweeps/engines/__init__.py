"""Engines that run the jobs of a sweep: in this process, in several processes, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from vaescope.registry import lookup
from vaescope.sweeps.engines.local import run_locally
from vaescope.sweeps.engines.ray import run_on_ray
from vaescope.sweeps.jobs import Job


class Engine(Protocol):
    """Runs jobs in a folder of runs and yields each when it is done; options of other engines are refused."""

    def __call__(
        self,
        jobs: Sequence[Job],
        runs: Path,
        *,
        device: str = "cpu",
        checkpoint_seconds: float = 20.0,
        workers: int | None = None,
        address: str | None = None,
    ) -> Iterator[Job]: ...


ENGINES: dict[str, Engine] = {"local": run_locally, "ray": run_on_ray}


def get_engine(name: str) -> Engine:
    """The engine with this name."""
    return lookup(ENGINES, name, "engine")
