"""Engines perform the jobs of a sweep: here, in several processes, or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from vaescope.registry import lookup
from vaescope.sweeps.engines.local import local
from vaescope.sweeps.jobs import Job


def ray(jobs: Sequence[Job], runs: Path, **options: Any) -> Iterator[Job]:
    """The engine of the extra `ray`, loaded when it is asked for."""
    from vaescope.sweeps.engines.ray import cluster

    return cluster(jobs, runs, **options)


# Name -> a function of the jobs and the folder of runs that yields each job when it is done.
ENGINES: dict[str, Callable[..., Iterator[Job]]] = {"local": local, "ray": ray}


def get_engine(name: str) -> Callable[..., Iterator[Job]]:
    """The engine of that name."""
    return lookup(ENGINES, name, "engine")
