"""`vaescope diagnose`: runs and files of codes, text and JSON output, and errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from vaescope import cli
from vaescope.runs import Run, fit

RUNNER = CliRunner()
NET = {"name": "mlp", "encoder_widths": [6], "decoder_widths": [6]}
STATUSES = {"good", "note", "warning", "bad", "not applicable"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on digits, a run on an array, and files of the same codes: two latents active, one passive."""
    folder = tmp_path_factory.mktemp("diagnosed")
    generator = np.random.default_rng(0)
    fit("digits", latents=2, net=NET, steps=4, batch=8, runs=folder / "named", device="cpu")
    fit(generator.random((40, 3)), latents=2, net=NET, steps=4, batch=8, runs=folder / "array", device="cpu")
    mean, variance = generator.standard_normal((90, 3)) * [1, 1, 0], np.tile([0.01, 0.02, 1.0], (90, 1))
    np.savez(folder / "codes.npz", mean=mean, variance=variance, labels=np.arange(90) % 3)
    np.savez(folder / "zero.npz", mean=mean, variance=0 * variance)
    np.savez(folder / "logs.npz", mean=mean, variance=np.log(variance))
    np.savez(folder / "other.npz", x=mean)
    header = ",".join(f"{name}_{latent}" for name in ("mean", "variance") for latent in range(3))
    np.savetxt(folder / "codes.csv", np.hstack([mean, variance]), delimiter=",", header=header, comments="")
    (folder / "words.csv").write_text("mean_0,variance_0\n1,x\n")
    (folder / "cut.npz").write_bytes((folder / "codes.npz").read_bytes()[:400])
    return folder


def run_in(folder: Path, name: str) -> Run:
    (file,) = (folder / name).glob("*/run.json")
    return Run.open(file.parent)


def asked(*arguments: str) -> str:
    result = RUNNER.invoke(cli.app, ["diagnose", *arguments])
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert "\x1b" not in result.stdout
    return result.stdout


@pytest.mark.parametrize("name", ["codes.npz", "codes.csv"])
def test_codes_in_a_file_get_a_verdict_cards_and_a_table(name: str, folder: Path) -> None:
    shown = asked(str(folder / name))
    assert shown.startswith("2 of 3 latents are active, 0 mixed, and 1 passive; ")
    assert "Posterior collapse. Latent 2 (1 of 3) equals the prior" in shown
    assert "share of passive items" in shown
    assert "kind of mixed" not in shown


def test_the_worst_card_is_shown_first(folder: Path) -> None:
    lines = asked(str(folder / "codes.npz")).splitlines()
    notes = [place for place, line in enumerate(lines) if re.match(r" *note  ", line)]
    good = [place for place, line in enumerate(lines) if re.match(r" *good  ", line)]
    assert max(notes) < min(good)


def test_a_run_is_diagnosed_by_id_and_by_folder(folder: Path) -> None:
    run = run_in(folder, "named")
    by_id = json.loads(asked(run.id[:8], "--runs", str(folder / "named"), "--items", "100", "--json"))
    assert by_id == json.loads(asked(str(run.path), "--items", "100", "--json"))
    assert by_id["name"] == run.id
    assert [row["latent"] for row in by_id["latents"]] == [0, 1]
    assert {card["status"] for card in by_id["cards"]} <= STATUSES


def test_data_can_be_given(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "items.npy", np.random.default_rng(1).random((40, 3)))
    run = run_in(folder, "array")
    assert "latents" in asked(str(run.path), "--data", str(tmp_path / "items.npy"))


def refuse(word: str) -> None:
    raise AssertionError(f"JSON has no {word}")


@pytest.mark.parametrize("name", ["codes.npz", "codes.csv", "zero.npz"])
def test_json_output_is_valid(name: str, folder: Path) -> None:
    found = json.loads(asked(str(folder / name), "--json"), parse_constant=refuse)
    assert set(found) == {"name", "verdict", "headline", "well_determined", "latents", "cards", "metrics"}
    assert found["name"] == str(folder / name)


def test_predictions_are_added_on_request(folder: Path) -> None:
    assert "Prediction from codes" not in asked(str(folder / "codes.npz"))
    assert "Prediction from codes" in asked(str(folder / "codes.npz"), "--predict")


WRONG = {
    "no such run": (["zzz"], "'zzz'"),
    "no such file": (["nowhere.npz"], "nowhere.npz"),
    "log-variance": (["FOLDER/logs.npz"], "log-variance"),
    "other arrays": (["FOLDER/other.npz"], "log_variance"),
    "truncated": (["FOLDER/cut.npz"], "cut.npz"),
    "a word": (["FOLDER/words.csv"], "line 2.*'x'"),
    "nothing to predict": (["FOLDER/codes.csv", "--predict"], "factors or labels"),
    "data for codes": (["FOLDER/codes.npz", "--data", "digits"], "data"),
    "wrong alpha": (["FOLDER/codes.npz", "--alpha", "-1"], "alpha.*0.5"),
    "one item": (["RUN", "--items", "1"], "items.*2"),
    "other shape": (["RUN", "--data", "pinwheel"], "shape"),
    "data without a name": (["ARRAY"], "array"),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_named(
    arguments: list[str],
    words: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: Callable[..., str],
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"RUN": str(run_in(folder, "named").path), "ARRAY": str(run_in(folder, "array").path)}
    filled = [places.get(word, word.replace("FOLDER", str(folder))) for word in arguments]
    assert re.search(words, refused("diagnose", *filled))
    assert list(tmp_path.iterdir()) == []


def test_only_the_result_is_written_to_stdout(folder: Path, printed: Callable[..., str]) -> None:
    shown = printed("diagnose", folder / "codes.npz")
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert shown.startswith("2 of 3 latents are active")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_the_help_lists_the_options(option: str) -> None:
    result = RUNNER.invoke(cli.app, ["diagnose", option])
    assert result.exit_code == 0
    assert "codes.npz" in result.stdout
