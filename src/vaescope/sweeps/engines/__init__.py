"""Engines that run the jobs of a sweep: in this process, in several processes, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from vaescope.registry import lookup
from vaescope.sweeps.engines.local import run_locally
from vaescope.sweeps.engines.ray import run_on_ray
from vaescope.sweeps.jobs import EngineOptions, Job

# Yields each job when it is done; options of other engines are refused.
Engine: TypeAlias = Callable[[Sequence[Job], EngineOptions], Iterator[Job]]
ENGINES: dict[str, Engine] = {"local": run_locally, "ray": run_on_ray}


def get_engine(name: str) -> Engine:
    """The engine with this name."""
    return lookup(ENGINES, name, "engine")
