"""Sweeps: grids, jobs, and tables that do not depend on interruptions."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import vaescope
from vaescope.data import open_dataset
from vaescope.errors import ConfigurationError, DataError, NonFiniteError, RunError, UnknownNameError
from vaescope.objectives import OBJECTIVES
from vaescope.runs import Run
from vaescope.runs.folders import locked
from vaescope.runs.measurements import MeasurementSpec, MissingMetricWarning
from vaescope.runs.record import RESULTS_FILE
from vaescope.runs.store import Store
from vaescope.sweeps.engines.local import available_cores, run_locally
from vaescope.sweeps.jobs import EngineOptions, is_done, make_jobs
from vaescope.sweeps.run import plan_sweep, rows_of, run_sweep
from vaescope.sweeps.specification import Sweep, Trial

SMALL = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}
LARGE = {"name": "mlp", "encoder_widths": [400, 200], "decoder_widths": [200, 400]}


def digits(grid: dict[str, Any], **more: Any) -> Sweep:
    settings = {"net": SMALL, "steps": 4, "batch": 16, "monitor_every": 0, **more.pop("settings", {})}
    return Sweep("digits", settings, {"latents": 2, **more.pop("member", {})}, grid=grid, **more)


def quietly(sweep: Sweep, folder: Path, **options: Any) -> list[dict[str, Any]]:
    return run_sweep(sweep, runs=folder, device="cpu", progress=False, **{"workers": 1, **options})


def test_trials_are_all_combinations_and_the_last_key_varies_fastest() -> None:
    trials = digits({"latents": [2, 3], "seed": [0, 1, 2]}).trials()
    assert [(one.member.latents, one.member.seed) for one in trials] == [(n, s) for n in (2, 3) for s in (0, 1, 2)]


def test_a_sweep_without_a_grid_is_one_run() -> None:
    (trial,) = digits({}).trials()
    assert (trial.data, trial.member.latents, trial.settings["steps"]) == ("digits", 2, 4)


def test_an_option_belongs_to_the_chosen_part_in_any_order_of_keys() -> None:
    other = {"name": "mlp", "encoder_widths": [4], "decoder_widths": [4]}
    trials = digits({"net.encoder_widths": [[5], [6]], "net": [SMALL, other], "data.split": ["a"]}).trials()
    assert [one.settings["net"]["encoder_widths"] for one in trials] == [[5], [5], [6], [6]]
    assert [one.settings["net"]["decoder_widths"] for one in trials] == [[8], [4], [8], [4]]
    assert trials[0].data == {"name": "digits", "split": "a"}


def test_a_name_of_a_part_becomes_a_table_when_the_grid_has_its_options() -> None:
    (trial,) = digits({"likelihood.variance": [0.5]}, settings={"likelihood": "gaussian"}).trials()
    assert trial.settings["likelihood"] == {"name": "gaussian", "variance": 0.5}


def test_values_of_the_grid_replace_settings_outside_it() -> None:
    sweep = digits({"objective.beta": [4.0], "steps": [7]}, objective={"name": "beta", "beta": 2.0})
    (trial,) = sweep.trials()
    assert (trial.member.objective.beta, trial.settings["steps"]) == (4.0, 7)


def test_an_option_without_its_part_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"prior\.scale is an option of a prior"):
        digits({"prior.scale": [1.0]}).trials()


@pytest.mark.parametrize(
    ("key", "values", "read"),
    [
        ("latents", [3, 4], lambda trial: trial.member.latents),
        ("seed", [1, 2], lambda trial: trial.member.seed),
        ("learning_rate", [0.1, 0.2], lambda trial: trial.member.learning_rate),
        ("steps", [5, 6], lambda trial: trial.settings["steps"]),
        ("net", ["mlp", "conv"], lambda trial: trial.settings["net"]),
        ("objective", ["beta", "beta_tc"], lambda trial: OBJECTIVES.name_of(trial.member.objective)),
        ("data", ["digits", "mnist"], lambda trial: trial.data),
        ("objective.beta", [2.0, 3.0], lambda trial: trial.member.objective.beta),
        ("data.items", [10, 20], lambda trial: trial.data["items"]),
    ],
)
def test_every_kind_of_key_varies_what_it_names(key: str, values: list[Any], read: Callable[[Trial], Any]) -> None:
    assert [read(trial) for trial in digits({key: values}).trials()] == values


@pytest.mark.parametrize(
    ("key", "received"),
    [
        ("latent", "'latent'. Did you mean 'latents'"),
        ("objectiv.beta", "'objectiv'. Did you mean 'objective'"),
        ("latents.beta", "'latents'"),
        ("device", "'device'"),
        ("runs", "'runs'"),
    ],
)
def test_an_unknown_key_is_refused(key: str, received: str) -> None:
    with pytest.raises(UnknownNameError, match=f"got {received}"):
        digits({key: [1]})


@pytest.mark.parametrize("values", [[], "01", 3, {"a": 1}])
def test_a_key_must_have_a_list_of_values(values: Any) -> None:
    with pytest.raises(ConfigurationError, match="seed in the grid must be a list"):
        digits({"seed": values})


def test_unknown_settings_and_fields_are_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"setting must be one of .*; got 'stepz'"):
        digits({}, settings={"stepz": 1})
    with pytest.raises(UnknownNameError, match=r"field of a member must be one of .*; got 'beta'"):
        digits({}, member={"beta": 1})


def test_small_nets_train_together_and_large_ones_alone() -> None:
    grid = {"seed": [0, 1, 2], "objective.beta": [1.0, 4.0]}
    assert [len(job.ids) for job in make_jobs(digits(grid))] == [6]
    assert [len(job.ids) for job in make_jobs(digits(grid, settings={"net": LARGE}))] == [1] * 6
    assert [len(job.ids) for job in make_jobs(digits(grid, settings={"net": LARGE}), "cuda:1")] == [6]


def test_at_most_sixty_four_members_train_together() -> None:
    jobs = make_jobs(digits({"seed": list(range(70))}))
    assert [len(job.ids) for job in jobs] == [64, 6]
    assert [job.number for job in jobs] == [0, 1]


def test_settings_that_members_must_share_split_the_sweep_into_jobs() -> None:
    objectives = [{"name": "beta"}, {"name": "beta_tc"}]
    jobs = make_jobs(digits({"objective": objectives, "steps": [4, 5], "seed": [0, 1]}))
    assert [len(job.ids) for job in jobs] == [2, 2, 2, 2]
    assert len({type(job.members[0].objective) for job in jobs}) == 2
    assert sorted(job.options.steps for job in jobs) == [4, 4, 5, 5]


def test_members_are_in_the_order_of_their_ids_with_their_positions() -> None:
    sweep = digits({"seed": [3, 1, 2, 0]})
    (job,) = make_jobs(sweep)
    assert list(job.ids) == sorted(job.ids)
    seeds = [3, 1, 2, 0]
    assert [seeds[place] for place in job.positions] == [member.seed for member in job.members]


def test_jobs_do_not_depend_on_the_order_of_the_grid() -> None:
    one, other = (make_jobs(digits({"seed": seeds})) for seeds in ([0, 1, 2], [2, 0, 1]))
    assert [job.ids for job in one] == [job.ids for job in other]


def test_equal_runs_are_trained_once() -> None:
    (job,) = make_jobs(digits({"seed": [0, 1, 0], "objective.beta": [1, 1.0]}))
    assert len(job.ids) == 2
    assert sorted(job.positions) == [0, 2]


def test_equal_runs_written_differently_are_trained_once() -> None:
    same = digits({"data": ["digits", {"name": "digits"}], "likelihood": ["bernoulli", None], "seed": [0, 1]})
    jobs = make_jobs(same)
    identities = [identity for job in jobs for identity in job.ids]
    assert len(identities) == len(set(identities)) == 2
    assert [job.number for job in jobs] == list(range(len(jobs)))


def test_data_are_opened_once_for_all_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    monkeypatch.setattr("vaescope.sweeps.jobs.open_dataset", lambda data: opened.append(data) or open_dataset(data))
    assert len(make_jobs(digits({"steps": [4, 5]}))) == 2
    assert opened == ["digits"]


def test_a_job_can_be_sent_to_another_process() -> None:
    (job,) = make_jobs(digits({"seed": [0, 1]}, measure=MeasurementSpec(("mig",), items=50)))
    assert pickle.loads(pickle.dumps(job)) == job


def test_a_sweep_trains_once_and_its_table_follows_the_grid(tmp_path: Path) -> None:
    sweep = digits({"objective.beta": [4.0, 1.0], "seed": [1, 0]}, measure=MeasurementSpec(items=60))
    (job,) = make_jobs(sweep)
    assert not is_done(job, tmp_path)
    rows = quietly(sweep, tmp_path)
    assert [(row["beta"], row["seed"]) for row in rows] == [(4.0, 1), (4.0, 0), (1.0, 1), (1.0, 0)]
    assert all(row["status"] == "complete" and row["active"] + row["mixed"] + row["passive"] == 2 for row in rows)
    assert is_done(job, tmp_path)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert quietly(sweep, tmp_path) == rows
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == written
    assert rows_of([job], tmp_path) == rows


def test_a_job_is_done_only_when_all_its_runs_are_measured(tmp_path: Path) -> None:
    sweep = digits({"seed": [0, 1]}, measure=MeasurementSpec(items=60))
    rows = quietly(sweep, tmp_path)
    more = make_jobs(digits({"seed": [0, 1]}, measure=MeasurementSpec(items=70)))
    assert not is_done(more[0], tmp_path)
    (tmp_path / rows[1]["id"] / RESULTS_FILE).unlink()
    (job,) = make_jobs(sweep)
    assert not is_done(job, tmp_path)
    model = tmp_path / rows[0]["id"] / "model.safetensors"
    before = model.stat().st_mtime_ns
    assert quietly(sweep, tmp_path) == rows
    assert is_done(job, tmp_path)
    assert model.stat().st_mtime_ns == before


def test_the_plan_shows_finished_jobs_and_the_time_of_the_others(tmp_path: Path) -> None:
    quietly(digits({"steps": [4]}), tmp_path)
    planned = plan_sweep(digits({"steps": [4, 5], "seed": [0]}), runs=tmp_path, device="cpu")
    assert [(row["runs"], row["state"]) for row in planned.rows()] == [(1, "done"), (1, "to do")]
    assert planned.rows()[0]["seconds"] is None
    assert planned.rows()[1]["seconds"] > 0
    assert re.match(r"2 runs in 2 jobs, 1 done; the others take about \d+ s one after another and ", planned.summary())
    assert len(list(tmp_path.glob("[!.]*/run.json"))) == 1


def test_the_plan_names_what_differs_between_jobs_and_between_their_runs(tmp_path: Path) -> None:
    grid = {"batch": [8, 16], "objective.beta": [1, 4], "seed": [0, 1, 2, 3]}
    rows = plan_sweep(digits(grid), runs=tmp_path, device="cpu").rows()
    shared = {"data": "digits", "latents": 2, "beta": "1.0, 4.0", "seed": "0 to 3", "state": "to do"}
    for row, batch in zip(rows, (8, 16), strict=True):
        assert {**shared, "batch": batch}.items() <= row.items()
        assert row["runs"] == 8
        assert not {"learning_rate", "objective", "steps", "net"} & set(row)


def test_the_plan_times_every_kind_of_objective(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    times = {"Beta": 1.0, "Factor": 3.0}
    monkeypatch.setattr(
        "vaescope.sweeps.run._time_job", lambda job, device: (times[type(job.members[0].objective).__name__], 4, 5)
    )
    for names in (["beta", "factor"], ["factor", "beta"]):
        planned = plan_sweep(digits({"objective.name": names, "seed": [0, 1]}), runs=tmp_path, device="cpu")
        assert {row["objective"]: row["seconds"] for row in planned.rows()} == {"beta": 4.0, "factor": 12.0}


def test_a_plan_of_runs_that_diverge_at_once_can_be_made(tmp_path: Path) -> None:
    wild = digits({"learning_rate": [1e-3, 1e30]}, settings={"steps": 30})
    assert plan_sweep(wild, runs=tmp_path, device="cpu").rows()[0]["state"] == "to do"
    rows = quietly(wild, tmp_path)
    assert plan_sweep(wild, runs=tmp_path, device="cpu").rows()[0]["state"] == "done"
    with pytest.raises(RunError, match=r"diverged .*failure\.json"):
        _ = Run.open(tmp_path / rows[1]["id"]).model


def test_the_error_of_a_diverging_run_can_be_pickled() -> None:
    error = NonFiniteError("loss at step 3", term="loss", member=1, step=3, items=[5, 6])
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == "loss at step 3"
    assert (copy.term, copy.member, copy.step, copy.items) == ("loss", 1, 3, [5, 6])


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_diverging_run_does_not_stop_the_others(workers: int, tmp_path: Path) -> None:
    both = {"likelihood": ["gaussian", "laplace"]}
    mixed, calm = (digits({"learning_rate": given, **both}, settings={"steps": 30}) for given in ([1e-3, 1e30], [1e-3]))
    rows = quietly(mixed, tmp_path / "mixed", workers=workers)
    assert [row["status"] for row in rows] == ["complete", "complete", "failed", "failed"]
    assert all("active" in row for row in rows[:2])
    assert not any("active" in row for row in rows[2:])
    failures = [json.loads((tmp_path / "mixed" / row["id"] / "failure.json").read_text()) for row in rows[2:]]
    assert all(failure["step"] >= 1 for failure in failures)
    assert list((tmp_path / "mixed" / ".ensembles").iterdir()) == []
    # The diverged run does not affect the others, and is not trained again.
    assert rows[:2] == quietly(calm, tmp_path / "calm", workers=1)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("run.json")}
    assert quietly(mixed, tmp_path / "mixed", workers=1) == rows
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("run.json")}


def test_metrics_that_the_data_cannot_have_are_refused_before_anything_trains(tmp_path: Path) -> None:
    sweep = digits({"seed": [0, 1]}, measure=MeasurementSpec(("mig", "dci"), items=50))
    with pytest.raises(DataError, match=r"dci .*digits"):
        quietly(sweep, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_a_metric_does_not_stop_the_others(tmp_path: Path) -> None:
    one = {"name": "mlp", "encoder_widths": [9], "decoder_widths": [8]}
    # With one latent there is no sparsity.
    sweep = digits({"latents": [1, 2], "net": [SMALL, one]}, measure=MeasurementSpec(("mig", "hoyer"), items=50))
    with pytest.warns(MissingMetricWarning, match="has no hoyer: sparsity") as met:
        rows = quietly(sweep, tmp_path)
    assert [row["status"] for row in rows] == ["complete"] * 4
    assert [row["hoyer"] is None for row in rows] == [True, True, False, False]
    assert all(row["mig"] is not None for row in rows)
    assert len(met) == 2
    kept = json.loads((tmp_path / rows[0]["id"] / RESULTS_FILE).read_text())
    assert kept["hoyer"]["why"].startswith("sparsity")
    assert quietly(sweep, tmp_path) == rows


def test_measuring_shows_no_progress_bar(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    quietly(digits({}, measure=MeasurementSpec(("mig",), items=50)), tmp_path)
    assert capsys.readouterr().err == ""


WARNER = """
import os, warnings
from multiprocessing import Pipe
from vaescope.errors import CollapseWarning
from vaescope.sweeps.engines.local import _start_worker
reader, writer = Pipe(duplex=False)
_start_worker(reader)
warnings.warn("latents are going", CollapseWarning)
os._exit(0)
"""


def test_a_warning_of_a_process_that_trains_is_one_sentence() -> None:
    sources = str(Path(vaescope.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", WARNER], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": sources}
    )
    assert done.stderr == "warning: latents are going\n"


WORKER = """
import signal, sys
from vaescope.sweeps.toml import read_sweep
from vaescope.sweeps.run import run_sweep
# A shell may have begun all this with interrupts ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
sweep = read_sweep(sys.argv[1])
print("started", flush=True)
run_sweep(sweep, runs=sys.argv[2], device="cpu", progress=False, checkpoint_seconds=0.1, workers=int(sys.argv[3]))
"""
BIG = """
[data]
name = "digits"
[model]
net = {name = "mlp", encoder_widths = [4], decoder_widths = [4]}
[training]
steps = 80
batch = 8
log_every = 10
evaluate_every = 20
evaluation_items = 64
monitor_every = 0
learning_rate = 1e-3
[grid]
latents = [1, 2, 3]
"objective.beta" = [0.5, 2, 8]
seed = [0, 1, 2, 3]
[measure]
items = 50
"""
SIGKILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has none
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals groups of processes")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
# Ctrl-C, a kill of all, and a kill of one process.
ENDS = [(signal.SIGINT, True), (SIGKILL, True), (SIGKILL, False)]


def begun(file: Path, folder: Path, workers: int) -> subprocess.Popen[str]:
    """A process of its own group that has read the file and begins to train."""
    sources = str(Path(vaescope.__file__).parents[1])
    path = os.pathsep.join(filter(None, [sources, os.environ.get("PYTHONPATH")]))
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(file), str(folder), str(workers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    return process


def interrupted(file: Path, folder: Path, end: signal.Signals, everyone: bool, delay: float) -> bool:
    """Start the sweep and stop it after a delay; returns whether it was still running."""
    process = begun(file, folder, 1)
    time.sleep(delay)
    at_work = process.poll() is None
    if at_work:
        (os.killpg if everyone else os.kill)(process.pid, end)
    # The pipes close when the last process that holds them has ended: none is left.
    process.communicate(timeout=60)
    return at_work


@POSIX
@pytest.mark.slow
def test_a_sweep_interrupted_three_times_gives_the_same_table(tmp_path: Path) -> None:
    from vaescope.sweeps.toml import read_sweep

    file = tmp_path / "sweep.toml"
    file.write_text(BIG)
    began = time.monotonic()
    whole = quietly(read_sweep(file), tmp_path / "whole")
    length = time.monotonic() - began
    assert len(whole) == 9 * 4
    moments = random.Random(0)
    hits = [interrupted(file, tmp_path / "stopped", *end, delay=moments.uniform(0.1, 0.3) * length) for end in ENDS]
    assert sum(hits) >= 2
    assert quietly(read_sweep(file), tmp_path / "stopped") == whole
    assert not list((tmp_path / "stopped" / ".ensembles").iterdir())


LONG = """
[data]
name = "digits"
[model]
net = {name = "mlp", encoder_widths = [400, 200], decoder_widths = [200, 400]}
[training]
steps = 10000000
[grid]
seed = [0, 1, 2, 3, 4, 5]
"""


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize(("end", "code"), [(signal.SIGINT, 1), (SIGKILL, -9)])
def test_worker_processes_end_with_their_parent_and_start_no_other_job(
    end: signal.Signals, code: int, tmp_path: Path
) -> None:
    file, folder = tmp_path / "sweep.toml", tmp_path / "runs"
    file.write_text(LONG)
    process = begun(file, folder, 2)
    try:
        while len(list(folder.glob("*/state.safetensors"))) < 2:
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(end)
        process.communicate(timeout=60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, SIGKILL)
    assert process.returncode in (code, -end)
    assert len(list(folder.glob("[!.]*/run.json"))) == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_a_run_that_another_process_trains_comes_last(workers: int, tmp_path: Path) -> None:
    jobs = make_jobs(digits({"batch": [8, 16, 32]}))
    released = threading.Event()
    order: list[int] = []
    holder = threading.Thread(target=hold, args=(Store(tmp_path).path(jobs[0].ids[0]), released))
    holder.start()
    try:
        performed = iter(run_locally(jobs, EngineOptions(tmp_path, workers=workers)))
        order += [next(performed).number, next(performed).number]
        threading.Timer(0.3, released.set).start()
        with pytest.warns(UserWarning, match="waiting for another process"):
            order += [job.number for job in performed]
    finally:
        released.set()
        holder.join()
    assert sorted(order[:2]) == [1, 2]
    assert order[2] == 0
    assert all(is_done(job, tmp_path) for job in jobs)


def hold(folder: Path, released: threading.Event) -> None:
    with locked([folder]):
        released.wait(60)


def test_runs_must_have_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="runs must be the path of a folder"):
        run_sweep(digits({}), runs="", device="cpu", progress=False)
    with pytest.raises(ConfigurationError, match="runs must be the path of a folder"):
        plan_sweep(digits({}), runs="", device="cpu")


def test_systems_without_affinity_or_signal_masks_can_run_sweeps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # macOS has no sched_getaffinity, Windows neither that nor pthread_sigmask.
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    # Only for the engine: multiprocessing chose when it was imported.
    monkeypatch.setattr("vaescope.sweeps.engines.local.signal", SimpleNamespace(SIGINT=signal.SIGINT))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert available_cores() == 2
    jobs = make_jobs(digits({"batch": [8, 16]}))
    assert sorted(job.number for job in run_locally(jobs, EngineOptions(tmp_path))) == [0, 1]


@LINUX
def test_worker_processes_do_not_receive_ctrl_c(tmp_path: Path) -> None:
    performed = iter(run_locally(make_jobs(digits({"batch": [8, 16, 32]})), EngineOptions(tmp_path, workers=2)))
    next(performed)
    statuses = [Path(f"/proc/{child.pid}/status").read_text() for child in multiprocessing.active_children()]
    list(performed)
    assert len(statuses) == 2
    # The signal is blocked before they start, because a process that is still importing cannot handle it.
    blocked = [int(re.search(r"SigBlk:\s*(\w+)", status)[1], 16) for status in statuses]  # type: ignore[index]
    assert all(mask >> (signal.SIGINT - 1) & 1 for mask in blocked)
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
