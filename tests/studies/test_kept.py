"""What is known of studies without running them: costs from plans, verdicts from kept results."""

from __future__ import annotations

import json
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest

from vaescope.data import DATASETS
from vaescope.studies import STUDIES, StudySettings
from vaescope.studies.kept import Cost, command_in_full, cost_of, how_to_test, minutes_text, state_of, verdicts_of
from vaescope.studies.pages.keep import planned_cost, settings_of

DOCS = Path(__file__).parents[2] / "docs" / "studies"
KEPT = json.loads(files("vaescope.studies").joinpath("kept.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "settings",
    [
        StudySettings(),
        StudySettings("paper", seeds=3, share=0.25),
        StudySettings("paper", share={"mnist": 0.5, "dsprites": 0.05}, data=("mnist", "dsprites")),
    ],
)
def test_a_command_names_its_settings(settings: StudySettings) -> None:
    assert settings_of(settings.command("bonheme-table8.1")) == ("bonheme-table8.1", settings)


@pytest.mark.parametrize(
    "name", ["bonheme-chapter5", "bonheme-figure6.2-6.3", "bonheme-table8.6", "rolinek-scales", "rolinek-table1"]
)
def test_costs_are_those_of_the_plan(name: str, tmp_path: Path) -> None:
    command = command_in_full(name)
    planned = planned_cost(command, tmp_path)
    if planned["absent"] and not KEPT["commands"][command]["absent"]:
        pytest.skip(f"needs {', '.join(planned['absent'])}")
    assert KEPT["commands"][command] == planned
    assert list(tmp_path.iterdir()) == []


def test_every_study_and_every_kept_result_has_a_cost_or_lacks_data() -> None:
    commands = {command_in_full(name) for name in STUDIES}
    for file in DOCS.glob("*.json"):
        plain = json.loads(file.read_text(encoding="utf-8"))
        commands |= set(plain["made_by"]) if plain["scale"] == "paper" else set()
    assert set(KEPT["commands"]) == commands
    for command in commands:
        cost = cost_of(command)
        assert cost is not None
        assert cost.minutes is not None or cost.absent


def test_verdicts_are_those_of_the_kept_results() -> None:
    for file in DOCS.glob("*.json"):
        claims = json.loads(file.read_text(encoding="utf-8"))["claims"]
        assert verdicts_of(file.stem) == Counter(one["verdict"] for one in claims), (
            f"{file}: run vaescope.studies.pages.keep"
        )


def test_the_state_of_a_study(monkeypatch: pytest.MonkeyPatch) -> None:
    assert state_of("bonheme-table8.1") == "results kept"
    assert state_of("bonheme-appendixB") == "not tested here"
    assert state_of("bonheme-table8.4") == "data not found"
    found = type("Found", (), {"locate": lambda self: Path("there")})()
    monkeypatch.setitem(DATASETS, "symsol_reduced", found)
    assert state_of("bonheme-table8.4") == "not tested here"
    assert state_of("nobody-table1") == "not tested here"


def test_costs_in_words() -> None:
    assert str(Cost(12.4)) == "about 12 minutes on an H200"
    assert str(Cost(245.7, ("cars3d",))) == "about 4 hours on an H200, without cars3d"
    assert str(Cost(0.0)) == "trains nothing"
    assert str(Cost(None, ("celeba",))) == "needs celeba, which could not be had here"
    assert [minutes_text(minutes) for minutes in (0.54, 3.0, 179.0, 1228.3)] == [
        "0.5 minutes",
        "3 minutes",
        "179 minutes",
        "20 hours",
    ]
    assert how_to_test("nobody-table1") == "To test: `vaescope reproduce nobody-table1 --scale paper`."
