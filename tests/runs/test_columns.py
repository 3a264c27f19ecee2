"""Settings as columns: every key of a grid is one, and a listing shows those in which runs differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vaescope as vs
from vaescope.runs import FitOptions, Store, fit, summary
from vaescope.runs.record import TRAINING, Provenance, RunRecord
from vaescope.runs.rows import INTERVALS, drop_constant_settings, read_rows, summary_row
from vaescope.sweeps.run import run_sweep
from vaescope.sweeps.specification import Sweep, Trial
from vaescope.training import Member

SMALL = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}
PLAIN = ["id", "status", "data", "items", "model", "net", "likelihood", "latents", "objective", "beta", "seed"]
PLAIN += ["learning_rate", "batch", "step", "steps"]
# Key of a grid -> two values, and the settings that they need.
GRIDS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "prior": (["standard", "student_t"], {}),
    "prior.degrees": ([5.0, 7.0], {"prior": "student_t"}),
    "prior.means": ([[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0]]], {"prior": "mixture"}),
    "posterior": (["diagonal", "full"], {}),
    "net.encoder_widths": ([[400, 400], [9, 3]], {"net": "mlp"}),
    "net.hidden": ([256, 9], {"net": "conv"}),
    "likelihood.variance": ([1.0, 2.0], {"likelihood": "gaussian"}),
    "likelihood.learned": ([True, False], {"likelihood": "gaussian"}),
    "initialisation": (["glorot", "torch"], {}),
    "optimiser": (["adam", "amsgrad"], {}),
    "optimiser.beta1": ([0.9, 0.8], {}),
    "precision": (["float32", "float64"], {}),
    "held_out": ([0.1, 5], {}),
    "split_seed": ([0, 1], {}),
    "evaluation_items": ([2048, 64], {}),
    "monitor_items": ([512, 64], {}),
    "objective.estimator": (["weighted", "stratified"], {"objective": "beta_tc"}),
    "objective.steps": ([100_000.0, 50.0], {"objective": "annealed"}),
    "model.scale": ([1.0, 2.0], {"model": "vgon"}),
    "data.dimension": ([2, 3], {}),
}


def row_of(trial: Trial) -> dict[str, Any]:
    """The row of a run that has only started."""
    data, settings = vs.open_dataset(trial.data), FitOptions.of({"optimiser": "adam", **trial.settings})
    (configuration,) = settings.configurations(data, [trial.member])
    record = RunRecord(configuration.id, TRAINING, configuration.plain(), Provenance(source=trial.data))
    return summary_row(record, [])


def rows_over(place: str, values: list[Any], beside: dict[str, Any]) -> list[dict[str, Any]]:
    objective = {"name": beside.get("objective", "beta")}
    settings = {"optimiser": "adam", **{name: value for name, value in beside.items() if name != "objective"}}
    data = "dsprites-small" if place == "net.hidden" else "gaussian-manifold"
    return [row_of(trial) for trial in Sweep(data, settings, {"latents": 2}, objective, {place: values}).trials()]


@pytest.mark.parametrize("place", GRIDS)
def test_every_key_of_a_grid_is_a_column(place: str) -> None:
    values, beside = GRIDS[place]
    expected = [json.dumps(value) if isinstance(value, list) else value for value in values]
    assert [row[place] for row in drop_constant_settings(rows_over(place, values, beside))] == expected


@pytest.mark.parametrize("place", GRIDS)
def test_a_listing_drops_settings_that_all_runs_share(place: str) -> None:
    values, beside = GRIDS[place]
    (row,) = rows_over(place, values[:1], beside)
    assert place in row
    assert place not in drop_constant_settings([row])[0]
    assert place not in drop_constant_settings([row, {**row, "seed": 1}])[0]


def test_one_run_is_listed_with_the_common_columns() -> None:
    for data in ("digits", "dsprites-small", "gaussian-manifold"):
        assert list(drop_constant_settings([row_of(Trial(data, {"steps": 30}, Member(2)))])[0]) == PLAIN


def test_logging_intervals_are_in_rows_and_not_in_listings() -> None:
    rows = [row_of(Trial("digits", {"steps": steps}, Member(2))) for steps in (1000, 300_000)]
    for name in INTERVALS:
        assert rows[0][name] != rows[1][name] or name == "log_every"
        assert name not in drop_constant_settings(rows)[0]


def test_swept_settings_are_in_every_form_of_the_results(tmp_path: Path) -> None:
    grid = {"prior": ["standard", "student_t"], "net.encoder_widths": [[8], [6]], "data.dimension": [2, 3]}
    settings = {"net": SMALL, "steps": 2, "batch": 16, "monitor_every": 0, "held_out": 0.2}
    sweep = Sweep("gaussian-manifold", settings, {"latents": 2}, grid=grid)
    rows = run_sweep(sweep, runs=tmp_path, device="cpu", progress=False, workers=1)
    wanted = [(prior, widths, size) for prior in grid["prior"] for widths in ("[8]", "[6]") for size in (2, 3)]
    names = list(grid)
    assert [tuple(row[name] for name in names) for row in rows] == wanted
    by_id = {row["id"]: tuple(row[name] for name in names) for row in rows}
    assert {row["id"]: tuple(row[name] for name in names) for row in read_rows(tmp_path).rows.values()} == by_id
    assert {run.id: summary(run)["data.dimension"] for run in Store(tmp_path).runs()} == {
        identity: size for identity, (_, _, size) in by_id.items()
    }
    found = vs.runs.table(tmp_path, where={"prior": "student_t", "net.encoder_widths": "[6]", "held_out": 0.2})
    assert sorted(row["id"] for row in found) == sorted(row["id"] for row in rows[6:])
    _, answer = Store(tmp_path).query('SELECT id, prior, "net.encoder_widths", "data.dimension" FROM runs')
    assert {identity: tuple(values) for identity, *values in answer} == by_id


def test_a_setting_that_is_not_shown_can_be_queried(tmp_path: Path) -> None:
    data = np.random.default_rng(0).normal(size=(40, 5))
    fit(data, 2, steps=2, batch=8, runs=tmp_path, device="cpu", progress=False)
    (row,) = vs.runs.table(tmp_path, where={"held_out": 0.1, "prior": "standard"}, sort="precision")
    assert not {"held_out", "prior", "precision"} & set(row)
    assert vs.runs.table(tmp_path, where={"prior": "mixture"}) == []
    assert Store(tmp_path).query("SELECT prior, held_out FROM runs")[1] == [("standard", 0.1)]


def test_a_model_with_options_is_named_and_its_options_are_columns() -> None:
    row = row_of(Trial("gaussian-manifold", {"model": {"name": "vgon", "scale": 0.5}}, Member(2)))
    assert (row["model"], row["model.scale"]) == ("vgon", 0.5)
