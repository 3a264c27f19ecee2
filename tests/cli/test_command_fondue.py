"""`vaescope fondue`: text and JSON output, the check, the figure, and errors."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from vaescope import cli

RUNNER = CliRunner()
QUICK = (
    *("--net", "mlp", "--set", "net.encoder_widths=[12]", "--set", "net.decoder_widths=[12]"),
    *("--set", "data.dimension=2", "--set", "data.ambient=6", "--set", "data.items=300"),
    *("--period", "60", "--learning-rate", "2e-2", "--seeds", "2", "--max-periods", "3", "--probe-items", "200"),
)


def asked(folder: Path, *options: str) -> Result:
    return RUNNER.invoke(cli.app, ["fondue", "gaussian-manifold", *QUICK, "--runs", str(folder), *options])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("searched")


def test_the_output_has_the_number_the_curve_and_the_next_command(folder: Path) -> None:
    result = asked(folder)
    assert result.exit_code == 0, result.output
    first, *lines = result.output.splitlines()
    assert " latents for gaussian-manifold (" in first
    assert "2 seeds" in first
    number = first.split()[0]
    chosen = [line for line in lines if line.endswith("<- chosen")]
    assert len(chosen) == 1
    assert chosen[0].split()[0] == number
    command = shlex.split(lines[-1].removeprefix("next: `").removesuffix("`"))
    assert command[:5] == ["vaescope", "fit", "gaussian-manifold", "--latents", number]
    # The same model and the same data, as a command that can be run.
    assert command[5:] == [*QUICK[:12], "--runs", str(folder)]


def test_json_has_everything_and_a_repeated_command_trains_nothing(folder: Path) -> None:
    asked(folder)
    result = asked(folder, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["trained_steps"] == 0
    assert found["latents"] in (1, 2, 3)
    assert [row["seed"] for row in found["seeds"]] == [0, 1]
    assert {row["latents"] for row in found["curve"]} >= {found["latents"]}
    assert found["interval"][0] <= found["mean"] <= found["interval"][1]


def test_the_kind_of_search_can_be_chosen(folder: Path) -> None:
    found = json.loads(asked(folder, "--search", "interpolate", "--json").output)
    assert found["search"] == "interpolate"
    assert "interpolate" in str(asked(folder, "--search", "lines").exception)


def test_the_start_of_the_search_can_be_set(folder: Path) -> None:
    found = json.loads(asked(folder, "--init", "3", "--json").output)
    assert (found["start"], found["dimension"]) == (3, None)


def test_runs_shows_searches(folder: Path) -> None:
    asked(folder)
    result = RUNNER.invoke(cli.app, ["runs", "--runs", str(folder)])
    assert "latents for gaussian-manifold (" in result.output


def test_the_check_trains_sizes_around_the_answer_and_writes_the_figure(folder: Path) -> None:
    picture = folder / "gap.html"
    result = asked(folder, "--check", "--check-steps", "50", "--plot", str(picture), "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert sum(row["chosen"] for row in found["elbow"]) == 1
    assert picture.read_text(encoding="utf-8").count("<html") == 1


def test_a_strength_can_be_set_for_the_search(folder: Path) -> None:
    result = asked(folder, "--over", "beta", "--latents", "2", "--seeds", "1", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["over"] == "beta"
    assert found["mean"] >= 0
    assert "latents" not in found


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--check", "--over", "beta", "--latents", "2"), "--check"),
        (("--plot", "no/such/folder/gap.html"), "no/such/folder/gap.html"),
        (("--gap", "xyzzy"), "dimension, information, trace"),
        (("--init", "9"), "1 to 6"),
        (("--model", "autoencoder"), "autoencoder"),
    ],
)
def test_an_error_is_one_sentence(folder: Path, options: tuple[str, ...], words: str) -> None:
    result = asked(folder, *options)
    assert result.exit_code != 0
    assert words in str(result.exception)
