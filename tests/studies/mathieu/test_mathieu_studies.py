"""Mathieu et al. at quick scale: priors, the pinwheel, sparsity, classes."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import pytest
import torch
from quick import Quick
from torch.distributions import Normal, StudentT

from vaescope.codes import Representation
from vaescope.studies import Lines, Matrix, Pictures, StudyContext, StudySettings, mathieu
from vaescope.studies.mathieu.pinwheel import clusters, density, measured
from vaescope.studies.mathieu.priors import normal_quantiles
from vaescope.studies.running import find

STUDIES = {study.name: study for study in mathieu.STUDIES}


def codes(mean: torch.Tensor, variance: float) -> Representation:
    noise = torch.randn(mean.shape, generator=torch.Generator().manual_seed(0))
    return Representation(mean, torch.full_like(mean, variance), mean + variance**0.5 * noise)


def test_published_parts_are_the_studies() -> None:
    table = json.loads(files("vaescope.studies.published").joinpath("mathieu.json").read_text(encoding="utf-8"))
    assert {f"mathieu-{part}" for part in table} == set(STUDIES)
    assert all(part["source"] and part["cells"] == [] for part in table.values())


@pytest.mark.slow
def test_reconstruction_worsens_with_beta_under_every_gaussian_prior(quick: Quick) -> None:
    findings = quick("mathieu-figure2")
    for prior in ("Gaussian, isotropic", "Gaussian, fixed", "Gaussian, learned"):
        losses = quick.values("mathieu-figure2", prior=prior, measure="reconstruction loss")
        assert losses == sorted(losses)
        scores = quick.values("mathieu-figure2", prior=prior, measure="FactorVAE score")
        assert len(scores) == 4
        assert all(0.5 <= score <= 1 for score in scores)
    assert len(quick.values("mathieu-figure2", measure="FactorVAE score of normal quantiles")) == 3
    left, right = findings.charts
    assert isinstance(left, Lines)
    assert isinstance(right, Lines)
    assert (len(left.rows), len(right.rows)) == (12, 3)


@pytest.mark.slow
def test_beta_makes_codes_overlap_and_alpha_matches_them_to_the_prior(quick: Quick) -> None:
    findings = quick("mathieu-figure3")
    for alpha in (0.0, 1.0):
        information = quick.values("mathieu-figure3", alpha=alpha, measure="I(x; z)")
        assert information[0] > information[-1]
    for beta in (0.0, 0.5, 1.0, 2.0):
        mismatch = quick.values("mathieu-figure3", beta=beta, measure="KL(p, q)")
        assert mismatch[0] > mismatch[-1]
    pictures = findings.charts[-1]
    assert isinstance(pictures, Pictures)
    assert [tuple(items.shape) for _, items in pictures.strips] == [(1, 1, 48, 48), *[(4, 1, 48, 48)] * 3]


@pytest.mark.slow
def test_a_sparse_prior_gives_sparser_codes_and_alpha_costs_reconstruction(quick: Quick) -> None:
    sparse, gaussian = (
        quick.values("mathieu-figure4", prior=prior, alpha=30.0, measure="sparsity")[0]
        for prior in ("sparse, gamma 0.8, variance 0.0025", "Gaussian, gamma 0")
    )
    assert sparse > gaussian
    likelihoods = quick.values("mathieu-figure4", prior="Gaussian, gamma 0", measure="log-likelihood")
    assert likelihoods == sorted(likelihoods, reverse=True)
    matches = quick.values("mathieu-figure4", prior="Gaussian, gamma 0", measure="MMD")
    assert matches[0] > matches[-1]


@pytest.mark.slow
def test_every_class_has_magnitudes_and_items_that_move(quick: Quick) -> None:
    findings = quick("mathieu-figure5")
    assert all(cell.value is not None and 0 <= cell.value <= 1 for cell in findings.cells)
    *maps, moved = findings.charts
    assert len(maps) == 3
    for chart in maps:
        assert isinstance(chart, Matrix)
        assert chart.matrix.shape == (len(chart.rows), len(chart.columns)) == (10, 10)
    assert isinstance(moved, Pictures)
    for _, items in moved.strips:
        assert tuple(items.shape) == (8, 1, 8, 8)
        assert not torch.equal(items[0], items[-1])


def test_codes_drawn_from_the_prior_match_it() -> None:
    torch.manual_seed(0)
    centres = clusters().sample((400,)).float()
    near, far = measured(codes(centres, 1e-2), 500), measured(codes(centres + 3, 1e-2), 500)
    assert near["KL(p, q)"] < 0.5 < 10 < far["KL(p, q)"]
    assert near["sd"] == pytest.approx(0.1)


def test_measuring_does_not_change_the_global_random_state() -> None:
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    measured(codes(torch.zeros(8, 2), 1.0), 10)
    assert torch.equal(torch.rand(3), expected)


def test_the_density_of_the_prior_has_four_spots_with_nothing_between() -> None:
    image = density(clusters())[0]
    assert image.shape == (48, 48)
    assert image.max() == 1
    middle = image[23:25, 23:25].max()
    spots = [image[:24, 20:28].max(), image[24:, 20:28].max(), image[20:28, :24].max(), image[20:28, 24:].max()]
    assert all(spot > 0.99 for spot in spots)
    assert middle < 1e-3


def test_normal_quantiles_keep_the_share_below() -> None:
    torch.manual_seed(0)
    drawn = StudentT(3.0).sample((4000, 1)).double()
    found = normal_quantiles(codes(drawn, 1.0), 3.0).mean
    assert torch.equal(found.argsort(0), drawn.argsort(0))
    shares = Normal(0.0, 1.0).cdf(found).sort(0).values.flatten()
    assert (shares - torch.linspace(0, 1, 4000)).abs().max() < 0.05


def test_missing_data_are_named_at_paper_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(self: StudyContext, name: str, **options: object) -> None:
        self.note(f"data not found: {name}")

    monkeypatch.setattr(StudyContext, "open", absent)
    for name in ("mathieu-figure4", "mathieu-figure5"):
        findings, _ = find(STUDIES[name], StudySettings("paper", runs=tmp_path))
        assert (findings.cells, findings.notes) == ((), ("data not found: fashion-mnist",))
