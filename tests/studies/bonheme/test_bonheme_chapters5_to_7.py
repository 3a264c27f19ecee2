"""Studies of the thesis, chapters 5 to 7 and appendices A to C, at quick scale (Bonheme)."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from quick import Quick

from vaescope.studies.bonheme import correlation, epochs, settings, signatures, similarity, types
from vaescope.studies.bonheme.correlation import Snapshots
from vaescope.studies.context import StudyContext, StudyRun
from vaescope.studies.published import published_cells
from vaescope.studies.settings import StudySettings
from vaescope.studies.study import Study
from vaescope.sweeps.jobs import make_jobs
from vaescope.sweeps.specification import Sweep

ALL = {study.name: study for part in (signatures, types, correlation, similarity, epochs) for study in part.STUDIES}
LONG = ("bonheme-chapter5", "bonheme-figure6.5")
NAMES = [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in ALL]


@pytest.mark.parametrize("name", NAMES)
def test_every_number_is_finite_or_has_a_reason(name: str, quick: Quick) -> None:
    findings = quick(name)
    assert findings.cells
    for cell in findings.cells:
        assert (cell.value is not None and math.isfinite(cell.value)) or cell.note, cell.of
    assert len({str(cell.of) for cell in findings.cells}) == len(findings.cells)
    for chart in findings.charts:
        json.dumps(chart.plain(), allow_nan=False)
        assert chart.plain()["title"]


@pytest.mark.parametrize("name", NAMES)
def test_published_numbers_have_the_same_columns(name: str, quick: Quick) -> None:
    columns = {tuple(cell.of) for cell in quick(name).cells}
    assert len(columns) == 1
    for cell in published_cells(name):
        assert set(cell.of) == set(next(iter(columns))), cell.of
        assert cell.note


def test_every_study_has_its_source_and_open_questions() -> None:
    for study in ALL.values():
        assert study.source.startswith("Bonheme")
        assert study.question.endswith("?")
        assert study.left_open.endswith(".")


def test_passive_latents_are_constant_in_mean_codes_and_standard_normal_in_sampled_ones(quick: Quick) -> None:
    study = "bonheme-figure6.2-6.3"
    passive = {"data": "digits", "type": "passive", "measure": "variance"}
    assert quick.value(study, **passive, representation="mean") < 0.1
    assert quick.value(study, **passive, representation="sampled") == pytest.approx(1, abs=0.1)
    active = {"data": "digits", "type": "active", "measure": "variance"}
    assert quick.value(study, **active, representation="mean") > 0.8


def test_passive_latents_predict_from_their_means_and_not_from_their_samples(quick: Quick) -> None:
    study = "bonheme-figure6.4"
    guess = quick.value(study, beta=8, latents="uniform guess")
    assert quick.value(study, beta=8, latents="passive", representation="sampled") < guess + 0.1
    assert quick.value(study, beta=8, latents="passive", representation="mean") > guess + 0.2


@pytest.mark.slow
@pytest.mark.parametrize(("objective", "weak", "strong"), [("beta-VAE", 1, 8), ("DIP-VAE II", 1, 50)])
def test_more_latents_are_passive_under_stronger_regularisation(
    objective: str, weak: int, strong: int, quick: Quick
) -> None:
    study = "bonheme-figure6.5"
    counts = [quick.value(study, objective=objective, strength=one, type="passive") for one in (weak, strong)]
    assert counts[1] > counts[0] + 2


def test_passive_latents_make_mean_codes_more_dependent_than_sampled_ones(quick: Quick) -> None:
    study = "bonheme-figure6.6-6.8"
    of = {"objective": "DIP-VAE II", "strength": 50, "measure": "total correlation"}
    assert quick.value(study, **of, representation="mean", latents="all") > 1
    assert quick.value(study, **of, representation="sampled", latents="all") < 0.3
    without = [quick.value(study, **of, representation=one, latents="active") for one in ("mean", "sampled")]
    assert without[0] == pytest.approx(without[1], abs=0.1)


def test_the_effective_rank_of_mean_codes_loses_passive_latents(quick: Quick) -> None:
    study = "bonheme-figure6.6-6.8"
    of = {"objective": "DIP-VAE II", "strength": 50, "measure": "effective rank", "latents": "all"}
    assert quick.value(study, **of, representation="sampled") > 9
    assert quick.value(study, **of, representation="mean") < 7


def test_passive_latents_are_correlated_with_others_more_often_than_active_ones(quick: Quick) -> None:
    study = "bonheme-figure6.9-6.11"
    of = {"figure": "6.10", "measure": "share of |correlations| above 0.2"}
    assert quick.value(study, **of, type="passive") > quick.value(study, **of, type="active")


def test_a_correlation_is_counted_with_every_other_latent_and_never_with_itself() -> None:
    still, bound = np.eye(3), np.array([[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1.0]])
    seen = Snapshots((1, 2), ("passive", "active", "active"), np.stack([still, bound]))
    assert [seen.times_above(place) for place in range(3)] == [1, 1, 0]
    assert seen.share_above("passive") == pytest.approx(1 / 4)
    assert seen.share_above("mixed") is None
    assert seen.to_active("passive") == pytest.approx((0.45 + 0) / 2)


def test_capacity_of_the_annealed_vae_does_not_remove_dependence(quick: Quick) -> None:
    study = "bonheme-appendixB"
    of = {"strength": 25, "latents": "all", "measure": "total correlation"}
    assert quick.value(study, **of, representation="mean") > quick.value(study, **of, representation="sampled")


def test_cka_needs_fewer_items_than_procrustes_where_nothing_is_shared(quick: Quick) -> None:
    study = "bonheme-figure7.1"
    nothing = {"pair": "A and D, 0% shared", "items": 500}
    assert quick.value(study, **nothing, measure="CKA") < 0.15
    assert quick.value(study, **nothing, measure="Procrustes") > 0.2
    for cell in published_cells("bonheme-figure7.1"):
        assert quick.value(study, **cell.of) == pytest.approx(cell.value, abs=0.05)


def test_the_encoder_is_learned_before_the_decoder(quick: Quick) -> None:
    study = "bonheme-figure7.2-7.10"
    assert quick.value(study, figure="7.8", layers="encoder") > quick.value(study, figure="7.8", layers="decoder") + 0.2


def test_the_decoder_catches_up_with_the_encoder_during_training(quick: Quick) -> None:
    study = "bonheme-figureC.2-C.4"
    early, late = ({"figure": figure} for figure in ("C.2a", "C.2b"))
    assert quick.value(study, **early, layers="encoder") > quick.value(study, **early, layers="decoder") + 0.2
    for layers in ("encoder", "mean", "decoder"):
        assert quick.value(study, **late, layers=layers) > quick.value(study, **early, layers=layers) + 0.1


def test_the_first_epochs_of_appendix_c_are_those_of_figure_7_2() -> None:
    for figure in epochs.PAPER:
        first, *_, last = figure.heatmaps()
        wanted = [one for one in similarity._paper() if one.data == first.data and one.figure.startswith("7.2")]
        assert [(one.rows, one.columns, one.net) for one in wanted] == [(first.rows, first.columns, first.net)]
        assert last.rows == last.columns == first.columns


def test_losses_settle_later_where_the_capacity_is_annealed_and_higher_where_beta_is(quick: Quick) -> None:
    study = "bonheme-figureC.5"
    beta = [quick.value(study, objective="beta-VAE", strength=one, measure="last loss") for one in (1, 8)]
    assert beta[1] > beta[0] + 10
    settled = {"measure": "epochs to 90% of the fall"}
    annealed = quick.values(study, objective="annealed VAE", **settled)
    assert min(annealed) > max(quick.values(study, objective="beta-VAE", **settled))


def test_samples_of_a_collapsed_model_are_unlike_every_layer_of_a_good_one(quick: Quick) -> None:
    study = "bonheme-figure7.2-7.10"
    good = quick.value(study, figure="7.9", layers="rows' samples with encoder")
    collapsed = quick.value(study, figure="7.9", layers="columns' samples with encoder")
    assert collapsed < good - 0.1


def test_encoders_of_two_objectives_are_similar_by_both_measures(quick: Quick) -> None:
    study = "bonheme-figure7.2-7.10"
    assert quick.value(study, figure="7.10", layers="encoder") > 0.7
    assert quick.value(study, figure="7.6", layers="encoder") > 0.7


def test_a_classifier_of_the_same_net_has_layers_similar_to_the_encoder(quick: Quick) -> None:
    study = "bonheme-classifier"
    assert quick.value(study, measure="accuracy") > 0.9
    assert quick.value(study, layers="encoder") > 0.6
    assert quick.value(study, layers="encoder") > quick.value(study, layers="last layer and variance") + 0.2


@pytest.mark.slow
def test_passive_latents_of_an_identifiable_vae_follow_their_prior_and_active_ones_do_not(quick: Quick) -> None:
    study = "bonheme-chapter5"
    of = {"prior mean": "0", "measure": "variance over prior's"}
    assert quick.value(study, **of, type="passive") == pytest.approx(1, abs=0.15)
    assert quick.value(study, **of, type="active") < 0.3
    assert quick.value(study, **of | {"measure": "correlation of prior and squared mean"}, type="active") > 0.7


class _Asked(Exception):
    """Stops a study before it trains."""


@pytest.mark.parametrize("study", [study for study in ALL.values() if study.name != "bonheme-figure7.1"])
def test_paper_scale_requests_the_published_training(
    study: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Sweep] = []

    def runs(self: StudyContext, sweep: Sweep) -> list[StudyRun]:
        assert make_jobs(sweep)
        asked.append(sweep)
        raise _Asked

    monkeypatch.setattr(StudyContext, "runs", runs)
    with pytest.raises(_Asked):
        study.work(StudyContext(StudySettings("paper", runs=tmp_path, device="cpu")))
    chosen = asked[0].settings
    assert chosen["steps"] in (300_000, 2 * 11_520)
    assert chosen["batch"] == 64
    assert asked[0].member["learning_rate"] == 1e-4
    assert asked[0].member["latents"] == (30 if study.name == "bonheme-chapter5" else 10)


def test_missing_data_are_named_and_the_others_are_studied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VAESCOPE_DATA", str(tmp_path))
    context = StudyContext(StudySettings("paper"))
    there = settings.data_there(context, (settings.DSPRITES, settings.CARS, settings.SCREAM))
    assert there == ["dsprites"]
    assert [note.split(".")[0] for note in context.notes] == [
        "data not found: cars3d",
        "data not found: dsprites-scream",
    ]


def test_fewer_seeds_than_published_can_be_requested(tmp_path: Path) -> None:
    context = StudyContext(StudySettings(runs=tmp_path, seeds=1))
    runs = settings.asked_runs(context, settings.BETA, "digits", [1], steps=2)
    assert {beta: len(own) for beta, own in runs.items()} == {1: 1}
