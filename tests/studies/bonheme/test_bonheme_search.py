"""The searches of chapter 8: the published counts of models follow from the algorithm, and models are trained once."""

from __future__ import annotations

from pathlib import Path

import pytest

from vaescope.studies import Findings, Study, StudyContext, StudySettings
from vaescope.studies.bonheme.search import (
    CELEBA,
    DSPRITES,
    MINUTES,
    SOURCES,
    SYMSOL,
    Found,
    SearchQuestion,
    SeedAnswer,
    asked,
    settings_of,
    subjects,
)
from vaescope.studies.running import find


def found(value: int, start: int, periods: int = 2, stable: bool = True) -> Found:
    answer = SeedAnswer(0, value, periods, stable)
    return Found((answer,), start, 200, period=100, epoch=50, seconds_per_step=0.6)


# Tables 8.1, 8.4 and 8.5: the start, the mean answer, the number of trained models.
@pytest.mark.parametrize(
    ("start", "answer", "models"), [(4, 19, 8), (22, 33, 6), (5, 19, 7), (19, 18, 4), (22, 19, 5), (182, 32, 10)]
)
def test_algorithm_1_trains_about_as_many_models_as_published(start: int, answer: int, models: int) -> None:
    assert abs(found(answer, start).models()[0] - models) <= 1


@pytest.mark.parametrize("answer", [11, 19, 32])
def test_bisection_of_1_to_200_trains_eight_models_as_published(answer: int) -> None:
    assert found(answer, 100).models(bisected=True) == pytest.approx([8.0], abs=1)


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
