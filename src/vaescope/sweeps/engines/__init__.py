"""Engines that run the jobs of a sweep: in this process, in several processes, or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from vaescope.errors import ConfigurationError
from vaescope.registry import lookup
from vaescope.sweeps.engines.local import run_locally
from vaescope.sweeps.jobs import Job


class Engine(Protocol):
    """Runs jobs in a folder of runs and yields each when it is done."""

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


def start_local(
    jobs: Sequence[Job],
    runs: Path,
    *,
    device: str = "cpu",
    checkpoint_seconds: float = 20.0,
    workers: int | None = None,
    address: str | None = None,
) -> Iterator[Job]:
    """Run jobs in processes of this machine."""
    if address is not None:
        raise ConfigurationError(f"address is an option of the engine 'ray', got {address!r} with 'local'.")
    return run_locally(jobs, runs, device=device, workers=workers, checkpoint_seconds=checkpoint_seconds)


def start_ray(
    jobs: Sequence[Job],
    runs: Path,
    *,
    device: str = "cpu",
    checkpoint_seconds: float = 20.0,
    workers: int | None = None,
    address: str | None = None,
) -> Iterator[Job]:
    """Run jobs on a Ray cluster; ray is loaded here."""
    from vaescope.sweeps.engines.ray import run_on_ray

    if workers is not None:
        raise ConfigurationError(f"workers is an option of the engine 'local', got {workers!r} with 'ray'.")
    return run_on_ray(jobs, runs, device=device, address=address, checkpoint_seconds=checkpoint_seconds)


ENGINES: dict[str, Engine] = {"local": start_local, "ray": start_ray}


def get_engine(name: str) -> Engine:
    """The engine with this name."""
    return lookup(ENGINES, name, "engine")
