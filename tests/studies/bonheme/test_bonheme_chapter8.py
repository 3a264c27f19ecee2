"""The studies of chapter 8 at quick scale, compared with published numbers."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from quick import ALONE, found_once

from vaescope.studies.bonheme import bisection, dimensions, elbows, tables
from vaescope.studies.pages.plots import plots_and_pictures
from vaescope.studies.running import find
from vaescope.studies.settings import StudySettings
from vaescope.studies.study import Cell, Findings

PARTS = (dimensions, tables, bisection, elbows)
STUDIES = {study.name: study for part in PARTS for study in part.STUDIES}
ALL = json.loads(files("vaescope.studies.published").joinpath("bonheme.json").read_text(encoding="utf-8"))
PUBLISHED = {part: told for part, told in ALL.items() if part.startswith(("figure8", "table8", "tableD"))}
REPEATED = ["bonheme-table8.1", "bonheme-figure8.5-8.8"]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> StudySettings:
    return StudySettings(
        runs=tmp_path_factory.mktemp("runs"), device="cpu", engine_options=ALONE, progress=False, seeds=1
    )


@pytest.fixture(scope="module")
def findings() -> dict[str, Findings]:
    return {}


@pytest.fixture
def found(settings: StudySettings, findings: dict[str, Findings], request: pytest.FixtureRequest) -> Findings:
    name = request.param
    if name not in findings:
        findings[name] = found_once(STUDIES[name], settings)
    return findings[name]


def values(found: Findings, **of: Any) -> list[float]:
    """The values of the cells with exactly these coordinates, in order."""
    own = [cell for cell in found.cells if all(cell.of.get(name) == value for name, value in of.items())]
    return [cell.value for cell in own if cell.value is not None]


@pytest.mark.parametrize("found", list(STUDIES), indirect=True, ids=list(STUDIES))
def test_every_study_has_numbers_or_a_reason(found: Findings) -> None:
    assert found.cells
    assert all(cell.note if cell.value is None else math.isfinite(cell.value) for cell in found.cells)
    assert len({json.dumps(cell.of) for cell in found.cells}) == len(found.cells)
    assert found.charts
    assert [plot.title for plot in plots_and_pictures(found.charts)[0]] == [chart.title for chart in found.charts]
    assert any("stands in for" in note for note in found.notes)


@pytest.mark.parametrize("found", [f"bonheme-{part}" for part in PUBLISHED], indirect=True, ids=list(PUBLISHED))
def test_published_cells_have_the_columns_of_ours(found: Findings, request: pytest.FixtureRequest) -> None:
    part = request.node.callspec.id
    published = [Cell(**cell) for cell in PUBLISHED[part]["cells"]]
    assert {tuple(sorted(cell.of)) for cell in published} == {tuple(sorted(cell.of)) for cell in found.cells}
    # Times are of other machines, and of searches that trained together: they are not compared.
    ours, theirs = (
        {str(cell.of["measure"]) for cell in cells if "measure" in cell.of and "minutes" not in str(cell.of["measure"])}
        for cells in (found.cells, published)
    )
    assert ours == theirs


@pytest.mark.parametrize("found", ["bonheme-table8.2"], indirect=True)
def test_fewer_latents_stay_in_use_as_beta_grows(found: Findings) -> None:
    latents = values(found, measure="latents", data="digits")
    assert len(latents) == 4
    assert latents == sorted(latents, reverse=True)
    assert latents[0] > latents[-1]


@pytest.mark.parametrize("found", [f"bonheme-table8.{number}" for number in (4, 5, 6)], indirect=True)
def test_the_answer_does_not_depend_on_the_start(found: Findings) -> None:
    assert len(set(values(found, measure="latents"))) == 1


@pytest.mark.parametrize("found", ["bonheme-table8.5"], indirect=True)
def test_six_dimensions_need_six_latents(found: Findings) -> None:
    assert values(found, measure="latents", start="all") == [6.0]


@pytest.mark.parametrize("found", ["bonheme-figure8.5-8.8"], indirect=True)
def test_the_elbow_of_three_dimensions_is_at_fondues_answer(found: Findings) -> None:
    gaussian = {"model": "VAE", "data": "Gaussian of 3", "measure": "latents"}
    assert values(found, **gaussian, latents="elbow") == values(found, **gaussian, latents="FONDUE") == [3]


@pytest.mark.parametrize("found", ["bonheme-figure8.9-8.11"], indirect=True)
def test_mean_and_sampled_codes_differ_where_latents_are_passive(found: Findings) -> None:
    for label in ("Gaussian of 3", "digits"):
        of = {"figure": "8.9", "data": label}
        gaps = {
            size: values(found, **of, of="sampled", latents=size)[0] - values(found, **of, of="mean", latents=size)[0]
            for size in (2, 8)
        }
        assert gaps[8] > gaps[2] + 1
        assert values(found, figure="8.10", data=label, of="active", latents=8)[0] < 8


@pytest.mark.parametrize("found", ["bonheme-figure8.12"], indirect=True)
def test_fondue_by_dimension_ends_next_to_the_elbow_of_three_dimensions(found: Findings) -> None:
    gaussian = {"data": "Gaussian of 3", "measure": "latents"}
    assert values(found, **gaussian, latents="elbow") == [3]
    assert abs(values(found, **gaussian, latents="FONDUE_IDE")[0] - 3) <= 1
    marks = {mark["mark"] for mark in found.charts[0].plain()["marks"]}
    assert marks == {"FONDUE", "FONDUE_IDE"}


@pytest.mark.parametrize("found", ["bonheme-equationD.1"], indirect=True)
def test_the_structure_of_three_dimensions_is_preserved_from_three_latents(found: Findings) -> None:
    assert values(found, data="Gaussian of 3", latents="elbow of the SPI") == [3]
    index = values(found, data="Gaussian of 3", measure="SPI")
    assert min(index[0], index[1]) > 1.5 * max(index[2:])


@pytest.mark.parametrize("found", ["bonheme-tableD.5"], indirect=True)
def test_bisection_finds_three_dimensions_model_by_model(found: Findings) -> None:
    assert values(found, measure="latents") == [3, 3]
    assert values(found, measure="models") == [3, 3]
    assert all(minutes > 0 for minutes in values(found, measure="minutes"))
    path = [row["latents"] for row in found.charts[1].plain()["rows"] if row["method"] == "BS_FONDUE"]
    assert path == [4, 2, 3]


@pytest.mark.parametrize("found", REPEATED, indirect=True, ids=REPEATED)
def test_a_repeated_study_gives_the_same_numbers_from_kept_results(
    found: Findings, settings: StudySettings, request: pytest.FixtureRequest
) -> None:
    kept = set(Path(settings.runs).iterdir())
    again, _ = find(STUDIES[request.node.callspec.id], settings)
    assert set(Path(settings.runs).iterdir()) == kept
    # The speed is that of all training in the folder, including other studies.
    new_times, kept_times = ({json.dumps(cell.of) for cell in one.cells if is_time(cell)} for one in (again, found))
    assert new_times == kept_times
    kept_numbers, new_numbers = (
        {json.dumps(cell.of): cell.value for cell in one.cells if not is_time(cell)} for one in (found, again)
    )
    assert new_numbers == kept_numbers


def is_time(cell: Cell) -> bool:
    """Whether a number is a time, measured or simulated."""
    return str(cell.of["measure"]).endswith("minutes")
