"""`vaescope reproduce`: the list, a study with its files, several studies; errors are one sentence."""

from __future__ import annotations

import html
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vaescope.cli import main
from vaescope.data import Dataset
from vaescope.runs import Run, summary
from vaescope.studies import STUDIES, Cell, Findings, Lines, Measurement, Study, StudyContext
from vaescope.studies.bonheme.signatures import STUDIES as IDENTIFIABLE
from vaescope.sweeps.specification import Sweep

NET = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}


def loss_of(run: Run, data: Dataset, device: str) -> dict[str, float]:
    found = summary(run)
    return {"beta": found["beta"], "loss": found["train_loss"]}


def two_betas(context: StudyContext) -> Findings:
    grid = {"objective.beta": [1.0, 4.0], "seed": context.seed_list(2, 5)}
    runs = context.runs(Sweep("digits", {"net": NET, "steps": context.pick(4, 8)}, {"latents": 2}, grid=grid))
    rows = list(context.measured(runs, Measurement("loss", loss_of)))
    cells = [
        Cell.over({"beta": beta}, [row["loss"] for row in rows if row["beta"] == beta])
        for beta in grid["objective.beta"]
    ]
    chart = Lines("Losses", "They differ.", rows, "beta", "loss", kind="points")
    return Findings(tuple(cells), (chart,), ("data not found: celeba.",))


def many_rows(context: StudyContext) -> Findings:
    if context.settings.data:
        context.data.add("mnist")
    return Findings(tuple(Cell({"number": number}, float(number)) for number in range(50)))


TWO = Study("some-figure2", "Some et al., Figure 2", "What becomes of the loss?", "The optimiser.", two_betas)
MANY = Study("some-table1", "Some et al., Table 1", "How many rows are shown?", "", many_rows)


@pytest.fixture(autouse=True)
def _small_studies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("vaescope.sweeps.engines.local.available_cores", lambda: 1)  # no processes that load torch
    for name in list(STUDIES):
        monkeypatch.delitem(STUDIES, name)
    for study in (TWO, MANY):
        monkeypatch.setitem(STUDIES, study.name, study)


def call(monkeypatch: pytest.MonkeyPatch, *words: Any) -> int:
    monkeypatch.setattr("sys.argv", ["vaescope", "reproduce", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


def test_the_list_names_every_study(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "--list") == 0
    shown = capsys.readouterr().out
    for study in (TWO, MANY):
        assert study.name in shown
        assert study.source in shown
        assert study.question in shown


def test_the_list_as_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "--list", "--json") == 0
    unknown = {"state": "not tested here", "h200_minutes": None, "verdicts": {}}
    assert json.loads(capsys.readouterr().out) == [
        {"name": study.name, "source": study.source, "question": study.question, **unknown} for study in (TWO, MANY)
    ]


def test_the_list_has_the_cost_and_state_of_studies(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("bonheme-table8.1", "bonheme-table8.4", "bonheme-classifier"):
        monkeypatch.setitem(STUDIES, name, replace(TWO, name=name))
    assert call(monkeypatch, "--list", "--json") == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert listed["bonheme-table8.1"]["state"] == "results kept"
    assert 3 < listed["bonheme-table8.1"]["h200_minutes"] < 8
    assert listed["bonheme-table8.1"]["verdicts"]["holds"] >= 3
    assert (listed["bonheme-table8.4"]["state"], listed["bonheme-table8.4"]["h200_minutes"]) == ("data not found", None)
    assert listed["bonheme-classifier"]["state"] == "not tested here"
    assert call(monkeypatch, "--list") == 0
    assert "6 claims: 3 hold, 1 does not hold, 2 are not tested here" in capsys.readouterr().out


def test_a_study_is_trained_shown_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "some-figure2", "--device", "cpu", "--figures", "svg") == 0
    shown = capsys.readouterr().out
    files = [f"studies/some-figure2{ending}" for ending in (".html", ".csv", ".json", "-1.svg")]
    assert "Some et al., Figure 2, quick: no claim was stated.\n" in shown
    assert "note: data not found: celeba.\n" in shown
    assert shown.endswith(f"written: {', '.join(files)}\n")
    assert all((tmp_path / file).is_file() for file in files)
    assert len(list((tmp_path / "runs").glob("[!.]*/run.json"))) == 4


def test_options_for_folders_seeds_scale_and_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "some-table1",
        "some-figure2",
        "--scale",
        "paper",
        "--seeds",
        1,
        "--runs",
        "kept",
        "-o",
        "out/here",
        "--json",
    ]
    assert call(monkeypatch, *words) == 0
    many, two = json.loads(capsys.readouterr().out)
    assert (many["study"], len(many["rows"])) == ("some-table1", 50)
    assert (two["scale"], [row["seeds"] for row in two["rows"]]) == ("paper", [1, 1])
    assert two["files"]["json"] == "out/here/some-figure2.json"
    kept = json.loads((tmp_path / "out/here/some-figure2.json").read_text())
    assert kept == {name: value for name, value in two.items() if name != "files"}
    assert len(list((tmp_path / "kept").glob("[!.]*/run.json"))) == 2


@pytest.mark.parametrize(
    ("shares", "steps", "said"),
    [
        (["0.5"], 2, "quick (of the training 0.5 on digits)"),
        (["mnist=0.1", "digits=0.25"], 1, "quick (of the training 0.25 on digits)"),
    ],
)
def test_a_share_of_the_training_is_run_and_reported(
    shares: list[str],
    steps: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [word for share in shares for word in ("--share", share)]
    assert call(monkeypatch, "some-figure2", "--seeds", 1, "--device", "cpu", *words) == 0
    assert said in capsys.readouterr().out
    assert said in json.loads((tmp_path / "studies/some-figure2.json").read_text())["summary"]
    assert said in html.unescape((tmp_path / "studies/some-figure2.html").read_text())
    runs = [json.loads(file.read_text()) for file in (tmp_path / "runs").glob("[!.]*/run.json")]
    assert [run["configuration"]["plan"]["steps"] for run in runs] == [steps, steps]


def test_a_study_of_the_thesis_can_be_run_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (study,) = IDENTIFIABLE
    monkeypatch.setitem(STUDIES, study.name, study)
    assert call(monkeypatch, study.name, "--share", 0.01, "--seeds", 1, "--device", "cpu", "--json") == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert "quick (of the training 0.01 on " in told["summary"]
    runs = [json.loads(file.read_text()) for file in (tmp_path / "runs").glob("[!.]*/run.json")]
    assert [run["configuration"]["plan"]["steps"] for run in runs] == [6, 6]


def test_only_the_named_data_are_used(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def sizes(context: StudyContext) -> Findings:
        found = {name: context.open(name) for name in ("digits", "pinwheel", "synthetic-linear")}
        cells = [Cell({"data": name}, len(data)) for name, data in found.items() if data is not None]
        return Findings(tuple(cells))

    monkeypatch.setitem(STUDIES, "some-sizes", Study("some-sizes", "Some et al.", "How many items?", "", sizes))
    assert call(monkeypatch, "some-sizes", "--data", "digits", "--data", "pinwheel", "--json") == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert [row["data"] for row in told["rows"]] == ["digits", "pinwheel"]
    assert told["notes"] == ["left out: synthetic-linear, of the data only digits, pinwheel being asked for."]


def test_a_study_that_refuses_the_data_does_not_discard_earlier_studies(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "some-table1", "some-figure2", "--data", "mnist", "--json") == 2
    shown = capsys.readouterr()
    assert [told["study"] for told in json.loads(shown.out)] == ["some-table1"]
    assert shown.err.startswith("error: data must name digits, which this study is trained on, got mnist.")
    assert call(monkeypatch, "some-figure2", "some-table1", "--data", "mnist", "--json") == 2
    assert capsys.readouterr().out == ""


def test_data_of_a_study_without_any_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = Study("some-toy", "Some et al.", "What is it?", "", lambda context: Findings((Cell({}, 1.0),)))
    monkeypatch.setitem(STUDIES, "some-toy", nothing)
    assert call(monkeypatch, "some-toy", "--data", "mnist") == 2
    assert capsys.readouterr().err == "error: some-toy is about no data, got mnist. Leave data out.\n"


def test_a_share_for_other_data_than_the_study_uses_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "some-figure2", "--share", "digits=0.5", "--share", "mnist=0.1", "--json") == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert "share of mnist: this study is not about it." in told["notes"]
    assert not any("share of digits" in note for note in told["notes"])


def test_long_tables_are_shortened(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(monkeypatch, "some-table1") == 0
    shown = capsys.readouterr().out
    assert "│ 39 " in shown
    assert "│ 40 " not in shown
    assert "10 more rows are in studies/some-table1.csv\n" in shown


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a study to reproduce, or ask for all names with --list"),
        (["some-table2"], "study must be one of some-figure2, some-table1; got 'some-table2'"),
        (["some-table1", "nothing"], "study must be one of some-figure2, some-table1; got 'nothing'"),
        (["some-table1", "--scale", "large"], "scale must be one of paper, quick; got 'large'"),
        (["some-table1", "--seeds", "0"], "seeds must be a whole number of at least 1, got 0"),
        (["some-table1", "--share", "0"], "share must be a finite number above 0, got 0"),
        (["some-table1", "--share", "nan"], "share must be a finite number above 0, got nan"),
        (["some-table1", "--share", "1.5"], "share must be at most 1, all of the study's training, got 1.5"),
        (["some-table1", "--share", "digits=1.5"], "share must be at most 1, all of the study's training, got 1.5"),
        (["some-table1", "--share", "x"], "one for each set of data as NAME=0.1, got ['x']"),
        (["some-table1", "--share", "digits="], "one for each set of data as NAME=0.1, got ['digits=']"),
        (
            ["some-table1", "--share", "0.1", "--share", "0.2"],
            "one for each set of data as NAME=0.1, got ['0.1', '0.2']",
        ),
        (
            ["some-table1", "--share", "0.1", "--share", "a=1"],
            "one for each set of data as NAME=0.1, got ['0.1', 'a=1']",
        ),
        (["some-table1", "--share", "mnist=0.1", "--share", "mnist=1"], "got ['mnist=0.1', 'mnist=1']"),
        (["some-table1", "--share", "mnits=0.1"], "got 'mnits'. Did you mean 'mnist'?"),
        (["some-table1", "--data", "mnits"], "got 'mnits'. Did you mean 'mnist'?"),
        (["some-table1", "--device", "abacus"], "device must be one of cpu, cuda; got 'abacus'"),
        (["some-table1", "--figures", "gif"], "figures must be svg, pdf or png; got 'gif'"),
        (["some-table1", "--engine", "steam"], "engine must be one of local, ray; got 'steam'"),
        (["some-table1", "--address", "auto"], "--address needs --engine ray"),
        (["some-table1", "--output", "/dev/null/out"], "must be a folder that can be written in"),
    ],
)
def test_errors_are_one_sentence_before_anything_is_trained(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, *words) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert said in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
