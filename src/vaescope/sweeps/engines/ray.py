"""Jobs on a cluster of Ray: one task for each, done again elsewhere when a worker or a node dies."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import socket
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vaescope import __version__
from vaescope.checks import whole_number
from vaescope.errors import RunError, VaescopeError
from vaescope.runs.locks import make_folder
from vaescope.sweeps.execute import run_job_when_free
from vaescope.sweeps.jobs import Job

RETRIES = 5  # of a job whose worker or node died
PATIENCE = 120.0  # seconds until a process cut off from its cluster has ended, and its locks with it
REACH = 10.0  # seconds to reach an address
STOPPING = 30.0  # seconds for a task that is cancelled to write its checkpoint


def cluster(
    jobs: Sequence[Job],
    runs: Path,
    *,
    device: str = "cpu",
    address: str | None = None,
    checkpoint_seconds: float = 20.0,
    retries: int = RETRIES,
) -> Iterator[Job]:
    """Each job when it is done, as a task of a cluster that asks for one core, and for a GPU when the device is one.

    `address` is 'auto' for the cluster that this machine belongs to, 'host:port' for another; left out, it is that of
    RAY_ADDRESS, or else a cluster of this machine alone that ends with the call. The folder of runs must be shared by
    the nodes and have the same path on all of them, and each must have the same version of vaescope. A job that died
    with its worker goes on elsewhere from its last checkpoint, `retries` times at most. Stopped, the tasks write a
    checkpoint and end.
    """
    retries = whole_number("retries", retries, 0)
    folder = Path(runs).absolute()
    make_folder(folder)
    with _connected(address) as ray, tempfile.NamedTemporaryFile(dir=folder, prefix=".sweep-") as sign:
        kind = torch.device(device).type
        _check_devices(ray, kind)
        place = Place(folder, Path(sign.name), Path.cwd(), __version__)
        task = ray.remote(num_cpus=1, num_gpus=int(kind == "cuda"), max_retries=retries)(perform_there)
        waiting = {task.remote(job, place, kind, checkpoint_seconds): job for job in jobs}
        try:
            yield from _as_done(ray, waiting)
        finally:
            _cancel(ray, list(waiting))


@dataclass(frozen=True)
class Place:
    """What a worker must find on its node: the folder of runs, a file in it that is there while the sweep runs, the
    folder that relative paths of data start from, and the version of vaescope."""

    runs: Path
    sign: Path
    here: Path
    version: str


def perform_there(job: Job, place: Place, device: str, checkpoint_seconds: float) -> str | None:
    """Perform a job in a worker; the sentence of an error that no second attempt would mend, or None.

    As a value it arrives as it was written; Ray would wrap an exception in the worker's traceback.
    """
    try:
        _check_place(place)
        with contextlib.chdir(place.here) if place.here.is_dir() else contextlib.nullcontext():
            # A job that is retried may find the process before it still dying, and its locks held.
            run_job_when_free(job, place.runs, device, checkpoint_seconds, PATIENCE)
    except VaescopeError as error:
        return str(error)
    return None


def _check_place(place: Place) -> None:
    if place.version != __version__:
        raise RunError(
            f"the node {platform.node()} must have vaescope {place.version} like the machine that asked for the sweep, "
            f"it has {__version__}. Install the same version on all nodes."
        )
    if not place.sign.exists():
        raise RunError(
            f"the node {platform.node()} must see the folder of runs of the machine that asked for the sweep, its "
            f"{place.runs} is missing or another one. Choose a folder that the nodes share, under the same path on all."
        )


@contextlib.contextmanager
def _connected(address: str | None) -> Iterator[Any]:
    """Ray, connected; a connection that was there before is used, and stays."""
    try:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray
    except ImportError as error:
        raise RunError(
            "the engine 'ray' needs the package ray, which is not installed. Run: pip install 'vaescope[ray]'"
        ) from error
    if ray.is_initialized():
        _check_same(ray.get_runtime_context().gcs_address, address)
        yield ray
        return
    try:
        _check_reachable(address)
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise RunError(
            f"there must be a cluster of Ray at the address {address!r}, it cannot be reached "
            f"({_said(error)}). Start one with `ray start --head`, or leave the address out to use this machine."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_same(connected: str, address: str | None) -> None:
    if address not in (None, "auto", connected):
        raise RunError(
            f"the address must be that of the cluster that this process is connected to, {connected}, got {address!r}. "
            "Leave it out, or call ray.shutdown() first."
        )


def _check_reachable(address: str | None) -> None:
    """Ray itself tries for minutes to reach a host that does not answer."""
    if address is None or "://" in address or ":" not in address:
        return
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        raise ValueError("the port must be a whole number")
    socket.create_connection((host.strip("[]"), int(port)), timeout=REACH).close()


def _check_devices(ray: Any, kind: str) -> None:
    """Ray would wait for a GPU that never comes."""
    if kind == "cuda" and ray.cluster_resources().get("GPU", 0) < 1:
        raise RunError(
            "a node of the cluster must have a GPU for the device 'cuda', none has. Choose the device 'cpu'."
        )


def _as_done(ray: Any, waiting: dict[Any, Job]) -> Iterator[Job]:
    """Each job when its task is done; what is done is taken out of `waiting`."""
    while waiting:
        done, _ = ray.wait(list(waiting), num_returns=1)
        for one in done:
            job = waiting.pop(one)
            try:
                sentence = ray.get(one)
            except ray.exceptions.RayError as error:
                raise RunError(
                    f"job {job.number} ({len(job.ids)} runs, the first {job.ids[0]}) was given up by the cluster "
                    f"({_said(error)}). Every node needs vaescope, the data and enough memory; asked again, the same "
                    "sweep goes on from what was trained."
                ) from error
            if sentence is not None:
                raise RunError(sentence)
            yield job


def _cancel(ray: Any, tasks: list[Any]) -> None:
    """Interrupt the tasks that are not done, and wait until those that run have written their checkpoints."""
    for task in tasks:
        ray.cancel(task)
    if tasks:
        ray.wait(tasks, num_returns=len(tasks), timeout=STOPPING)


def _said(error: Exception) -> str:
    """What an error says in one line: that of a task, without the way it came."""
    cause = getattr(error, "cause", None) or error
    return f"{type(cause).__name__}: {next(iter(str(cause).strip().splitlines()), '')}"
