"""One run has one count of types: counted at the end of training, and equal to that of a diagnosis."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vaescope as vs
from vaescope.errors import FinalTypesWarning
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.runs import FitOptions, Run, fit, fit_many, prune, summary
from vaescope.runs.final_types import final_types
from vaescope.runs.in_memory import fit_in_memory
from vaescope.runs.measurements import MeasurementSpec, measure
from vaescope.runs.record import Provenance
from vaescope.runs.rows import read_row, read_rows
from vaescope.runs.trackers.tracker import RunEnd
from vaescope.runs.type_counts import TypeCounts
from vaescope.sweeps.run import run_sweep
from vaescope.sweeps.specification import Sweep
from vaescope.training import Member, Trainer

OLD = Path(__file__).parents[1] / "compatibility" / "store_0_1" / "runs"
GENERATOR = np.random.default_rng(0)
ITEMS = (GENERATOR.normal(size=(300, 2)) @ GENERATOR.normal(size=(2, 6))).astype(np.float32)
GAPS = np.where(GENERATOR.random(ITEMS.shape) < 0.2, np.nan, ITEMS).astype(np.float32)
NET = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}
SETTINGS: dict[str, Any] = {"net": NET, "steps": 150, "learning_rate": 1e-2, "device": "cpu"}


class Normed(nn.Module):
    """A model of someone's own, with batch normalisation."""

    def __init__(self, latents: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2 * latents))
        self.decoder = nn.Sequential(nn.Linear(latents, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 6))

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        return mean, log_variance

    def decode(self, z: Tensor) -> Tensor:
        return self.decoder(z)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encode(x)
        return self.decode(mean + torch.randn_like(mean) * (0.5 * log_variance).exp()), mean, log_variance


def labelled() -> Any:
    return vs.open_dataset("digits")


VARIED: dict[str, tuple[Any, dict[str, Any]]] = {
    "an array": (ITEMS, {}),
    "double precision": (ITEMS, {"precision": "float64"}),
    "no held-out items": (ITEMS, {"held_out": 0}),
    "missing cells": (lambda: vs.data.from_array(GAPS, missing="mask"), {}),
    "a conditional model": (labelled, {"model": "conditional", "steps": 30}),
    "a learned prior": ("dsprites-small", {"model": "identifiable", "steps": 5}),
    "batch normalisation": (ITEMS, {"model": Normed, "net": None}),
    "no probes": (ITEMS, {"monitor_every": 0}),
}


@pytest.mark.parametrize("name", VARIED)
def test_the_final_count_is_that_of_a_diagnosis(name: str, tmp_path: Path) -> None:
    given, settings = VARIED[name]
    data = given() if callable(given) else given
    run = fit(data, 3, runs=tmp_path, **{**SETTINGS, **settings})
    found = vs.diagnose(run)
    assert run.provenance.latent_types == found.types.types
    assert run.provenance.latent_types_items == found.types.statistics.count == len(vs.open_dataset(data))
    row = summary(run)
    assert {kind: row[kind] for kind in VARIABLE_TYPES} == found.types.counts
    assert (row["types_from"], row["types_items"]) == ("final", found.types.statistics.count)
    assert read_row(run.path) == row
    assert RunEnd.of(run).types == found.types.counts


def test_every_member_of_an_ensemble_has_its_own_count(tmp_path: Path) -> None:
    members = [Member(latents, learning_rate=1e-2, seed=latents) for latents in (1, 3, 4)]
    options = FitOptions(runs=tmp_path, net=NET, steps=150, device="cpu")
    for run in fit_many(ITEMS, members, options):
        assert run.provenance.latent_types == vs.diagnose(run, ITEMS).types.types


def test_counting_changes_no_weights(tmp_path: Path) -> None:
    run = fit(ITEMS, 3, runs=tmp_path, **SETTINGS)
    options = FitOptions(**{name: value for name, value in SETTINGS.items() if name != "learning_rate"})
    alone = fit_in_memory(ITEMS, Member(3, learning_rate=1e-2), options)
    for name, value in alone.model.state_dict().items():
        assert torch.equal(run.model.state_dict()[name], value)


def test_more_items_than_a_diagnosis_encodes_are_sampled_like_there(tmp_path: Path) -> None:
    items = GENERATOR.normal(size=(10_500, 3)).astype(np.float32)
    run = fit(items, 2, runs=tmp_path, **{**SETTINGS, "steps": 20})
    found = vs.diagnose(run)
    assert run.provenance.latent_types_items == found.types.statistics.count == 10_000
    assert run.provenance.latent_types == found.types.types


def test_deterministic_codes_have_no_types(tmp_path: Path) -> None:
    run = fit(ITEMS, 3, model="autoencoder", runs=tmp_path, **SETTINGS)
    assert (run.provenance.latent_types, run.provenance.latent_types_items) == (None, None)
    assert not {"active", "types_from"} & set(summary(run))


def test_a_run_that_was_interrupted_while_it_was_counted_resumes_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = fit(ITEMS, 3, runs=tmp_path / "whole", **SETTINGS)
    with monkeypatch.context() as patch:
        patch.setattr("vaescope.runs.fitting.final_types", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fit(ITEMS, 3, runs=tmp_path, **SETTINGS)
        assert Run.open(tmp_path / wanted.id).status == "training"
        patch.setattr(Trainer, "advance", lambda *_: pytest.fail("trained again"))
    run = fit(ITEMS, 3, runs=tmp_path, **SETTINGS)
    assert run.provenance.latent_types == wanted.provenance.latent_types
    assert run.history == wanted.history


def test_a_longer_run_has_a_count_of_its_own(tmp_path: Path) -> None:
    run = fit(ITEMS, 3, runs=tmp_path, **{**SETTINGS, "steps": 2})
    longer = vs.resume(run, 150, data=ITEMS, device="cpu")
    assert longer.provenance.latent_types == vs.diagnose(longer, ITEMS).types.types
    assert run.provenance.latent_types == vs.diagnose(run, ITEMS).types.types


def test_codes_that_cannot_be_analysed_leave_a_trained_run_with_a_warning() -> None:
    model = Architecture(net=MLP((4,), (4,))).build((6,), 2, seed=0)
    with torch.no_grad():
        next(iter(model.parameters())).fill_(torch.inf)
    with pytest.warns(FinalTypesWarning, match="could not be counted"):
        assert final_types(model, vs.open_dataset(ITEMS)) is None


def test_one_item_has_no_types() -> None:
    model = Architecture(net=MLP((4,), (4,))).build((6,), 2, seed=0)
    assert final_types(model, vs.open_dataset(ITEMS).draw(1)) is None


def test_a_run_of_an_earlier_version_has_the_count_of_its_last_probe_labelled_so(tmp_path: Path) -> None:
    found = {path: row for path, row in read_rows(OLD).rows.items() if "active" in row}
    assert found
    for path, row in found.items():
        assert row["types_from"] == "probe"
        assert row["types_items"] == min(row["monitor_items"], round(row["held_out"] * row["items"]))
        folder = Path(shutil.copytree(path, tmp_path / path.name))
        (folder / "summary.json").unlink(missing_ok=True)
        assert read_row(folder) == row


def test_a_run_in_training_has_the_count_of_its_last_probe(tmp_path: Path) -> None:
    run = fit(ITEMS, 3, runs=tmp_path, held_out=0, **SETTINGS)
    record = Run.create(tmp_path / run.id, run.configuration, Provenance()).record
    found = TypeCounts.of(record, run.history)
    assert found is not None
    assert (found.counted, found.items) == ("probe", 300)
    assert TypeCounts.of(record, []) is None


def test_a_measurement_over_other_items_does_not_change_the_count_of_a_run(tmp_path: Path) -> None:
    run = fit(ITEMS, 3, runs=tmp_path, **SETTINGS)
    before = read_row(run.path)
    measure(run, MeasurementSpec(items=5))
    after = read_row(run.path)
    assert before is not None
    assert after is not None
    for name in (*VARIABLE_TYPES, "types_items", "types_from"):
        assert after[name] == before[name]
    assert after["measure.items"] == 5


def test_a_measurement_of_an_older_run_replaces_its_probe(tmp_path: Path) -> None:
    path = next(
        path for path, row in read_rows(OLD).rows.items() if row["data"] == "digits" and row["status"] == "complete"
    )
    run = Run.open(shutil.copytree(path, tmp_path / path.name))
    measure(run, MeasurementSpec(items=100))
    row = read_row(run.path)
    assert row is not None
    assert (row["types_from"], row["types_items"]) == ("measurement", 100)


def test_rows_of_a_sweep_have_the_final_counts(tmp_path: Path) -> None:
    sweep = Sweep("digits", {"net": NET, "steps": 20}, {"latents": 2}, {"name": "beta"}, {"seed": [0, 1]})
    for row in run_sweep(sweep, runs=tmp_path, device="cpu"):
        assert row["types_from"] == "final"
        assert row["types_items"] == 1797


def test_a_pruned_run_has_the_types_of_the_latents_that_it_kept(tmp_path: Path) -> None:
    run = fit(ITEMS, 4, runs=tmp_path, **SETTINGS)
    small = prune(run, keep=[0, 2]).run
    assert run.provenance.latent_types is not None
    assert small.provenance.latent_types == tuple(run.provenance.latent_types[place] for place in (0, 2))
    other = prune(run, ITEMS[:200], keep=[1, 2]).run
    assert other.provenance.latent_types is None


def test_the_record_on_disk_holds_the_types(tmp_path: Path) -> None:
    run = fit(ITEMS, 3, runs=tmp_path, **SETTINGS)
    table = json.loads((run.path / "run.json").read_text())["provenance"]
    assert tuple(table["latent_types"]) == run.provenance.latent_types
    assert table["latent_types_items"] == 300
