"""Jobs on a Ray cluster: one task each, which runs again elsewhere if its worker or node dies."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import torch

from vaescope import __version__
from vaescope.errors import ConfigurationError, RunError, VaescopeError, quoted
from vaescope.runs.folders import make_folder, sweep_marker
from vaescope.sweeps.jobs import EngineOptions, Job, run_job_when_free
from vaescope.sweeps.tail import HistoryTail, tailed

MAX_RETRIES = 5  # of a job whose worker or node died
LOCK_SECONDS = 120.0  # until a process that lost its cluster has ended and released its locks
CONNECT_SECONDS = 10.0  # to connect, and then to answer
MAX_PORT = 65_535
# How a client opens a connection (RFC 9113, section 3.4), and the type of the frame that answers it.
HTTP2_PREFACE, HTTP2_SETTINGS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", b"\4"
STOP_SECONDS = 30.0  # seconds for a cancelled task to write its checkpoint


def run_on_ray(jobs: Sequence[Job], options: EngineOptions) -> Iterator[Job]:
    """Yield each job when its task is done; a task requests one core, and a GPU if the device is 'cuda'.

    The nodes must share the folder of runs under the same path, and have the same version of vaescope. A job whose
    worker died resumes elsewhere from its last checkpoint. If this call is interrupted, the tasks write a checkpoint
    and end. Rows are read from the folder of runs.
    """
    if options.workers is not None:
        raise ConfigurationError(f"workers is an option of the engine 'local', got {options.workers!r} with 'ray'.")
    kind = torch.device(options.device).type
    options = replace(options, runs=Path(options.runs).absolute(), device=kind)
    make_folder(options.runs)
    with tailed(jobs, options) as tail, _connected(options.address) as ray, sweep_marker(options.runs) as marker:
        # Ray would wait for a GPU forever.
        if kind == "cuda" and ray.cluster_resources().get("GPU", 0) < 1:
            raise RunError(
                "a node of the cluster must have a GPU for the device 'cuda', none has. Use the device 'cpu'."
            )
        node = NodeRequirements(marker, Path.cwd(), __version__)
        run = ray.remote(num_cpus=1, num_gpus=int(kind == "cuda"), max_retries=MAX_RETRIES)(run_job_on_node)
        waiting = {run.remote(job, options.elsewhere(), node): job for job in jobs}
        try:
            yield from _as_completed(ray, waiting, tail)
        finally:
            # Interrupt the unfinished tasks, and wait until the running ones have written their checkpoints.
            for task in waiting:
                ray.cancel(task)
            if waiting:
                ray.wait(list(waiting), num_returns=len(waiting), timeout=STOP_SECONDS)


@dataclass(frozen=True)
class NodeRequirements:
    """Requirements of a node: the version of vaescope, and a marker file in the folder of runs during the sweep.

    Relative paths of data start from `working_folder`.
    """

    marker: Path
    working_folder: Path
    version: str


def run_job_on_node(job: Job, options: EngineOptions, node: NodeRequirements) -> str | None:
    """Run a job in a worker; returns None, or the message of an error that a retry would not fix.

    The message is returned, not raised: Ray would wrap an exception in the worker's traceback.
    """
    try:
        _check_node(node)
        with contextlib.chdir(node.working_folder) if node.working_folder.is_dir() else contextlib.nullcontext():
            # The previous process of the job may still be terminating and hold its locks.
            run_job_when_free(job, options, LOCK_SECONDS)
    except VaescopeError as error:
        return str(error)
    return None


def _check_node(node: NodeRequirements) -> None:
    if node.version != __version__:
        raise RunError(
            f"the node {platform.node()} must have vaescope {node.version}, as the machine that started the sweep; "
            f"it has {__version__}. Install the same version on all nodes."
        )
    if not node.marker.exists():
        raise RunError(
            f"the node {platform.node()} must share the folder of runs {node.marker.parent} with the machine that "
            "started the sweep; there it is missing or another one. Choose a folder that all nodes share under the "
            "same path."
        )


@contextlib.contextmanager
def _connected(address: str | None) -> Iterator[ModuleType]:
    """Ray, connected; an existing connection is used and stays open."""
    try:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        import ray
    except ImportError as error:
        raise RunError(
            "the engine 'ray' needs the package ray, which is not installed. Run: pip install 'vaescope[ray]'"
        ) from error
    if ray.is_initialized():
        connected = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", connected):
            raise RunError(
                f"this process is connected to the Ray cluster at {connected}, got the address {address!r}. Give no "
                "address, or call ray.shutdown() first."
            )
        yield ray
        return
    try:
        _check_reachable(address)
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise RunError(
            f"no Ray cluster can be reached at the address {quoted(address)} ({_first_line(error)}). Start one with "
            "`ray start --head`, or give no address to use this machine."
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Raise an error unless an HTTP/2 server such as Ray answers; with any other server Ray would retry for minutes."""
    address = os.environ.get("RAY_ADDRESS") if address is None else address
    if address is None or "://" in address or ":" not in address:
        return
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or int(port) > MAX_PORT:
        raise ValueError(f"the port must be a whole number of at most {MAX_PORT}")
    with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS) as connection:
        if os.environ.get("RAY_USE_TLS", "0") != "0":
            return  # its response is encrypted
        connection.sendall(HTTP2_PREFACE)
        with connection.makefile("rb") as answer:
            # The first frame of a server holds its settings: three bytes of length, then the type.
            if answer.read(4)[3:] != HTTP2_SETTINGS:
                raise ValueError("another kind of server answers there")


def _as_completed(ray: ModuleType, waiting: dict[object, Job], tail: HistoryTail) -> Iterator[Job]:
    """Each job when its task is done; finished tasks are removed from `waiting`."""
    while waiting:
        done, _ = ray.wait(list(waiting), num_returns=1, timeout=tail.seconds)
        tail.poll()
        for task in done:
            job = waiting.pop(task)
            try:
                message = ray.get(task)
            except ray.exceptions.RayError as error:
                raise RunError(
                    f"the cluster gave up job {job.number} ({len(job.ids)} runs, the first {job.ids[0]}: "
                    f"{_first_line(error)}). Every node needs vaescope, the data and enough memory. Run the same sweep "
                    "again: it resumes."
                ) from error
            if message is not None:
                raise RunError(message)
            tail.done(job)
            yield job


def _first_line(error: Exception) -> str:
    """The first line of an error's message; for an error in a task, without its traceback."""
    cause = getattr(error, "cause", None) or error
    return f"{type(cause).__name__}: {next(iter(str(cause).strip().splitlines()), '')}"
