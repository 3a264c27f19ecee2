"""Parts of a study: scales, cells, comparison with published numbers, and runs that train once."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vaescope.data import DATASETS, Dataset
from vaescope.errors import ConfigurationError, UnknownNameError
from vaescope.runs import Run
from vaescope.studies import (
    STUDIES,
    Cell,
    Findings,
    Lines,
    Measurement,
    Reproduction,
    Study,
    StudyContext,
    StudySettings,
    reproduce,
)
from vaescope.studies.claims import StudyClaim
from vaescope.studies.published import published_cells
from vaescope.studies.rules import Between
from vaescope.studies.running import find
from vaescope.sweeps.specification import Sweep

NET = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}


def betas(*values: float) -> Sweep:
    return Sweep("digits", {"net": NET, "steps": 4, "batch": 16}, {"latents": 2}, grid={"objective.beta": list(values)})


def last_test(run: Run, data: Dataset, device: str) -> dict[str, Any]:
    return run.last("test")


LAST_TEST = Measurement("last-test", last_test)


def work(context: StudyContext) -> Findings:
    runs = context.runs(betas(1.0, 4.0))
    values = context.measured(runs, LAST_TEST)
    pairs = zip(runs, values, strict=True)
    return Findings(
        tuple(Cell.over({"beta": run.member.objective.beta}, [0.0 * value["loss"] + 2]) for run, value in pairs)
    )


STUDY = Study("some-table1", "Some et al., Table 1", "What becomes of beta?", "All else.", work)


def compared(ours: list[Cell], published: list[Cell]) -> list[dict[str, Any]]:
    return Reproduction(STUDY, StudySettings("paper"), Findings(tuple(ours)), tuple(published)).rows()


def test_a_context_selects_the_settings_of_its_scale() -> None:
    quick, paper = StudyContext(StudySettings()), StudyContext(StudySettings("paper"))
    assert (quick.pick(1, 2), paper.pick(1, 2)) == (1, 2)
    assert quick.seed_list(2, 50) == [0, 1]
    assert len(paper.seed_list(2, 50)) == 50
    assert StudyContext(StudySettings("paper", seeds=3)).seed_list(2, 50) == [0, 1, 2]


def test_an_unknown_scale_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="paper, quick"):
        StudySettings("papr")
    with pytest.raises(ConfigurationError, match="seeds"):
        StudySettings(seeds=0)


def test_runs_come_in_the_order_of_the_grid_and_train_once(tmp_path: Path) -> None:
    settings = StudySettings(runs=tmp_path, engine_options={"workers": 1}, progress=False)

    def of(*values: float) -> Study:
        def loss(context: StudyContext) -> Findings:
            runs = context.runs(betas(*values))
            found = context.measured(runs, LAST_TEST)
            return Findings(tuple(Cell({"run": run.id}, value["loss"]) for run, value in zip(runs, found, strict=True)))

        return replace(STUDY, work=loss)

    runs = StudyContext(settings).runs(betas(4.0, 1.0, 2.0))
    assert [run.member.objective.beta for run in runs] == [4.0, 1.0, 2.0]
    first = find(of(4.0, 1.0, 2.0), settings)[0].cells
    weights = {file: file.stat().st_mtime_ns for file in tmp_path.glob("*/model.safetensors")}
    second = find(of(1.0, 4.0), settings)[0].cells
    assert second == (first[1], first[0])
    assert {file: file.stat().st_mtime_ns for file in tmp_path.glob("*/model.safetensors")} == weights
    assert len(weights) == 3


def test_a_cell_over_seeds_is_their_mean_and_standard_deviation() -> None:
    assert Cell.over({"of": 1}, [1.0, 2.0, 3.0]) == Cell({"of": 1}, 2.0, 1.0, 3)
    assert Cell.over({"of": 1}, [2.5]) == Cell({"of": 1}, 2.5, None, 1)


@pytest.mark.parametrize(
    ("values", "note"), [([1.0, math.nan], "not finite"), ([math.inf], "not finite"), ([], "nothing was measured")]
)
def test_a_cell_without_a_number_has_a_reason(values: list[float], note: str) -> None:
    assert Cell.over({}, values) == Cell({}, None, None, len(values), note)


def test_numbers_are_matched_whatever_the_order_of_their_columns() -> None:
    (row,) = compared(
        [Cell({"data": "mnist", "beta": 4}, 3.0, 0.5, 5)], [Cell({"beta": 4, "data": "mnist"}, 2.0, 0.25, 10)]
    )
    assert row == {
        "data": "mnist",
        "beta": 4,
        "ours": 3.0,
        "sd": 0.5,
        "seeds": 5,
        "published": 2.0,
        "published_sd": 0.25,
        "published_seeds": 10,
        "difference_se": pytest.approx(1 / math.sqrt(0.5**2 / 5 + 0.25**2 / 10)),
        "note": "",
    }


def test_unmatched_numbers_are_listed_measured_ones_first() -> None:
    mine, theirs = compared([Cell({"of": "a"}, 1.0)], [Cell({"of": "b", "layer": 2}, 2.0, 0.5)])
    assert (mine["of"], mine["layer"], mine["ours"], mine["published"]) == ("a", None, 1.0, None)
    assert (theirs["of"], theirs["layer"], theirs["ours"], theirs["published"]) == ("b", 2, None, 2.0)
    assert theirs["seeds"] is None
    assert mine["difference_se"] is theirs["difference_se"] is None


@pytest.mark.parametrize("spread", [None, 0.0])
def test_without_a_published_spread_there_is_no_standardised_difference(spread: float | None) -> None:
    (row,) = compared([Cell({}, 1.0)], [Cell({}, 2.0, spread)])
    assert row["difference_se"] is None


def test_notes_of_both_sides_are_shown() -> None:
    (row,) = compared([Cell({}, None, note="data not found")], [Cell({}, 2.0, note="Read off a figure.")])
    assert row["note"] == "data not found; Read off a figure."


def test_the_summary_counts_claims() -> None:
    claims = tuple(
        StudyClaim(f"At {name}.", "section 1", Between({"of": name}, high=1.0)) for name in ("a", "b", "none")
    )
    findings = Findings((Cell({"of": "a"}, 1.0), Cell({"of": "b"}, 2.0)))
    found = Reproduction(replace(STUDY, claims=claims), StudySettings("paper"), findings, ())
    assert found.summary() == ("Some et al., Table 1, paper: 3 claims: 1 holds, 1 does not hold, 1 is not tested here")
    assert [one["verdict"] for one in found.plain()["claims"]] == ["holds", "does not hold", "not tested here"]
    quick = replace(found, settings=StudySettings("quick"))
    assert quick.summary() == "Some et al., Table 1, quick: 3 claims: 3 are not tested here"
    assert Reproduction(STUDY, StudySettings("paper"), findings, ()).summary().endswith(": no claim was stated")


def test_numbers_without_training_are_compared_at_every_scale() -> None:
    ours, published = (Cell({"beta": 4}, 3.0),), (Cell({"beta": 4}, 1.0, 0.5, 4),)
    for exact, difference in ((False, None), (True, 8.0)):
        found = Reproduction(replace(STUDY, exact=exact), StudySettings("quick"), Findings(ours), published)
        assert found.rows()[0]["difference_se"] == difference


def test_a_reproduction_can_be_written_as_json() -> None:
    chart = Lines("Chart", "A line.", [{"x": 1, "y": math.nan}], "x", "y")
    found = Reproduction(STUDY, StudySettings("quick"), Findings((Cell({"beta": 1}, 2.0),), (chart,), ("a note",)), ())
    table = json.loads(json.dumps(found.plain(), allow_nan=False))
    assert table["study"] == "some-table1"
    assert table["rows"] == found.rows()
    assert (table["notes"], table["left_open"]) == (["a note"], "All else.")
    assert table["charts"][0]["rows"] == [{"x": 1, "y": None}]


def test_a_document_without_a_table_has_no_published_numbers() -> None:
    assert published_cells("nobody-table1") == ()


def test_all_published_numbers_can_be_read() -> None:
    from importlib.resources import files

    for file in files("vaescope.studies.published").iterdir():
        if file.name.endswith(".json"):
            document = file.name.removesuffix(".json")
            for part in json.loads(file.read_text(encoding="utf-8")):
                assert all(isinstance(cell, Cell) for cell in published_cells(f"{document}-{part}"))


def test_a_reproduction_trains_measures_and_compares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STUDIES, STUDY.name, STUDY)
    known = (Cell({"beta": 4.0}, 1.0, 0.5, 4),)
    monkeypatch.setattr("vaescope.studies.running.published_cells", lambda name: known if name == STUDY.name else ())
    found = reproduce(STUDY.name, "paper", runs=tmp_path, engine_options={"workers": 1}, progress=False)
    assert found.plain()["made_by"] == ["vaescope reproduce some-table1 --scale paper"]
    assert [(row["beta"], row["ours"], row["difference_se"]) for row in found.rows()] == [
        (1.0, 2.0, None),
        (4.0, 2.0, 4.0),
    ]
    assert "Some et al., Table 1" in found._repr_html_()


def test_quick_numbers_have_no_distance_from_published_ones() -> None:
    found = Reproduction(
        STUDY, StudySettings("quick"), Findings((Cell({"of": "a"}, 1.0),)), (Cell({"of": "a"}, 2.0, 0.5),)
    )
    assert [(row["ours"], row["published"], row["difference_se"]) for row in found.rows()] == [(1.0, 2.0, None)]


def test_an_unknown_study_lists_the_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(STUDIES, STUDY.name, STUDY)
    with pytest.raises(UnknownNameError, match=r"study must be one of .*some-table1.*; got 'some-table7'"):
        reproduce("some-table7")


def test_every_study_of_the_table_is_under_its_own_name() -> None:
    assert all(name == study.name for name, study in STUDIES.items())
    assert all(study.source and study.question.endswith("?") for study in STUDIES.values())


def test_missing_data_leave_a_note(tmp_path: Path) -> None:
    context = StudyContext(StudySettings())
    assert context.open(str(tmp_path / "absent.npy")) is None
    assert context.notes[0].startswith(f"data not found: {tmp_path / 'absent.npy'}. ")
    assert "digits" in DATASETS
    found = context.open("digits")
    assert found is not None
    assert len(found) == 1797
    assert len(context.notes) == 1
