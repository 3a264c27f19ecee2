"""The studies of Pastrana at quick scale: their findings, and that these can be compared with published numbers."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from quick import Quick

from vaescope.studies import pastrana
from vaescope.studies.charts import Lines, Pictures
from vaescope.studies.context import StudyContext
from vaescope.studies.pastrana.curves import subject
from vaescope.studies.pastrana.pictures import properties
from vaescope.studies.published import published_cells
from vaescope.studies.settings import StudySettings
from vaescope.studies.study import Reproduction

STUDIES = {study.name: study for study in pastrana.STUDIES}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Quick:
    """With as many seeds as quick scale has by default."""
    return Quick(tmp_path_factory.mktemp("runs"), seeds=None)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_finite_numbers_and_a_chart(quick: Quick, name: str) -> None:
    found = quick(name)
    assert found.cells
    assert all(cell.value is not None and math.isfinite(cell.value) for cell in found.cells)
    assert all(cell.count == 2 for cell in found.cells)
    assert found.charts
    assert all(isinstance(chart, Lines | Pictures) and chart.plain()["sentence"] for chart in found.charts)
    assert any("stand in for MNIST" in note for note in found.notes)


@pytest.mark.parametrize("name", STUDIES)
def test_published_numbers_have_the_columns_and_measures_of_ours(quick: Quick, name: str) -> None:
    ours = quick(name).cells
    published = published_cells(name)
    assert published or name == "pastrana-figure5"
    for cell in published:
        assert cell.of["data"] == "MNIST"
        assert set(cell.of) == set(ours[0].of)
        assert cell.of["measure"] in {one.of["measure"] for one in ours}


def test_digits_are_not_compared_with_published_numbers_for_mnist(quick: Quick) -> None:
    study = STUDIES["pastrana-figure4"]
    rows = Reproduction(study, StudySettings("quick"), quick(study.name), published_cells(study.name)).rows()
    assert not [row for row in rows if row["ours"] is not None and row["published"] is not None]


def test_beyond_ten_latents_the_bound_hardly_improves_and_the_kl_has_a_larger_share(quick: Quick) -> None:
    three, _, ten, twenty = quick.values("pastrana-figure3", measure="negative ELBO")
    assert abs(ten - twenty) < 0.5 * (three - ten)
    shares = quick.values("pastrana-figure3", measure="KL share (%)")
    assert shares[0] < shares[1] < shares[2]


def test_a_larger_beta_has_a_larger_bound_and_in_the_end_a_smaller_share_of_the_kl(quick: Quick) -> None:
    losses = quick.values("pastrana-figure4", measure="negative ELBO")
    assert losses == sorted(losses)
    shares = quick.values("pastrana-figure4", measure="KL share (%)")
    assert max(shares) > shares[0]
    assert shares[-1] < max(shares)


def test_labels_lower_the_bound_at_every_beta(quick: Quick) -> None:
    below = quick.values("pastrana-figure6", measure="negative ELBO below the unconditional (%)")
    assert len(below) == 4
    assert min(below) > 0


def test_figure_7_has_the_numbers_of_figures_4_and_6(quick: Quick) -> None:
    plain = quick.values("pastrana-figure7", measure="negative ELBO", model="beta-VAE")
    assert plain == [quick.values("pastrana-figure4", measure="negative ELBO")[at] for at in (0, 3)]
    told = quick.values("pastrana-figure7", measure="negative ELBO", model="conditional beta-VAE")
    assert told == [quick.values("pastrana-figure6", measure="negative ELBO")[at] for at in (0, 3)]


def test_reconstructions_get_worse_with_beta(quick: Quick) -> None:
    errors = quick.values("pastrana-figure5", measure="BCE")
    assert errors == sorted(errors)
    (chart,) = quick("pastrana-figure5").charts
    assert isinstance(chart, Pictures)
    assert [len(items) for _, items in chart.strips] == [10] * 6
    original = chart.strips[0][1]
    near, far = ((items - original).square().mean() for _, items in (chart.strips[1], chart.strips[-1]))
    assert near < far


def test_more_latents_change_nothing_under_a_larger_beta(quick: Quick) -> None:
    still = quick.values("pastrana-figure1-8", measure="latents that change nothing")
    passive = quick.values("pastrana-figure1-8", measure="passive latents")
    assert still[0] < min(still[1:])
    assert passive[0] < min(passive[1:])


def test_traversals_have_a_row_for_each_latent_and_three_for_each_digit(quick: Quick) -> None:
    *models, digits = quick("pastrana-figure1-8").charts
    assert [len(chart.strips) for chart in models if isinstance(chart, Pictures)] == [10, 10, 10]
    assert isinstance(digits, Pictures)
    assert len(digits.strips) == 30
    assert all(items.shape == (10, 1, 8, 8) for _, items in digits.strips)


def test_properties_distinguish_thick_tilted_and_wide_strokes_from_an_upright_one() -> None:
    images = torch.zeros(4, 1, 9, 9)
    images[0, 0, 1:8, 4] = 1
    images[1, 0, 1:8, 3:6] = 1
    images[2, 0, torch.arange(1, 8), torch.arange(1, 8)] = 1
    images[3, 0, 4, 1:8] = 1
    weight, tilt, width = properties(images).T.tolist()
    assert weight == pytest.approx([7 / 81, 21 / 81, 7 / 81, 7 / 81])
    assert tilt == pytest.approx([0, 0, 1, 0])
    assert width == pytest.approx([0, math.sqrt(2 / 3), 2, 2])


def test_paper_scale_without_mnist_names_the_missing_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise OSError("no network")

    monkeypatch.setenv("VAESCOPE_DATA", str(tmp_path))
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / project)
    monkeypatch.setattr("vaescope.data.cache.fetch", unreachable)
    context = StudyContext(StudySettings("paper", runs=tmp_path))
    assert subject(context) is None
    assert context.notes[0].startswith("data not found: mnist")
