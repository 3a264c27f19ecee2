"""`vaescope datasets`, help and version."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from vaescope import __version__
from vaescope.cli import app
from vaescope.data import DATASETS, public
from vaescope.errors import UnknownNameError

RUNNER = CliRunner()


def test_every_data_set_is_listed() -> None:
    result = RUNNER.invoke(app, ["datasets"])
    assert result.exit_code == 0
    assert all(name in result.stdout for name in DATASETS)
    assert "\x1b" not in result.stdout


def test_what_is_listed_is_short_and_items_have_separators() -> None:
    lines = RUNNER.invoke(app, ["datasets"]).stdout.splitlines()
    (celeba,) = [line for line in lines if line.startswith("│ celeba ")]
    assert "202,599" in celeba
    assert "manual download " in celeba
    assert "https://" not in celeba
    (digits,) = [line for line in lines if line.startswith("│ digits ")]
    assert "built in" in digits


def test_every_data_set_is_listed_as_json() -> None:
    result = RUNNER.invoke(app, ["datasets", "--json"])
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert [row["name"] for row in rows] == sorted(DATASETS)
    assert all(set(row) == {"name", "items", "shape", "factors", "where", "what"} for row in rows)
    (pinwheel,) = [row for row in rows if row["name"] == "pinwheel"]
    assert (pinwheel["items"], pinwheel["shape"], pinwheel["where"]) == (400, "2", "built in")


PUBLIC = {entry.name: entry for entry in public.ENTRIES}


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_one_data_set_is_shown_with_its_files(name: str) -> None:
    result = RUNNER.invoke(app, ["datasets", name])
    assert result.exit_code == 0
    assert DATASETS[name].summary in result.stdout
    found = json.loads(RUNNER.invoke(app, ["datasets", name, "--json"]).stdout)
    assert (found["name"], found["items"], found["shape"]) == (name, DATASETS[name].items, list(DATASETS[name].shape))
    assert found["factors"] == list(DATASETS[name].factors)
    published = DATASETS[name].published
    files = () if published is None else published.files
    assert [file["names"] for file in found["files"]] == [list(file.names) for file in files]
    assert [file["checksum"] or file["content"] for file in found["files"]] == [
        file.checksum or file.content for file in files
    ]
    shown = [text for file in files for text in (*file.names, file.url, file.checksum or file.content)]
    assert [text for text in shown if text not in result.stdout] == []


def test_the_folder_of_a_data_set_is_where_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VAESCOPE_DATA", str(tmp_path))
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache")
    before = json.loads(RUNNER.invoke(app, ["datasets", "celeba", "--json"]).stdout)
    assert (before["where"], before["cache"]) == (None, str(tmp_path / "cache" / "celeba"))
    folder = Path(before["folder"].replace("$VAESCOPE_DATA", str(tmp_path)))
    folder.mkdir()
    (folder / before["files"][0]["names"][0]).write_bytes(b"content")
    assert json.loads(RUNNER.invoke(app, ["datasets", "celeba", "--json"]).stdout)["where"] is not None


def test_an_unknown_data_set_is_an_error_with_the_nearest_name() -> None:
    result = RUNNER.invoke(app, ["datasets", "mnits"])
    assert isinstance(result.exception, UnknownNameError)
    assert "Did you mean 'mnist'?" in str(result.exception)


def test_the_page_of_public_data_sets_has_every_fact_of_the_registry() -> None:
    page = (Path(__file__).parents[2] / "docs" / "datasets.md").read_text(encoding="utf-8")
    sections = {section.partition("\n")[0]: section for section in page.split("\n## ")[1:]}
    assert sorted(sections) == sorted(PUBLIC)
    for name, entry in PUBLIC.items():
        files = () if entry.published is None else entry.published.files
        facts = [text for file in files for text in (*file.names, file.url, file.checksum or file.content)]
        facts += ["" if entry.published is None else entry.published.origin, entry.licence, entry.source]
        facts += [*entry.factors, f"{entry.items:,}", " x ".join(map(str, entry.shape)), f"vaescope fit {name}"]
        assert [fact for fact in facts if fact not in sections[name]] == []


@pytest.mark.parametrize("command", [[], ["datasets"], ["fit"], ["runs"], ["runs", "show"], ["runs", "sql"]])
@pytest.mark.parametrize("option", ["-h", "--help"])
def test_every_command_has_help(command: list[str], option: str) -> None:
    result = RUNNER.invoke(app, [*command, option])
    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_the_version_is_printed() -> None:
    result = RUNNER.invoke(app, ["--version"])
    assert (result.exit_code, result.stdout) == (0, f"vaescope {__version__}\n")


def test_help_does_not_load_torch() -> None:
    script = """
import sys
from vaescope.cli import app
try:
    app(["fit", "--help"])
except SystemExit:
    pass
print("torch" in sys.modules, "numpy" in sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == "False False\n"
