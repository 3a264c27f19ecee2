"""Studies in pieces: a plan, a time limit, shares of several machines, and a kill at any moment."""

from __future__ import annotations

import json
import multiprocessing
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from vaescope.cli import main
from vaescope.data import Dataset
from vaescope.errors import ConfigurationError, RunError
from vaescope.runs import Run
from vaescope.studies import (
    STUDIES,
    Cell,
    Findings,
    GroupMeasurement,
    Measurement,
    Study,
    StudyContext,
    StudySettings,
    StudyUnfinished,
    Task,
    reproduce,
)
from vaescope.studies import plan as plan_of
from vaescope.studies.context import MissingResults
from vaescope.studies.pieces import MEASURE_SECONDS, PIECE_SECONDS, parse_share, plan_study
from vaescope.studies.results import Result, ResultKey
from vaescope.studies.running import find
from vaescope.studies.settings import RESULTS_FOLDER
from vaescope.sweeps.specification import Sweep

NET = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}
BETAS = (1.0, 2.0, 4.0)


def loss_of(run: Run, data: Dataset, device: str) -> float:
    return run.last("train")["loss"]


def ratio_of(groups: list[list[Run]], data: Dataset, device: str) -> float:
    first, second = (group[0].last("train")["loss"] for group in groups)
    return first / second


def sweep(beta: float, seeds: list[int], steps: int = 6, log_every: int = 6) -> Sweep:
    settings = {"net": NET, "batch": 16, "log_every": log_every, "steps": steps, "monitor_every": 0}
    return Sweep("digits", settings, {"latents": 2}, {"name": "beta", "beta": beta}, {"seed": seeds})


def work(context: StudyContext) -> Findings:
    """Two sweeps of two seeds, a comparison of them, and a task of two parts."""
    seeds = context.seed_list(2, 2)
    runs = {beta: context.runs(sweep(beta, seeds)) for beta in BETAS}
    losses = {beta: context.measured(own, Measurement("loss", loss_of)) for beta, own in runs.items()}
    ratio = context.compared([runs[1.0], runs[4.0]], GroupMeasurement("ratio", ratio_of))
    keys = {seed: ResultKey.of(f"square{seed}", "square") for seed in seeds}
    parts = {seed: (key,) for seed, key in keys.items()}

    def squares(chosen: Any) -> Any:
        return [(keys[seed], Result(seed**2)) for seed in chosen]

    task = Task("squares", ("mlp", "float32"), parts, 1, 10, squares)
    numbers = context.computed(task, list(keys.values()))
    cells = [Cell.over({"beta": beta}, list(values)) for beta, values in losses.items()]
    return Findings((*cells, Cell({"beta": "ratio"}, ratio[0]), Cell.over({"beta": "squares"}, list(numbers))))


STUDY = Study("some-pieces", "Some et al.", "In how many pieces?", "", work)


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STUDIES, STUDY.name, STUDY)


def settings(folder: Path, **more: Any) -> StudySettings:
    return StudySettings(runs=folder, device="cpu", engine_options={"workers": 1}, progress=False, **more)


def options(folder: Path, **more: Any) -> dict[str, Any]:
    return {"runs": folder, "device": "cpu", "engine_options": {"workers": 1}, "progress": False, **more}


def names(folder: Path) -> set[str]:
    return {file.name for file in (folder / RESULTS_FOLDER).glob("*.json")}


def test_a_plan_lists_every_piece_and_trains_nothing(tmp_path: Path) -> None:
    plan = plan_of(STUDY.name, **options(tmp_path))
    assert [(row["what"].split(",")[0], row["models"], row["state"]) for row in plan.rows()] == [
        ("vae", 2, "missing"),
        ("vae", 2, "missing"),
        ("vae", 2, "missing"),
        ("ratio of 4 models", 4, "missing"),
        ("squares", 2, "missing"),
    ]
    assert all(row["minutes"] > 0 for row in plan.rows())
    assert list(tmp_path.iterdir()) == []
    find(STUDY, settings(tmp_path))
    done = plan_of(STUDY.name, **options(tmp_path))
    assert {row["state"] for row in done.rows()} == {"done"}
    assert "all 5 pieces are done" in done.summary()


def test_pieces_are_cut_to_the_limit_and_never_below_one_model(tmp_path: Path) -> None:
    context = StudyContext(settings(tmp_path, seeds=6))
    with pytest.raises(MissingResults):
        work(context)
    whole = plan_study("some", context)
    assert [piece.models for piece in whole.pieces][:3] == [6, 6, 6]
    small = plan_study("some", context, piece_seconds=0.5 + 6 * (0.8e-3 + 2.5 * 0.2e-3) + 2.5 * MEASURE_SECONDS)
    assert [piece.models for piece in small.pieces][:9] == [2] * 9
    alone = plan_study("some", context, piece_seconds=1e-9)
    assert [piece.models for piece in alone.pieces][:18] == [1] * 18


def test_a_piece_longer_than_the_limit_is_stopped_and_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    whole, _ = find(LONG, settings(tmp_path / "whole"))
    attempts = 0
    for limit in (0.01, 0.3, 600.0):
        try:
            found, _ = find(LONG, settings(tmp_path / "some"), minutes=limit / 60)
        except StudyUnfinished:
            attempts += 1
    assert found == whole
    assert attempts > 0


def test_a_limit_leaves_pieces_that_would_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With pieces of about ten minutes, a limit of nine allows the first one alone."""
    monkeypatch.setattr("vaescope.studies.pieces.SETUP_SECONDS", {"cpu": 590.0, "cuda": 590.0})
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    for left in (4, 3):
        with pytest.raises(StudyUnfinished) as stopped:
            find(STUDY, settings(tmp_path), minutes=9.0)
        assert len(stopped.value.plan.missing) == left
        # The measured time is deleted, so that the reference time of ten minutes applies.
        (tmp_path / "step_times.json").unlink()


def test_measured_times_replace_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vaescope.studies.pieces.SETUP_SECONDS", {"cpu": 590.0, "cuda": 590.0})
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    with pytest.raises(StudyUnfinished) as stopped:
        find(STUDY, settings(tmp_path), minutes=9.0)
    trainings = [piece for piece in stopped.value.plan.missing if piece.title.startswith("vae")]
    assert all(piece.seconds < 60 for piece in trainings)


@pytest.mark.parametrize("machines", [2, 3])
def test_several_machines_merged_equal_one(machines: int, tmp_path: Path) -> None:
    whole, _ = find(STUDY, settings(tmp_path / "one"))
    folders = [tmp_path / f"machine{number}" for number in range(1, machines + 1)]
    for number, folder in enumerate(folders, 1):
        with pytest.raises(StudyUnfinished, match="other shares"):
            reproduce(STUDY.name, piece=f"{number}/{machines}", **options(folder))
    parts = [names(folder) for folder in folders]
    assert all(parts)
    assert sum(len(part) for part in parts) == len(set.union(*parts)) == len(names(tmp_path / "one"))
    given = (tmp_path / "merged", *(folder / RESULTS_FOLDER for folder in folders))
    found, _ = find(STUDY, settings(tmp_path / "no-runs", results=given))
    assert found == whole
    assert not (tmp_path / "no-runs").exists()  # neither weights nor training


def test_compared_runs_stay_on_one_machine(tmp_path: Path) -> None:
    plan = plan_of(STUDY.name, piece="1/3", **options(tmp_path))
    shares = {row["what"] + str(number): row["share"] for number, row in enumerate(plan.rows())}
    first, _, third, ratio, _ = shares.values()
    assert first == third == ratio


def test_one_share_of_one_is_everything(tmp_path: Path) -> None:
    assert reproduce(STUDY.name, piece="1/1", **options(tmp_path)).findings.cells


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3", ""])
def test_an_invalid_share_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"3/8"):
        parse_share(text)


def test_results_alone_make_the_page_and_a_comparison_needs_no_weights(tmp_path: Path) -> None:
    first, _ = find(STUDY, settings(tmp_path))
    for file in tmp_path.glob("*/*.safetensors"):
        file.unlink()
    again, _ = find(STUDY, settings(tmp_path))
    assert again == first
    assert not list(tmp_path.glob("*/*.safetensors"))


def test_runs_of_a_comparison_train_again_where_their_weights_are_missing(tmp_path: Path) -> None:
    first, _ = find(STUDY, settings(tmp_path / "one"))
    (ratio,) = (tmp_path / "one" / RESULTS_FOLDER).glob("*-ratio-*.json")
    ratio.unlink()
    given = (tmp_path / "one" / RESULTS_FOLDER,)
    again, _ = find(STUDY, settings(tmp_path / "other", results=given))
    assert again == first
    assert len(list((tmp_path / "other").glob("*/model.safetensors"))) == 4


def test_a_damaged_result_stops_the_study_with_its_name(tmp_path: Path) -> None:
    find(STUDY, settings(tmp_path))
    file = next((tmp_path / RESULTS_FOLDER).glob("*-loss-*.json"))
    file.write_text(file.read_text().replace("loss", "lass", 1))
    with pytest.raises(RunError, match=file.name):
        find(STUDY, settings(tmp_path))


def test_a_run_that_diverged_is_a_result_too(tmp_path: Path) -> None:
    def diverging(context: StudyContext) -> Findings:
        one = sweep(1.0, [0, 1])
        runs = context.runs(replace(one, member={"latents": 2, "learning_rate": 1e30}))
        values = context.measured(runs, Measurement("loss", loss_of))
        return Findings((Cell.over({}, values.finished, values.diverged),))

    study = replace(STUDY, work=diverging)
    first, _ = find(study, settings(tmp_path))
    assert first.cells[0].value is None
    assert "2 of 2 runs diverged" in first.cells[0].note
    assert find(study, settings(tmp_path))[0] == first


def test_a_study_that_reads_what_it_did_not_request_does_not_run_for_ever(tmp_path: Path) -> None:
    def wrong(context: StudyContext) -> Findings:
        raise MissingResults

    with pytest.raises(AssertionError, match="did not ask for"):
        find(replace(STUDY, work=wrong), settings(tmp_path))


def call(monkeypatch: pytest.MonkeyPatch, *words: Any) -> int:
    monkeypatch.setattr("sys.argv", ["vaescope", "reproduce", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_the_command_plans_stops_shares_and_merges(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("vaescope.sweeps.engines.local.available_cores", lambda: 1)  # no processes that load torch
    assert call(monkeypatch, STUDY.name, "--device", "cpu", "--plan", "--json") == 0
    (plan,) = json.loads(capsys.readouterr().out)
    assert len(plan["pieces"]) == 5
    for number in (1, 2):
        words = [STUDY.name, "--device", "cpu", "--piece", f"{number}/2", "--results", f"part{number}"]
        assert call(monkeypatch, *words, "--runs", f"runs{number}") == 3
        assert "unfinished: some-pieces" in capsys.readouterr().err
    words = [STUDY.name, "--device", "cpu", "--results", "part1", "--results", "part2", "--runs", "none", "--json"]
    assert call(monkeypatch, *words) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert len(told["rows"]) == 5
    assert call(monkeypatch, STUDY.name, "--piece", "5/2") == 2
    assert call(monkeypatch, STUDY.name, "--minutes", "0") == 2


def long_work(context: StudyContext) -> Findings:
    runs = [context.runs(sweep(beta, [0, 1], steps=100, log_every=5)) for beta in (1.0, 8.0)]
    values = [context.measured(own, Measurement("loss", loss_of)) for own in runs]
    return Findings(tuple(Cell.over({"of": at}, list(one)) for at, one in enumerate(values)))


LONG = Study("some-long", "Some et al.", "How long?", "", long_work)


def find_long(folder: Path) -> None:
    find(LONG, settings(folder))


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_no_partial_file_and_the_same_call_continues(tmp_path: Path) -> None:
    whole, _ = find(LONG, settings(tmp_path / "whole"))
    # Processes are forked from one that has loaded everything.
    forked = multiprocessing.get_context("forkserver")
    forked.set_forkserver_preload(["vaescope.studies", "vaescope.studies.running", "vaescope.sweeps.run"])
    kept: list[int] = []
    for wait in (0.0, 0.2, 0.4):
        child = forked.Process(target=find_long, args=(tmp_path / "killed",))
        child.start()
        until = time.monotonic() + 60
        while not (tmp_path / "killed").exists() and child.is_alive() and time.monotonic() < until:
            time.sleep(0.005)
        time.sleep(wait)
        child.kill()
        child.join()
        kept.append(len(names(tmp_path / "killed")))
    again, _ = find(LONG, settings(tmp_path / "killed"))
    assert again == whole
    assert kept == sorted(kept)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_results_of_a_gpu_are_planned_and_read_without_one_but_not_trained(tmp_path: Path) -> None:
    plan = plan_of("bonheme-table8.1", "paper", data=("dsprites",), device="cuda", runs=tmp_path)
    assert [row["what"] for row in plan.rows()] == ["FONDUE, 3 searches, dSprites"]
    assert plan.pieces[0].seconds < 600
    with pytest.raises(ConfigurationError, match="needs a GPU"):
        reproduce("bonheme-table8.1", "paper", data=("dsprites",), device="cuda", runs=tmp_path)


@pytest.mark.parametrize("name", ["bonheme-figure6.4", "bonheme-table8.3", "rolinek-table2"])
def test_no_piece_of_several_models_is_planned_for_more_than_ten_minutes(name: str, tmp_path: Path) -> None:
    plan = plan_of(name, "paper", data=("dsprites",), device="cuda", runs=tmp_path)
    assert len(plan.pieces) > 1
    assert all(piece.seconds <= PIECE_SECONDS for piece in plan.pieces if piece.models > 1)
