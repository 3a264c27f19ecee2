"""A study as files: the page, the table, the JSON, and the Markdown made from it."""

from __future__ import annotations

import csv
import json
import re
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
from vaescope.studies.claims import StudyClaim
from vaescope.studies.numbers import VALUES
from vaescope.studies.pages.docs import index, main, markdown, pages, settings_page, write_pages
from vaescope.studies.pages.page import rows_for_people, study_page, write_study
from vaescope.studies.pages.refresh import read_all
from vaescope.studies.pages.verdicts import scale_and_cost, scale_text
from vaescope.studies.published import published_cells
from vaescope.studies.rules import Between
from vaescope.studies.study import Shared

DOCS = Path(__file__).parents[2] / "docs" / "studies"


def work(context: StudyContext) -> Findings:
    raise AssertionError("a page trains nothing")


CLAIMS = (
    StudyClaim("a is below <1>.", "section 2", Between({"of": "a"}, high=1.0)),
    StudyClaim("b is below 1.", "section 3", Between({"of": "b"}, high=1.0), aside="It is *not* said when."),
)
SHARED = Shared("Nets of Some", "The width; 32 was chosen.")
STUDY = Study(
    "some-table2.5",
    "Some et al., Table 2.5",
    "Is <b> larger than a|b?",
    "The steps; 10 were chosen.",
    work,
    claims=CLAIMS,
    shared=(SHARED,),
)
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
NOTHING = Reproduction(replace(STUDY, claims=(), shared=(), left_open=""), StudySettings("paper"), Findings(()), ())


def test_numbers_are_shown_with_their_spread_and_a_word_for_their_distance() -> None:
    near, far, missing, own = rows_for_people(FOUND.rows())
    assert near == {
        "data": "mnist",
        "of": "a",
        "ours": "0.5 ± 0.1",
        "seeds": 5,
        "published": "0.6 ± 0.1",
        "difference in standard errors": "-1.83",
        "agreement": "agrees",
        "note": "",
    }
    assert (far["ours"], far["difference in standard errors"], far["agreement"]) == ("2", "+12.65", "differs")
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
        "differs",
        "agrees",
        "The steps; 10 were chosen.",
        "The width; 32 was chosen.",
        "<strong>Holds in part. </strong>",
        "a is below &lt;1&gt; (section 2).",
        "data not found: celeba. Put it there.",
        "They grow. Left out: 1 value that is not finite.",
        "of mnist",
    ):
        assert words in text, words
    assert text.count('<section aria-labelledby="') == 6
    assert text.index('id="claims"') < text.index('id="figures"') < text.index('id="numbers"')


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
    assert [row["difference_se"] for row in rows] == [str(row["difference_se"] or "") for row in FOUND.rows()]
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


def test_markdown_opens_with_the_verdicts(tmp_path: Path) -> None:
    text = markdown(kept(tmp_path), ["some-table2.5-1.svg"], "It is *so*\nbecause.\n\nAnd so on.\n")
    assert text.startswith(
        "# Some et al., Table 2.5\n\nIs &lt;b> larger than a\\|b?\n\n"
        "- **Holds in part.** a is below &lt;1> (section 2).<br>mnist: 0.5 ± 0.1 (expected: at most 1); own: 1.5 "
        "(expected: at most 1).\n"
        "- **Does not hold.** b is below 1 (section 3).<br>2 (expected: at most 1). It is \\*not\\* said when.\n\n"
        "Scale: trained in full. Made by `vaescope reproduce some-table2.5 --scale paper`.\n\n## Figures\n\n"
    )
    parts = [text.index(f"\n## {title}\n") for title in ("Figures", "Numbers", "Remarks", "What the source left open")]
    assert parts == sorted(parts)
    assert "| mnist | b | 2 | 1 | 1 ± 0.25 | +12.65 | differs |  |\n" in text
    assert "](figures/some-table2.5-1.svg)\n" in text
    assert "\n## Remarks\n\nIt is \\*so\\* because.\n\nAnd so on.\n\n## What" in text
    assert "\n\nThe steps; 10 were chosen.\n\nSettings that it shares with other studies: " in text
    assert "[Nets of Some](settings.md#nets-of-some).\n" in text
    assert "### Scores\n\n![Scores: lines of y against x](figures/some-table2.5-1.svg)\n\nThey grow. Left out:" in text
    assert "### Samples\n\nThree.\n" in text  # its figure is not drawn
    assert text.endswith("## Notes\n\n- data not found: celeba. Put it there.\n")


def test_shortened_training_is_named_with_its_whole(tmp_path: Path) -> None:
    shares = {"mnist": 0.05, "dsprites": 0.25}
    words = "paper (of the training 0.05 on mnist, 0.25 on dsprites)"
    text = markdown(kept(tmp_path, replace(FOUND, settings=StudySettings("paper", 3, shares), scale_words=words)))
    assert "\nScale: 5% of the training on mnist, 25% of the training on dsprites, 3 seeds. Made by `" in text
    assert "In full: `vaescope reproduce some-table2.5 --scale paper`.\n" in text


def test_the_scale_names_data_with_equal_shares_together_and_data_trained_in_full(tmp_path: Path) -> None:
    one = kept(tmp_path)
    cut = {**one, "scale_words": "paper (of the training 0.001 on mnist)"}
    assert scale_text(cut) == "0.1% of the training on mnist, all of it on other data"
    cut["scale_words"] = "paper (of the training 0.25 on mnist, 0.25 on own, 0.25 on dsprites)"
    assert scale_text(cut) == "25% of the training on mnist, own and dsprites"
    assert scale_text({**one, "study": "rolinek-toy"}) == "nothing is trained"


def test_a_study_with_fewer_seeds_than_its_own_names_the_whole() -> None:
    plain = json.loads((DOCS / "mathieu-figure4.json").read_text(encoding="utf-8"))
    assert scale_and_cost(plain).startswith("Scale: trained in full, 3 seeds. Made by `")
    assert " In full: `vaescope reproduce mathieu-figure4 --scale paper` (" in scale_and_cost(plain)
    more = json.loads((DOCS / "bonheme-chapter5.json").read_text(encoding="utf-8"))
    assert " In full: " not in scale_and_cost(more)


def test_quick_stand_ins_are_no_results(tmp_path: Path) -> None:
    quick = kept(tmp_path, replace(FOUND, settings=StudySettings("quick")))
    text = markdown(quick, ["some-table2.5-1.svg"], "By hand: 0.5.")
    assert [line[:20] for line in text.splitlines() if line.startswith("- **")] == ["- **Not tested here."] * 2
    assert "To test: `vaescope reproduce some-table2.5 --scale paper`." in text
    assert not re.search(r"^\||0\.5|figures/|## Numbers|## Remarks", text, re.MULTILINE)
    page = study_page(quick)
    assert "Figures of a quick stand-in" in page
    assert page.index("<summary>Numbers of a quick stand-in, which are no results</summary>") < page.index("0.5 ± 0.1")


def test_markdown_omits_empty_sections(tmp_path: Path) -> None:
    text = markdown(kept(tmp_path, NOTHING))
    for title in ("Figures", "Notes", "Remarks", "What the source left open"):
        assert f"## {title}" not in text
    assert "a figure without numbers" in text


def test_long_tables_are_folded_and_shortened(tmp_path: Path) -> None:
    def numbers(count: int) -> str:
        cells = tuple(Cell({"number": number, "of": "a"}, 1.0) for number in range(count))
        return markdown(kept(tmp_path, Reproduction(STUDY, StudySettings("paper"), Findings(cells), ())))

    assert "<details>" not in numbers(15)
    assert "<details><summary>16 numbers</summary>\n\n| number |" in numbers(16)
    text = numbers(121)
    assert "The first 120 of 121 rows; [all of them](some-table2.5.json).\n\n</details>" in text
    assert "| 119 |" in text
    assert "| 120 |" not in text


def test_the_readme_counts_the_claims_as_the_index_does() -> None:
    counts = (DOCS / "README.md").read_text(encoding="utf-8").split("\n\n")[1].split(". ")[0]
    readme = " ".join((DOCS.parents[1] / "README.md").read_text(encoding="utf-8").split())
    assert f"Of {counts}." in readme


def test_the_index_has_a_line_for_each_claim_and_a_summary(tmp_path: Path) -> None:
    one = kept(tmp_path)
    names = ["some-figure10", "some-figure2", "rolinek-table9"]
    text = index([{**one, "study": name} for name in names])
    places = [text.index(f"| [{name}]({name}.md) | ") for name in ("rolinek-table9", "some-figure2", "some-figure10")]
    assert places == sorted(places)
    assert text.count(" | a is below &lt;1>. | holds in part | trained in full |\n") == 3
    assert text.startswith("# Studies\n\n6 claims: 3 hold in part, 3 do not hold.\n\n| document | claims | ")
    assert "\n| Rolinek and others | 2 | 0 | 1 | 1 | 0 | 0 |\n| some | 4 | 0 | 2 | 2 | 0 | 0 |\n" in text
    assert text.index("### Rolinek and others\n\n| study | claim |") < text.index("### some\n\n| study | claim |")
    assert "- b is below 1. ([some-figure2](some-figure2.md), trained in full)<br>2 (expected: at most 1)." in text


def test_the_index_says_why_a_claim_was_not_tested(tmp_path: Path) -> None:
    quick = kept(tmp_path, replace(FOUND, settings=StudySettings("quick")))
    untested = [{**kept(tmp_path)["claims"][0], "verdict": "not tested here", "why": "Celeba is not here."}]
    full = {**kept(tmp_path), "study": "some-table3", "claims": untested}
    text = index([quick, {**quick, "study": "bonheme-table8.4"}, full])
    assert "| not tested here | not run |\n" in text
    assert "| not tested here | not run: needs symsol_reduced, which could not be had here |\n" in text
    assert "| not tested here | Celeba is not here. |\n" in text
    assert "2 of 3 studies were only run as quick stand-ins, which test nothing. For 1 of these the data" in text


def test_settings_that_studies_share_are_written_once(tmp_path: Path) -> None:
    one = kept(tmp_path)
    text = settings_page([{**one, "study": name} for name in ("some-figure10", "some-figure2")])
    assert text.count("The width; 32 was chosen.") == 1
    assert text.endswith("Used by [some-figure2](some-figure2.md), [some-figure10](some-figure10.md).\n")


def test_pages_are_made_of_the_files_in_the_folder(tmp_path: Path) -> None:
    plain = kept(tmp_path)
    assert set(pages(tmp_path)) == {"some-table2.5.json", "some-table2.5.md", "settings.md", "README.md"}
    assert "![" not in pages(tmp_path)["some-table2.5.md"]
    written = write_pages(tmp_path)
    figures = ["some-table2.5-1.svg", "some-table2.5-2.svg"]
    assert [path.name for path in written] == [
        *figures,
        "some-table2.5.json",
        "some-table2.5.md",
        "settings.md",
        "README.md",
    ]
    assert written[3].read_text() == markdown(plain, figures)
    assert json.loads(written[2].read_text()) == plain
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
    names = [*figures, "some-table2.5.json", "some-table2.5.md", "settings.md", "README.md"]
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / name) for name in names]


@pytest.mark.parametrize(
    ("words", "said"), [(["none"], "error: none must be a folder"), ([], "usage: "), (["a", "b"], "usage: ")]
)
def test_an_error_is_one_sentence(words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["study_docs", *words])
    with pytest.raises(SystemExit, match=said):
        main()


def test_notes_on_absent_data_lose_the_folders_of_the_machine(tmp_path: Path) -> None:
    plain = json.loads((DOCS / "bonheme-table8.1.json").read_text(encoding="utf-8"))
    notes = [
        "data not found: celeba. celeba: x.zip must be in $VAESCOPE_DATA/celeba/. Get it.",
        "Another note. It stays.",
    ]
    (tmp_path / "bonheme-table8.1.json").write_text(json.dumps({**plain, "notes": notes}), encoding="utf-8")
    (found,) = read_all(tmp_path).values()
    assert found["notes"] == ["data not found: celeba.", "Another note. It stays."]


def test_pages_in_docs_are_up_to_date_with_their_results() -> None:
    """Every page, the settings, the index, and in each JSON the published numbers, claims and verdicts."""
    made = pages(DOCS)
    assert {path.name for suffix in ("md", "json") for path in DOCS.glob(f"*.{suffix}")} == set(made)
    for name, text in made.items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, f"{name}: make the pages again"


FILES = sorted(DOCS.glob("*.json"))


def test_every_page_is_of_a_study() -> None:
    assert {file.stem for file in FILES} <= set(STUDIES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_kept_results_are_of_their_study_and_have_every_published_number(file: Path) -> None:
    plain, study = json.loads(file.read_text(encoding="utf-8")), STUDIES[file.stem]
    assert all(f"vaescope reproduce {study.name} --scale {plain['scale']}" in command for command in plain["made_by"])
    named = {
        frozenset((name, str(value)) for name, value in row.items() if name not in VALUES and value is not None): row
        for row in plain["rows"]
    }
    assert len(named) == len(plain["rows"])
    known = {
        frozenset((name, str(value)) for name, value in cell.of.items()): cell for cell in published_cells(study.name)
    }
    assert set(known) <= set(named)
    for key, row in named.items():
        theirs = known.get(key, Cell({}, None, count=0))
        assert (row["published"], row["published_sd"]) == (theirs.value, theirs.sd)
        assert row["published_seeds"] == (theirs.count or None)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_page_of_quick_rows_shows_numbers(file: Path) -> None:
    plain, text = json.loads(file.read_text(encoding="utf-8")), file.with_suffix(".md").read_text(encoding="utf-8")
    verdicts = {one["verdict"] for one in plain["claims"]}
    if plain["scale"] == "quick" and not STUDIES[file.stem].exact:
        assert verdicts == {"not tested here"}
        assert "To test: `vaescope reproduce" in text
        assert not re.search(r"^\|", text, re.MULTILINE)
        assert "](figures/" not in text
    else:
        assert verdicts != {"not tested here"}
        assert text.index("\n- **") < text.index("\n## Figures") < text.index("\n## Numbers")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_pages_have_words_for_values_of_python(file: Path) -> None:
    text = file.with_suffix(".md").read_text(encoding="utf-8")
    assert re.findall(r"\(\d+,\)|\['|\b(?:None|nan|inf|True|False)\b", text) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_kept_results_can_be_drawn(file: Path) -> None:
    plain = json.loads(file.read_text(encoding="utf-8"))
    page = study_page(plain)
    assert all(str(element("h3", chart["title"])) in page for chart in plain["charts"])


def test_kept_values_make_a_page_of_docs_without_training(tmp_path: Path) -> None:
    """The numbers of a page follow from its kept values."""
    given = (tmp_path / "results", DOCS / "results")
    found = reproduce("bonheme-table8.1", "paper", device="cuda", results=given, runs=tmp_path / "runs")
    page = json.loads((DOCS / "bonheme-table8.1.json").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(found.rows())) == page["rows"]
    assert not (tmp_path / "runs").exists()
