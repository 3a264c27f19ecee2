"""A sweep on a cluster equals one on this machine, also if workers or nodes die."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import vaescope
from vaescope import __version__
from vaescope.errors import RunError
from vaescope.runs.folders import locked, sweep_marker
from vaescope.runs.following import Follower
from vaescope.runs.journal import Journal
from vaescope.runs.record import RESULTS_FILE, STATE_FILE
from vaescope.runs.run import Run
from vaescope.runs.store import Store
from vaescope.sweeps.engines import get_engine
from vaescope.sweeps.engines.local import run_locally
from vaescope.sweeps.engines.ray import NodeRequirements, run_job_on_node, run_on_ray
from vaescope.sweeps.jobs import EngineOptions, Job, is_done, make_jobs
from vaescope.sweeps.specification import Sweep
from vaescope.training.checkpoint import load_state

# A large net trains alone and small ones together: jobs of one run and of several.
LARGE = {"name": "mlp", "encoder_widths": [320, 160], "decoder_widths": [160, 320]}
SMALL = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}


def swept(
    steps: int = 5, nets: tuple[Any, ...] = (SMALL,), betas: tuple[float, ...] = (1.0,), seeds: int = 1, **member: Any
) -> list[Job]:
    sweep = Sweep(
        "digits",
        {"steps": steps, "batch": 32, "log_every": 20, "evaluate_every": 100},
        {"latents": 4, "learning_rate": 1e-3, **member},
        grid={"net": nets, "objective.beta": betas, "seed": range(seeds)},
    )
    return make_jobs(sweep)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """A cluster of one node with one core."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # Workers do not start where this process did, so its path must not be relative.
        patch.setenv("PYTHONPATH", str(Path(vaescope.__file__).parents[1]))
        started = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        yield started
        started.shutdown()


def busy_worker(node: Any) -> int:
    """The process of a node that performs a job, waited for."""
    raylet = node.all_processes["raylet"][0].process.pid

    def busy() -> list[int]:
        listed = subprocess.run(["ps", "-A", "-o", "ppid=,pid=,args="], capture_output=True, text=True, check=True)
        lines = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
        title = f"ray::{run_job_on_node.__name__}"
        return [int(pid) for parent, pid, command in lines if int(parent) == raylet and command.startswith(title)]

    return wait_until(busy)[0]


def wait_until(look: Callable[[], Any]) -> Any:
    """The result of a function as soon as it is not empty."""
    until = time.monotonic() + 60
    while not (found := look()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return found


@contextmanager
def holding(folder: Path, released: threading.Event) -> Iterator[None]:
    """Another process holds the lock of a run until it is released."""
    held = threading.Event()

    def hold() -> None:
        with locked([folder]):
            held.set()
            released.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        yield
    finally:
        released.set()
        holder.join()


def contents(jobs: list[Job], runs: Path) -> dict[str, Any]:
    """Weights, history and results of every run, bit for bit."""
    store, found = Store(runs), {}
    for identity in (one for job in jobs for one in job.ids):
        path = store.path(identity)
        record = json.loads((path / "run.json").read_text())
        found[identity] = (
            (path / "model.safetensors").read_bytes(),
            Journal(path).rows(),
            (path / RESULTS_FILE).read_bytes(),
            record["status"],
            record["configuration"],
        )
    return found


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
@pytest.mark.slow
def test_a_sweep_that_loses_a_worker_and_a_node_equals_one_on_this_machine(nodes: Any, tmp_path: Path) -> None:
    import ray

    jobs = swept(100, (LARGE, SMALL), (1.0, 2.0, 4.0), 3)
    assert len(jobs) >= 8
    assert sum(len(job.ids) for job in jobs) == 18
    first, second = nodes.head_node, nodes.add_node(num_cpus=1)
    performed = run_on_ray(jobs, EngineOptions(tmp_path / "there", address=nodes.address, checkpoint_seconds=0.1))
    done = [next(performed)]
    os.kill(busy_worker(first), signal.SIGKILL)
    done.append(next(performed))
    busy_worker(second)
    nodes.remove_node(second, allow_graceful=False)
    done += performed
    assert not ray.is_initialized()

    assert sorted(job.number for job in done) == [job.number for job in jobs]
    assert all(is_done(job, tmp_path / "there") for job in jobs)
    assert len(list(Store(tmp_path / "there").runs())) == 18
    for job in run_locally(jobs, EngineOptions(tmp_path / "here", workers=1)):
        assert contents([job], tmp_path / "there") == contents([job], tmp_path / "here")


@pytest.mark.slow
def test_an_interrupted_sweep_leaves_a_checkpoint_and_resumes(nodes: Any, tmp_path: Path) -> None:
    jobs = swept(200, (LARGE,), seeds=2)
    performed = run_on_ray(jobs, EngineOptions(tmp_path / "there", address=nodes.address, checkpoint_seconds=1000.0))
    first = next(performed)
    (second,) = (job for job in jobs if job is not first)
    path = Store(tmp_path / "there").path(second.ids[0])
    wait_until(lambda: Journal(path).rows() != [])
    with pytest.raises(KeyboardInterrupt):
        performed.throw(KeyboardInterrupt)
    assert 0 < load_state(path / STATE_FILE).step < 200
    assert not is_done(second, tmp_path / "there")

    for folder, missing in (("there", [second]), ("here", jobs)):
        assert list(run_locally(missing, EngineOptions(tmp_path / folder, workers=1))) == missing
    assert contents(jobs, tmp_path / "there") == contents(jobs, tmp_path / "here")


@pytest.mark.slow
def test_rows_of_a_cluster_reach_the_caller_before_its_jobs_are_done(nodes: Any, tmp_path: Path) -> None:
    jobs, rows = swept(100, (LARGE, SMALL), seeds=2), []
    options = EngineOptions(tmp_path, address=nodes.address, follower=Follower(rows.append))
    for job in run_on_ray(jobs, options):
        for identity in job.ids:
            sent = [{"step": row.step, "split": row.split, **row.values} for row in rows if row.run == identity]
            assert sent == Run.open(tmp_path / identity).history


@pytest.mark.slow
def test_a_failing_task_names_the_reason_and_an_existing_connection_stays_open(nodes: Any, tmp_path: Path) -> None:
    import ray

    ray.init(address=nodes.address, log_to_driver=False)
    try:
        broken = [replace(job, data=str(tmp_path / "absent.npy")) for job in swept()]
        with pytest.raises(RunError, match=r"absent\.npy"):
            list(run_on_ray(broken, EngineOptions(tmp_path, address=nodes.address)))
        wild = swept(learning_rate=1e30)
        assert len(list(run_on_ray(wild, EngineOptions(tmp_path, address=nodes.address)))) == len(wild)
        assert {Run.open(tmp_path / identity).status for job in wild for identity in job.ids} == {"failed"}
        with pytest.raises(RunError, match=f"{nodes.address}.*'elsewhere:1'"):
            list(run_on_ray(swept(), EngineOptions(tmp_path, address="elsewhere:1")))
        with pytest.raises(RunError, match="GPU"):
            list(run_on_ray(swept(), EngineOptions(tmp_path, device="cuda")))
        assert ray.is_initialized()
    finally:
        ray.shutdown()


def test_without_ray_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(RunError, match=r"pip install 'vaescope\[ray\]'"):
        list(get_engine("ray")(swept(), EngineOptions(tmp_path)))


def test_an_address_without_a_cluster_is_named(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    for wrong in (address, "nonsense", "host:port"):
        with pytest.raises(RunError, match=f"address '{wrong}'"):
            list(run_on_ray(swept(), EngineOptions(tmp_path, address=wrong)))
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_no_cluster_is_named_before_a_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vaescope.sweeps.engines.ray.CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            connection, _ = other.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer).start()
        for server in (silent, other):
            address = f"127.0.0.1:{server.getsockname()[1]}"
            began = time.monotonic()
            with pytest.raises(RunError, match=f"address '{address}'"):
                list(run_on_ray(swept(), EngineOptions(tmp_path, address=address)))
            assert time.monotonic() - began < 20
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(RunError, match="no Ray cluster can be reached"):
            list(run_on_ray(swept(), EngineOptions(tmp_path)))
    assert list(tmp_path.iterdir()) == []


def test_an_unreachable_address_is_named(tmp_path: Path) -> None:
    for wrong in ("127.0.0.1:99999", f"127.0.0.1:{'9' * 5000}", f"{'h' * 5000}:1"):
        with pytest.raises(RunError, match="no Ray cluster can be reached"):
            list(run_on_ray(swept(), EngineOptions(tmp_path, address=wrong)))


def test_the_marker_of_a_killed_sweep_is_removed_by_the_next(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib; from vaescope.runs.folders import sweep_marker\n"
        "with sweep_marker(pathlib.Path(sys.argv[1])): print(flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(vaescope.__file__).parents[1])}
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as killed:
        assert killed.stdout is not None
        killed.stdout.readline()
        (left,) = tmp_path.iterdir()
        with sweep_marker(tmp_path) as running:
            assert set(tmp_path.iterdir()) == {left, running}
            killed.kill()
            killed.wait()
            with sweep_marker(tmp_path) as second:
                assert set(tmp_path.iterdir()) == {running, second}
    assert list(tmp_path.iterdir()) == []


def test_a_node_that_does_not_see_the_folder_of_runs_or_has_another_version_says_so(tmp_path: Path) -> None:
    (job,) = swept()
    place = NodeRequirements(tmp_path / "sign", tmp_path, __version__)
    assert "must share the folder of runs" in str(run_job_on_node(job, EngineOptions(tmp_path), place))
    other = replace(place, version="0.0.0")
    assert "must have vaescope 0.0.0" in str(run_job_on_node(job, EngineOptions(tmp_path), other))


def test_a_job_waits_for_a_lock_but_not_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (job,) = swept()
    place = NodeRequirements(tmp_path, tmp_path, __version__)
    released = threading.Event()
    with holding(Store(tmp_path).path(job.ids[0]), released):
        monkeypatch.setattr("vaescope.sweeps.engines.ray.LOCK_SECONDS", 0.1)
        assert "is being trained by another process" in str(run_job_on_node(job, EngineOptions(tmp_path), place))
        monkeypatch.setattr("vaescope.sweeps.engines.ray.LOCK_SECONDS", 60.0)
        threading.Timer(0.7, released.set).start()
        assert run_job_on_node(job, EngineOptions(tmp_path), place) is None
    assert is_done(job, tmp_path)


def test_importing_the_package_and_its_engines_does_not_load_ray(tmp_path: Path) -> None:
    code = "import sys, vaescope.sweeps.engines.ray as engine; print(engine.__name__, 'ray' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(Path(vaescope.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment, cwd=tmp_path
    )
    assert done.stdout.split() == ["vaescope.sweeps.engines.ray", "False"]
