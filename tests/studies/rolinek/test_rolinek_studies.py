"""The studies of Rolinek et al. at quick scale: their findings, which can be compared with published numbers."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from quick import Quick

from vaescope.data import open_dataset
from vaescope.errors import DataError
from vaescope.runs import Run
from vaescope.runs.options import FitOptions
from vaescope.studies import rolinek
from vaescope.studies.charts import Lines
from vaescope.studies.context import MeasureRequest, MissingResults, StudyContext
from vaescope.studies.published import published_cells
from vaescope.studies.rolinek import runs as rolinek_runs
from vaescope.studies.rolinek.runs import AE, LINEAR, NONLINEAR, PAPER, QUICK, SEEDS, SIGMA, VAE, tasks
from vaescope.studies.rolinek.tables import table1
from vaescope.studies.running import find
from vaescope.studies.settings import StudySettings
from vaescope.studies.study import Reproduction

STUDIES = {study.name: study for study in rolinek.STUDIES}
TABLE1, TABLE2 = "rolinek-table1", "rolinek-table2"


@pytest.fixture(autouse=True)
def without_public_data(monkeypatch: pytest.MonkeyPatch) -> None:
    """MNIST is not used, so that every machine trains the same."""

    def only_built_in(name: str, **options: object) -> object:
        if "mnist" in name:
            raise DataError("Not looked for.")
        return open_dataset(name, **options)

    monkeypatch.setattr("vaescope.studies.context.open_dataset", only_built_in)


def test_the_numbers_of_equations_25_and_26(quick: Quick) -> None:
    found = Reproduction(
        STUDIES["rolinek-toy"], StudySettings("quick"), quick("rolinek-toy"), published_cells("rolinek-toy")
    )
    both = [row for row in found.rows() if row["published"] is not None]
    assert len(both) == 7
    for row in both:
        assert row["ours"] == pytest.approx(row["published"], abs=0.05)


def test_no_rotation_costs_less_than_orthogonal_columns(quick: Quick) -> None:
    (chart,) = quick("rolinek-toy").charts
    assert isinstance(chart, Lines)
    costs = [row["value"] for row in chart.rows if row["of"] != "DtO"]
    distances = [row["value"] for row in chart.rows if row["of"] == "DtO"]
    assert costs.index(min(costs)) in (0, 90)
    assert costs.index(max(costs)) == distances.index(max(distances)) == 45


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STUDIES if name != "rolinek-toy"])
def test_every_study_has_finite_numbers_or_a_reason(quick: Quick, name: str) -> None:
    found = quick(name)
    assert found.charts
    for cell in found.cells:
        assert cell.note if cell.value is None else math.isfinite(cell.value)
    assert sum(cell.value is None for cell in found.cells) == (2 if name == TABLE1 else 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in STUDIES if name != "rolinek-figure4"])
def test_published_numbers_have_the_columns_of_ours(quick: Quick, name: str) -> None:
    columns = set(quick(name).cells[0].of)
    published = published_cells(name)
    assert published
    assert all(set(cell.of) == columns for cell in published)


@pytest.mark.slow
def test_missing_data_and_their_replacement_are_named(quick: Quick) -> None:
    notes = quick(TABLE2).notes
    assert notes[0] == "data not found: mnist. Not looked for."
    assert notes[1].startswith("Digits")
    assert {cell.of["data"] for cell in quick(TABLE2).cells} == {LINEAR, NONLINEAR, "Digits"}


@pytest.mark.slow
@pytest.mark.parametrize("data", [LINEAR, NONLINEAR])
def test_a_diagonal_posterior_has_the_decoder_nearest_to_orthogonal(quick: Quick, data: str) -> None:
    own = quick.value(TABLE2, data=data, model="beta-VAE", measure="DtO")
    others = [quick.value(TABLE2, data=data, model=model, measure="DtO") for model in (AE, SIGMA)]
    assert own < 0.6 * min(others)


@pytest.mark.slow
def test_random_decoders_are_as_far_from_orthogonal_as_published(quick: Quick) -> None:
    # They need no training: they are the same at every scale, and are compared with the published distances.
    found = Reproduction(STUDIES[TABLE2], StudySettings("paper"), quick(TABLE2), published_cells(TABLE2)).rows()
    both = [row for row in found if row["model"] == "Random decoder" and row["difference_se"] is not None]
    assert {LINEAR, NONLINEAR} <= {row["data"] for row in both}
    assert all(abs(row["difference_se"]) < 2 for row in both)


@pytest.mark.slow
def test_the_linear_set_reaches_the_regime_early_and_superfluous_latents_delay_it(quick: Quick) -> None:
    few = quick.value(TABLE1, data=LINEAR, model="beta-VAE (dep.)")
    assert few > 50
    assert quick.value(TABLE1, data=LINEAR, model="beta-VAE (3)") < few


@pytest.mark.slow
def test_orthogonality_comes_with_training_and_disentanglement_with_orthogonality(quick: Quick) -> None:
    name = "rolinek-figure4"
    distances = [quick.value(name, trained=f"{steps} steps", measure="DtO") for steps in (75, 600)]
    assert distances[1] < 0.5 * distances[0]
    assert quick.value(name, measure="correlation") < -0.3


@pytest.mark.slow
def test_sides_of_equal_length_do_not_determine_the_rotation(quick: Quick) -> None:
    square, oblong = (quick.value("rolinek-scales", ratio=ratio, measure="DtO") for ratio in (1.0, 2.0))
    assert oblong < 0.5 * square


def test_runs_of_figure_4_and_table_2_are_the_same(quick: Quick) -> None:
    one, context = QUICK[LINEAR], StudyContext(quick.settings)
    of_table = {run.id for run in one.runs(context)["beta-VAE"]}
    of_figure = {run.id for run in context.runs(one.sweep({"seed": context.seed_list(*SEEDS)}, steps=600))}
    assert of_table == of_figure


def test_published_cells_are_of_models_that_paper_scale_trains() -> None:
    trained = {(label, model) for label, one in PAPER.items() for model in (*one.models, "Random decoder")}
    published = {(cell.of["data"], cell.of["model"]) for cell in published_cells(TABLE2)}
    assert published == trained


@pytest.mark.parametrize("label", [LINEAR, NONLINEAR, "dSprites"])
def test_settings_of_the_paper_are_valid(label: str) -> None:
    one = PAPER[label]
    chosen = FitOptions.of(dict(one.settings))
    data = open_dataset(one.source)
    chosen.architecture(data).build(data.shape, one.latents, seed=None)
    plan = chosen.plan(round(0.8 * len(data)))
    assert plan.monitor_every == 500
    assert plan.steps == one.settings["epochs"] * (round(0.8 * len(data)) // 64)


def test_the_factors_of_a_task_are_those_that_vary() -> None:
    for one in (*PAPER.values(), *QUICK.values()):
        if one.continuous:
            table = open_dataset(one.source).factor_table
            assert table is not None
            assert sum(size > 1 for size in table.sizes) == len(one.continuous)


def test_paper_scale_without_public_data_has_the_other_tasks() -> None:
    context = StudyContext(StudySettings("paper"))
    assert [one.label for one in tasks(context)] == ["dSprites", LINEAR, NONLINEAR]
    assert context.notes == [f"data not found: {name}. Not looked for." for name in ("mnist", "fashion-mnist")]
    assert VAE not in PAPER[LINEAR].models


def test_images_have_bernoulli_pixels_too_at_paper_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = QUICK[rolinek_runs.DIGITS]
    settings = {**digits.settings, "steps": 30}
    small = replace(digits, label="Small", models=(VAE,), latents=3, regime_beta=1.0, settings=settings)
    monkeypatch.setattr(rolinek_runs, "PAPER", {"Small": small})
    monkeypatch.setattr(rolinek_runs, "JACOBIANS", (20, 20))
    settings = StudySettings("paper", seeds=1, runs=tmp_path, engine_options={"workers": 1}, progress=False)
    cells = find(STUDIES[TABLE1], settings)[0].cells
    models = [cell.of["model"] for cell in cells if cell.value is not None]
    assert models == ["beta-VAE (dep.)", "beta-VAE (10)"] + [
        f"beta-VAE ({size}), Bernoulli pixels" for size in ("dep.", "10")
    ]
    found = {cell.of["model"]: cell.value for cell in find(STUDIES[TABLE2], settings)[0].cells}
    assert list(found) == ["VAE", "VAE, Bernoulli pixels", "Random decoder"]
    assert found["VAE"] != found["VAE, Bernoulli pixels"]
    likelihoods = [
        run.configuration.architecture.likelihood
        for run in map(Run.open, (file.parent for file in tmp_path.glob("*/run.json")))
    ]
    assert len(likelihoods) == 4
    assert sum("ernoulli" in str(one) for one in likelihoods) == 2


@pytest.mark.parametrize(("label", "dimensions"), [(LINEAR, 3), (NONLINEAR, 6)])
def test_paper_scale_asks_for_ten_latents_where_the_data_have_fewer_dimensions(label: str, dimensions: int) -> None:
    context, one = StudyContext(StudySettings("paper", seeds=2)), PAPER[label]
    with pytest.raises(MissingResults):
        table1(context)
    asked = {request.run.id: request.run for request in context.requests if isinstance(request, MeasureRequest)}
    wide = one.in_regime(context, {"ten": 10}, overcomplete=True)["ten"]
    assert {run.id for run in wide} <= set(asked)
    assert all(run.member.latents == 10 and run.job.options.overcomplete for run in wide)
    # The other runs are those of before, whose configurations know nothing of the setting.
    few = one.in_regime(context, {"own": one.latents, "all": dimensions})
    for run in (*few["own"], *few["all"]):
        assert run.id in asked
        assert not run.job.options.overcomplete
