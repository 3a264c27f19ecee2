"""A study as files: the page, the table, the JSON, and the Markdown made from it."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vaescope.errors import ConfigurationError
from vaescope.markup import element
from vaescope.studies import (
    STUDIES,
    Cell,
    Findings,
    Lines,
    Pictures,
    Reproduction,
    Study,
    StudyContext,
    StudySettings,
    reproduce,
)
from vaescope.studies.pages.docs import index, main, markdown, pages, write_pages
from vaescope.studies.pages.page import rows_for_people, study_page, write_study
from vaescope.studies.published import published_cells
from vaescope.studies.study import verdict

DOCS = Path(__file__).parents[2] / "docs" / "studies"


def work(context: StudyContext) -> Findings:
    raise AssertionError("a page trains nothing")


STUDY = Study("some-table2.5", "Some et al., Table 2.5", "Is <b> larger than a|b?", "The steps; 10 were chosen.", work)
CELLS = (
    Cell({"data": "mnist", "of": "a"}, 0.5, 0.1, 5),
    Cell({"data": "mnist", "of": "b"}, 2.0, None, 1),
    Cell({"data": "celeba", "of": "a"}, None, None, 0, "data not found: celeba."),
    Cell({"data": "own", "of": "a"}, np.float32(1.5)),
)
PUBLISHED = (
    Cell({"data": "mnist", "of": "a"}, 0.6, 0.1, 10),
    Cell({"data": "mnist", "of": "b"}, 1.0, 0.25, 10),
    Cell({"data": "celeba", "of": "a"}, 3.0),
)
CHARTS = (
    Lines("Scores", "They grow.", [{"x": 1, "y": 2.0}, {"x": 2, "y": float("nan")}], "x", "y"),
    Pictures("Samples", "Three.", [("of mnist", torch.rand(3, 1, 4, 4))]),
)
FOUND = Reproduction(
    STUDY, StudySettings("paper"), Findings(CELLS, CHARTS, ("data not found: celeba. Put it there.",)), PUBLISHED
)
NOTHING = Reproduction(STUDY, StudySettings("paper"), Findings(()), ())


def test_numbers_are_shown_with_their_spread_and_a_word_for_their_distance() -> None:
    near, far, missing, own = rows_for_people(FOUND.rows())
    assert near == {
        "data": "mnist",
        "of": "a",
        "ours": "0.5 ± 0.1",
        "seeds": 5,
        "published": "0.6 ± 0.1",
        "difference in published sd": "-1.00",
        "agreement": "within 2 sd",
        "note": "",
    }
    assert (far["ours"], far["difference in published sd"], far["agreement"]) == ("2", "+4.00", "beyond 2 sd")
    assert (missing["ours"], missing["seeds"], missing["agreement"]) == ("", None, "")
    assert missing["note"] == "data not found: celeba."
    assert own["published"] == ""


def test_empty_columns_are_omitted() -> None:
    alone = Reproduction(STUDY, StudySettings("quick"), Findings(CELLS[:2]), ())
    assert list(rows_for_people(alone.rows())[0]) == ["data", "of", "ours", "seeds"]


def test_the_page_is_complete() -> None:
    text = study_page(FOUND.plain())
    assert f"{FOUND.summary()}." in text
    for words in (
        "Is &lt;b&gt; larger than a|b?",
        "Some et al., Table 2.5",
        "beyond 2 sd",
        "within 2 sd",
        "The steps; 10 were chosen.",
        "data not found: celeba. Put it there.",
        "They grow. Left out: 1 value that is not finite.",
        "of mnist",
    ):
        assert words in text, words
    assert text.count('<section aria-labelledby="') == 5


def test_a_page_without_charts_has_no_plotting_library() -> None:
    text = study_page(NOTHING.plain())
    assert "No number was measured, and none is published." in text
    assert len(text) < 100_000
    assert "Figures" not in text


def test_the_files_hold_the_same_numbers(tmp_path: Path) -> None:
    files = write_study(FOUND, tmp_path / "new" / "folder")
    assert {kind: path.name for kind, path in files.items()} == {
        kind: f"some-table2.5.{kind}" for kind in ("html", "csv", "json")
    }
    kept = json.loads(files["json"].read_text())
    assert kept["rows"][3]["ours"] == 1.5
    assert kept["charts"][0]["rows"][1] == {"x": 2, "y": None}
    with files["csv"].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["ours"] for row in rows] == ["0.5", "2.0", "", "1.5"]
    assert [row["difference_sd"] for row in rows] == [str(row["difference_sd"] or "") for row in FOUND.rows()]
    assert files["html"].read_text() == study_page(FOUND.plain())


def test_a_study_of_some_data_has_separate_files(tmp_path: Path) -> None:
    whole = write_study(FOUND, tmp_path)
    part = write_study(replace(FOUND, settings=StudySettings("paper", data=("mnist", "dsprites"))), tmp_path)
    assert part["html"].name == "some-table2.5-mnist-dsprites.html"
    assert not set(part.values()) & set(whole.values())
    assert json.loads(part["json"].read_text())["made_by"][0].endswith("--data mnist --data dsprites")


def test_a_study_without_numbers_is_also_written(tmp_path: Path) -> None:
    files = write_study(NOTHING, tmp_path)
    assert json.loads(files["json"].read_text())["rows"] == []
    assert files["csv"].read_text() == "\n"


def test_an_impossible_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match=r"file/out must be a folder that can be written in, it cannot"):
        write_study(FOUND, tmp_path / "file" / "out")


def kept(tmp_path: Path, found: Reproduction = FOUND) -> dict[str, Any]:
    return json.loads(write_study(found, tmp_path)["json"].read_text())


def test_markdown_has_the_question_and_the_results(tmp_path: Path) -> None:
    text = markdown(kept(tmp_path), ["some-table2.5-1.svg"])
    assert text.startswith("# Some et al., Table 2.5\n\nAsked: Is &lt;b> larger than a\\|b?\n")
    assert "| mnist | b | 2 | 1 | 1 ± 0.25 | +4.00 | beyond 2 sd |  |\n" in text
    assert "### Scores\n\n![Scores: lines of y against x](figures/some-table2.5-1.svg)\n\nThey grow. Left out:" in text
    assert "### Samples\n\nThree.\n" in text  # its figure is not drawn
    assert "What the source left open: The steps; 10 were chosen.\n" in text
    assert text.endswith("## Notes\n\n- data not found: celeba. Put it there.\n")
    assert "\nMade by `vaescope reproduce some-table2.5 --scale paper`.\n" in text


def test_remarks_are_in_the_section_on_the_meaning(tmp_path: Path) -> None:
    plain = {**kept(tmp_path), "made_by": ["vaescope one", "vaescope two"]}
    text = markdown(plain, remarks="It is *so*\nbecause.\n\nAnd so on.\n")
    assert "\nMade by `vaescope one`, `vaescope two`.\n" in text
    summary, rest = text.split("## What it means\n\n")[1].split("\n\n", 1)
    assert summary == f"{plain['summary']}."
    assert rest.startswith("It is \\*so\\* because.\n\nAnd so on.\n\nWhat the source left open")


def test_markdown_omits_empty_sections(tmp_path: Path) -> None:
    text = markdown(kept(tmp_path, NOTHING))
    assert "## Figures" not in text
    assert "## Notes" not in text
    assert "a figure without numbers" in text


def test_long_tables_are_shortened(tmp_path: Path) -> None:
    cells = tuple(Cell({"number": number}, 1.0) for number in range(121))
    text = markdown(kept(tmp_path, Reproduction(STUDY, StudySettings("quick"), Findings(cells), ())))
    assert "The first 120 of 121 rows; [all of them](some-table2.5.json)." in text
    assert "| 119 |" in text
    assert "| 120 |" not in text


def test_the_index_has_counts_in_words(tmp_path: Path) -> None:
    one = kept(tmp_path)
    names = ["some-figure10", "some-figure2", "other-table1"]
    text = index([{**one, "study": name} for name in names])
    places = [text.index(f"[{name}]({name}.md)") for name in ("other-table1", "some-figure2", "some-figure10")]
    assert places == sorted(places)


def test_pages_are_made_of_the_files_in_the_folder(tmp_path: Path) -> None:
    plain = kept(tmp_path)
    assert set(pages(tmp_path)) == {"some-table2.5.md", "README.md"}
    assert "![" not in pages(tmp_path)["some-table2.5.md"]
    written = write_pages(tmp_path)
    figures = ["some-table2.5-1.svg", "some-table2.5-2.svg"]
    assert [path.name for path in written] == [*figures, "some-table2.5.md", "README.md"]
    assert written[2].read_text() == markdown(plain, figures)
    (tmp_path / "some-table2.5.txt").write_text("By hand.\n")
    assert pages(tmp_path)["some-table2.5.md"] == markdown(plain, figures, "By hand.\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "a study as JSON, it cannot be read"),
        ("[]", "it lacks study, source"),
        ('{"study": "other"}', "it lacks source, question"),
    ],
)
def test_a_file_that_is_not_a_study_is_named(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "strange.json").write_text(text)
    with pytest.raises(ConfigurationError, match=rf"strange\.json must be .*{said}"):
        pages(tmp_path)


def test_a_study_under_another_name_is_refused(tmp_path: Path) -> None:
    kept(tmp_path)
    shutil.move(tmp_path / "some-table2.5.json", tmp_path / "renamed.json")
    with pytest.raises(ConfigurationError, match=r"renamed\.json must be what .* writes, it is 'some-table2\.5'"):
        pages(tmp_path)


def test_the_module_makes_the_pages_of_a_folder_and_lists_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path)
    monkeypatch.setattr("sys.argv", ["study_docs", str(tmp_path)])
    main()
    figures = [f"figures/some-table2.5-{number}.svg" for number in (1, 2)]
    names = [*figures, "some-table2.5.md", "README.md"]
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / name) for name in names]


@pytest.mark.parametrize(
    ("words", "said"), [(["none"], "error: none must be a folder"), ([], "usage: "), (["a", "b"], "usage: ")]
)
def test_an_error_is_one_sentence(words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["study_docs", *words])
    with pytest.raises(SystemExit, match=said):
        main()


def test_pages_in_docs_are_up_to_date_with_their_results() -> None:
    made = pages(DOCS)
    assert {path.name for path in DOCS.glob("*.md")} == set(made)
    for name, text in made.items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, f"{name}: make the pages again"


FILES = sorted(DOCS.glob("*.json"))
OUTCOMES = ("ours", "sd", "seeds", "published", "published_sd", "difference_sd", "note")


def test_every_study_has_a_page() -> None:
    assert {file.stem for file in FILES} == set(STUDIES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_kept_results_are_compared_with_the_published_numbers_of_today(file: Path) -> None:
    plain, study = json.loads(file.read_text(encoding="utf-8")), STUDIES[file.stem]
    assert [plain[name] for name in ("study", "source", "question", "left_open")] == [
        getattr(study, name) for name in ("name", "source", "question", "left_open")
    ]
    assert all(f"vaescope reproduce {study.name} --scale {plain['scale']}" in command for command in plain["made_by"])
    comparable = study.exact or plain["scale"] == "paper"
    assert plain["summary"].startswith(f"{study.source}, {plain['scale']}")
    assert plain["summary"].endswith(f": {verdict(plain['rows'], comparable)}")
    named = {
        frozenset((name, str(value)) for name, value in row.items() if name not in OUTCOMES and value is not None): row
        for row in plain["rows"]
    }
    assert len(named) == len(plain["rows"])
    known = {
        frozenset((name, str(value)) for name, value in cell.of.items()): cell for cell in published_cells(study.name)
    }
    assert set(known) <= set(named)
    for key, row in named.items():
        theirs = known.get(key, Cell({}, None))
        assert (row["published"], row["published_sd"]) == (theirs.value, theirs.sd)
        assert not theirs.note or row["note"] == theirs.note or row["note"].endswith(f"; {theirs.note}")
        both = comparable and None not in (row["ours"], theirs.value, theirs.sd)
        expected = (row["ours"] - theirs.value) / theirs.sd if both else None
        assert row["difference_sd"] == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_kept_results_can_be_drawn(file: Path) -> None:
    plain = json.loads(file.read_text(encoding="utf-8"))
    page = study_page(plain)
    assert all(str(element("h3", chart["title"])) in page for chart in plain["charts"])


def test_kept_values_make_a_page_of_docs_without_training(tmp_path: Path) -> None:
    """The numbers of a page follow from its kept values."""
    given = (tmp_path / "results", DOCS / "results")
    found = reproduce("bonheme-tableD.5", "paper", device="cuda", results=given, runs=tmp_path / "runs")
    page = json.loads((DOCS / "bonheme-tableD.5.json").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(found.rows())) == page["rows"]
    assert not (tmp_path / "runs").exists()
