"""The searches of chapter 8: the published counts of models follow from the algorithm, and models are trained once."""

from __future__ import annotations

from pathlib import Path

import pytest

from vaescope.studies import STUDIES, Findings, Study, StudyContext, StudySettings, Task
from vaescope.studies.bonheme.bisection import Bisection
from vaescope.studies.bonheme.elbows import APPENDIX_D, sizes_of, sweep_of
from vaescope.studies.bonheme.search import (
    CELEBA,
    DSPRITES,
    EPOCHS,
    INFORMATION,
    MINUTES,
    SOURCES,
    SYMSOL,
    TRACE,
    Found,
    SearchQuestion,
    SeedAnswer,
    asked,
    settings_of,
    subjects,
)
from vaescope.studies.results import Result
from vaescope.studies.running import find, plan_pieces


def found(value: int, start: int, periods: int = 2, stable: bool = True) -> Found:
    answer = SeedAnswer(0, value, periods, stable)
    return Found((answer,), start, 200, period=100, epoch=50, seconds_per_step=0.6)


# Tables 8.1, 8.4 and 8.5: the start, the mean answer, the number of trained models.
@pytest.mark.parametrize(
    ("start", "answer", "models"), [(4, 19, 8), (22, 33, 6), (5, 19, 7), (19, 18, 4), (22, 19, 5), (182, 32, 10)]
)
def test_algorithm_1_trains_about_as_many_models_as_published(start: int, answer: int, models: int) -> None:
    assert abs(found(answer, start).models()[0] - models) <= 1


def test_the_epoch_that_confirms_an_answer_is_not_counted() -> None:
    assert found(3, 3, periods=3).epochs() == [4.0]
    assert found(3, 3, periods=3, stable=False).epochs() == [6.0]


def test_minutes_are_those_of_the_models_that_the_algorithm_trains() -> None:
    one = found(3, 3)
    minutes = next(cell for cell in one.cells({}, [5.0]) if cell.of["measure"] == MINUTES)
    assert minutes.value == pytest.approx(5 * 2 * 50 * 0.6 / 60)


def test_paper_scale_has_the_nets_and_the_data_of_the_thesis() -> None:
    context = StudyContext(StudySettings("paper", device="cpu"))
    assert settings_of(context) == {"net": {"name": "conv"}, "batch": 64, "precision": "float32", "held_out": 0.1}
    assert settings_of(context, connected=True)["net"] == {"name": "fully_connected"}
    assert [subject.source for subject in subjects(context, (DSPRITES,))] == [{"name": SOURCES[DSPRITES]}]


def test_data_sets_without_files_are_noted_and_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VAESCOPE_DATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    context = StudyContext(StudySettings("paper"))
    labels = [subject.label for subject in subjects(context)]
    assert labels == [DSPRITES]
    assert [note.split(".")[0] for note in context.notes] == [
        f"data not found: {SOURCES[name]}" for name in (SYMSOL, CELEBA)
    ]


@pytest.mark.parametrize("gap", [TRACE, INFORMATION])
def test_bisection_at_paper_scale_is_that_of_the_thesis(gap: str) -> None:
    """One model at a time, of 1 to 199 latents, each for two epochs of dSprites and measured once."""
    context = StudyContext(StudySettings("paper", device="cpu"))
    (subject,) = subjects(context, (DSPRITES,))
    search = Bisection(context, subject, gap)
    assert (search.options.search, search.options.largest, search.options.max_periods) == ("bisection", 199, 1)
    assert search.setup.period == 2 * (663_552 // 64)
    search.asked([0, 1])
    assert [request.steps for request in context.requests if isinstance(request, Task)] == [8 * 2 * 10_368] * 2


def test_the_time_of_a_resumed_bisection_is_scaled_to_all_of_its_steps(tmp_path: Path) -> None:
    context = StudyContext(StudySettings(runs=tmp_path, device="cpu"))
    (subject,) = subjects(context, (SYMSOL,))
    search = Bisection(context, subject, TRACE)
    value = {"latents": 3, "gaps": [[4, 1.2], [2, 0.3], [3, 0.3]]}
    for seed, steps in ((0, 900), (1, 300)):  # the second was stopped after two of its three models
        context.store.add(search.key(seed), Result(value, made={"seconds": 0.2 * steps, "steps": steps}))
    cells = {cell.of["measure"]: cell for cell in search.cells(search.asked([0, 1]))}
    assert cells["minutes"].value == pytest.approx(3)
    assert cells["minutes"].sd == pytest.approx(0)
    assert cells[EPOCHS].value == pytest.approx(300 / 42)


def runs_of(name: str, runs: Path) -> set[str]:
    """The runs that a study at quick scale trains."""
    plan = plan_pieces(STUDIES[name], StudySettings(runs=runs, device="cpu"))
    return {run for piece in plan.pieces for run in piece.work.runs}


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("bonheme-figure8.12", "bonheme-figure8.5-8.8"),
        ("bonheme-figureD.1-D.4", "bonheme-figure8.5-8.8"),
        ("bonheme-equationD.1", "bonheme-figure8.5-8.8"),
    ],
)
def test_figures_of_the_same_models_share_their_runs(name: str, other: str, tmp_path: Path) -> None:
    assert set() < runs_of(name, tmp_path) < runs_of(other, tmp_path)


def test_appendix_d_has_both_objectives_on_both_data_sets() -> None:
    context = StudyContext(StudySettings("paper", device="cpu"))
    (subject,) = subjects(context, (DSPRITES,))
    found = [(panel.figure, panel.names[0], sweep_of(context, subject, panel).objective) for panel in APPENDIX_D]
    strengths = [(figure, name, one.get("lambda_off_diagonal", one.get("beta"))) for figure, name, one in found]
    betas, lambdas = [0.5, 2, 4], [0.5, 2]
    assert strengths == [
        *((f"D.1{letter}", SYMSOL, beta) for letter, beta in zip("abc", betas, strict=True)),
        *((f"D.2{letter}", DSPRITES, beta) for letter, beta in zip("abc", betas, strict=True)),
        *((f"D.3{letter}", SYMSOL, strength) for letter, strength in zip("ab", lambdas, strict=True)),
        *((f"D.4{letter}", DSPRITES, strength) for letter, strength in zip("ab", lambdas, strict=True)),
    ]
    assert sizes_of(context, subject)[:8] == (3, 6, 8, 10, 12, 18, 24, 32)


def searched(settings: StudySettings, *questions: SearchQuestion) -> dict[SearchQuestion, Found]:
    """The answers of a study with these searches."""
    answers: dict[SearchQuestion, Found] = {}

    def work(context: StudyContext) -> Findings:
        (subject,) = subjects(context, (SYMSOL,))
        answers.update(asked(context, subject, questions).found())
        return Findings(())

    find(Study("some-search", "Some et al.", "How many?", "", work), settings)
    return answers


@pytest.mark.slow
def test_three_dimensions_are_found_once_and_not_trained_again(tmp_path: Path) -> None:
    settings = StudySettings(runs=tmp_path, device="cpu", progress=False)
    first = searched(settings, SearchQuestion())[SearchQuestion()]
    assert first.values == [3, 3]
    assert first.seconds_per_step is not None
    again = searched(settings, SearchQuestion(), SearchQuestion(start=8))
    assert again[SearchQuestion()].values == again[SearchQuestion(start=8)].values == [3, 3]
    assert again[SearchQuestion()].seconds_per_step == first.seconds_per_step
