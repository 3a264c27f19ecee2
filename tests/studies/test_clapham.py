"""Clapham and Grzes at quick scale: collapse with beta, typical latents, similarity."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
from quick import Quick

from vaescope.runs.options import FitOptions
from vaescope.studies import Histograms, Matrix, StudyContext, StudySettings, clapham
from vaescope.studies.clapham import MEASURES, QUICK_NOTE, Latent, asked_runs, sweep, tasks, typical
from vaescope.studies.pieces import TrainPiece
from vaescope.studies.running import plan_pieces

STUDIES = {study.name: study for study in clapham.STUDIES}
BETAS = (0.05, 0.1, 0.5, 1.0, 2.0, 2.5, 3.0)


def latent(kind: str, beta: float, rate: float = 1.0, spread: float = 0.1) -> Latent:
    return Latent(beta, kind, rate, {"sd of variances": spread})


def test_published_parts_are_the_studies() -> None:
    table = json.loads(files("vaescope.studies.published").joinpath("clapham.json").read_text(encoding="utf-8"))
    assert {f"clapham-{part}" for part in table} == set(STUDIES)
    assert all(part["source"] and part["cells"] == [] for part in table.values())


def test_every_study_names_what_the_paper_leaves_open() -> None:
    for study in STUDIES.values():
        assert ["names neither latents" in one.text for one in study.shared] == [True]
        assert "pictures without numbers" in study.left_open or "picture without numbers" in study.left_open


@pytest.mark.slow
def test_the_divergence_falls_as_beta_grows_in_both_models(quick: Quick) -> None:
    findings = quick("clapham-figure3")
    assert findings.notes == (QUICK_NOTE,)
    for model in ("VAE", "VGON"):
        found = quick.values("clapham-figure3", model=model)
        assert len(found) == len(BETAS)
        assert found == sorted(found, reverse=True)
        assert found[0] > 5
        assert found[-1] < 0.5


@pytest.mark.slow
def test_latents_go_from_active_to_passive_in_both_models(quick: Quick) -> None:
    findings = quick("clapham-figure4-5")
    for model in ("VAE", "VGON"):
        active, mixed, passive = (
            quick.values("clapham-figure4-5", model=model, type=kind) for kind in ("active", "mixed", "passive")
        )
        assert [sum(three) for three in zip(active, mixed, passive, strict=True)] == [8] * len(BETAS)
        assert active[0] > active[-1] == 0
        assert passive[0] == 0
        assert passive[-1] == 8
    assert "total collapse from beta" in findings.charts[0].sentence


@pytest.mark.slow
def test_typical_latents_have_the_shape_of_their_type(quick: Quick) -> None:
    findings = quick("clapham-figure6-9")
    for model in ("VAE", "VGON"):
        active, passive = (
            dict(zip(MEASURES, quick.values("clapham-figure6-9", model=model, latent=kind), strict=True))
            for kind in ("active", "passive")
        )
        assert active["mean of variances"] < 0.1
        assert abs(passive["mean of variances"] - 1) < 0.1
        assert abs(passive["mean of means"]) < 0.1
        assert passive["sd of means"] < active["sd of means"]
        assert passive["beta"] > active["beta"]
    chart = findings.charts[1]
    assert isinstance(chart, Histograms)
    assert list(chart.groups) == ["VAE, means", "VAE, variances", "VGON, means", "VGON, variances"]
    assert all(sum(counts) == 1000 for _, counts in chart.groups.values())


@pytest.mark.slow
def test_mean_codes_are_similar_and_most_so_for_close_betas(quick: Quick) -> None:
    findings = quick("clapham-figure10-14")
    assert len(findings.cells) == 2 * 3 * len(BETAS) ** 2
    assert all(cell.value is not None and 0 <= cell.value <= 1 for cell in findings.cells)
    near, far = (
        quick.values("clapham-figure10-14", models="VAE", representation="mean", beta="0.05", **{"other beta": beta})[0]
        for beta in ("0.1", "3")
    )
    assert near > 0.9 > far
    assert all(isinstance(chart, Matrix) and chart.matrix.shape == (7, 7) for chart in findings.charts)


@pytest.mark.slow
def test_a_vgon_differs_from_itself_when_its_noise_is_drawn_again(quick: Quick) -> None:
    findings = quick("clapham-figure12-14")
    assert len(findings.cells) == 2 * len(BETAS) ** 2
    for representation in ("mean", "variance"):
        of = {"representation": representation, "beta": "0.05", "other beta": "0.05"}
        assert 0.2 < quick.value("clapham-figure12-14", **of) < 0.999
    least, most = (
        quick.values("clapham-figure12-14", representation="variance", beta=beta, **{"other beta": beta})[0]
        for beta in ("2", "0.05")
    )
    assert least < 0.5 < most
    assert all(isinstance(chart, Matrix) and chart.matrix.shape == (7, 7) for chart in findings.charts)
    plan = plan_pieces(STUDIES["clapham-figure12-14"], replace(quick.settings, results=(quick.settings.runs / "none",)))
    assert {piece.title.split(",")[0] for piece in plan.pieces if isinstance(piece.work, TrainPiece)} == {"vgon"}


def test_typical_latents_are_picked_by_their_beta_and_spread() -> None:
    latents = [
        latent("active", 1.0, rate=9.0),
        latent("active", 5.0, rate=2.0),
        latent("active", 5.0, rate=3.0),
        latent("passive", 5.0, rate=0.02),
        latent("passive", 5.0, rate=0.01),
        latent("passive", 25.0, rate=0.0),
        latent("mixed", 5.0, spread=0.5),
        latent("mixed", 25.0, spread=0.01),
    ]
    found = typical(latents)
    assert {kind: (one.beta, one.rate) for kind, one in found.items()} == {
        "active": (5.0, 3.0),
        "passive": (5.0, 0.01),
        "mixed, type 1": (25.0, 1.0),
        "mixed, type 2": (5.0, 1.0),
    }


def test_a_type_without_latents_is_omitted() -> None:
    assert list(typical([latent("active", 1.0), latent("mixed", 1.0)])) == ["active", "mixed, type 1"]


def test_missing_data_are_named_at_paper_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing data are noted, and nothing is trained on them."""
    monkeypatch.setattr(StudyContext, "open", lambda self, name: self.note(f"no {name}"))
    context = StudyContext(StudySettings("paper", runs=tmp_path))
    assert asked_runs(context) == []
    assert context.notes == ["no mnist", "no smallnorb", "no dsprites"]


def test_runs_of_the_paper_are_the_published_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StudyContext, "open", lambda self, name: name)
    context = StudyContext(StudySettings("paper"))
    for task in tasks(context):
        trials = sweep(context, task).trials()
        plan = FitOptions.of(trials[0].settings).plan(60_000)
        assert (plan.steps, plan.batch) == (200 * 937, 64)
        assert {trial.member.objective.beta for trial in trials} == {0.5, 1.0, 5.0, 10.0, 20.0, 25.0, 30.0}
        assert {trial.member.seed for trial in trials} == set(range(10))
        assert {trial.settings["model"] for trial in trials} == {"vae", "vgon"}
