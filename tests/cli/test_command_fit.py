"""`vaescope fit`: lists, options of parts, text and JSON output, and errors."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import vaescope
from vaescope import cli
from vaescope.cli.options import TrainingFlags
from vaescope.cli.output import print_json, print_table
from vaescope.cli.values import numbers
from vaescope.errors import ConfigurationError

RUNNER = CliRunner()
COMMAND = [sys.executable, "-m", "vaescope.cli"]
QUICK = ["--net", "mlp", "--set", "net.encoder_widths=[8]", "--set", "net.decoder_widths=[8]", "--steps", "4"]


@pytest.fixture(scope="module")
def codes(tmp_path_factory: pytest.TempPathFactory) -> str:
    file = tmp_path_factory.mktemp("data") / "codes [red].npy"
    np.save(file, np.random.default_rng(0).normal(size=(60, 4)))
    return str(file)


def fitted(codes: str, folder: Path, *options: str) -> Any:
    result = RUNNER.invoke(cli.app, ["fit", codes, *QUICK, "--latents", "2", "--runs", str(folder), "--json", *options])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_one_model_ends_with_the_verdict_and_the_next_command(codes: str, tmp_path: Path) -> None:
    words = ["fit", codes, *QUICK, "--latents", "2", "--seed", "3", "--runs", str(tmp_path)]
    result = RUNNER.invoke(cli.app, words)
    assert result.exit_code == 0
    (run,) = (file.parent.name for file in tmp_path.glob("*/run.json"))
    verdict, settings, following = result.stdout.splitlines()[-3:]
    assert verdict.startswith(vaescope.diagnose(run, runs=tmp_path).summary())
    assert settings == f"all settings: `vaescope runs show {run} --runs {tmp_path}`"
    assert following == f"next: `vaescope report {run} --runs {tmp_path}`"
    assert "codes [red]" in result.stdout
    assert re.search(r"test_loss .* \d[\d.]* nats", result.stdout)


def test_the_settings_of_one_model_are_those_that_differ_from_the_defaults(codes: str, tmp_path: Path) -> None:
    words = ["fit", codes, *QUICK, "--latents", "2", "--seed", "3", "--set", "optimiser.beta1=0.5"]
    shown = RUNNER.invoke(cli.app, [*words, "--runs", str(tmp_path)]).stdout
    names = {line.split()[1] for line in shown.splitlines() if line.startswith("│")}
    always = {"data", "items", "model", "net", "likelihood", "latents", "steps"}
    given = {"seed", "net.encoder_widths", "net.decoder_widths", "optimiser.beta1"}
    assert names == always | given | {"test_loss", "test_reconstruction", "test_rate"}


def test_a_reused_run_is_called_so(codes: str, tmp_path: Path) -> None:
    words = ["fit", codes, *QUICK, "--latents", "2", "--runs", str(tmp_path)]
    assert "already trained" not in RUNNER.invoke(cli.app, words).stdout
    assert "This run was already trained" in RUNNER.invoke(cli.app, words).stdout
    assert fitted(codes, tmp_path)[0]["already_trained"] is True
    several = RUNNER.invoke(cli.app, [*words, "--seed", "0,1"]).stdout
    assert "1 of 2 runs was already trained; it was not trained again." in several
    assert [row["already_trained"] for row in fitted(codes, tmp_path, "--seed", "0,1,2")] == [True, True, False]


def test_json_is_one_row_for_each_model(codes: str, tmp_path: Path) -> None:
    (row,) = fitted(codes, tmp_path)
    assert (row["latents"], row["beta"], row["seed"], row["learning_rate"]) == (2, 1.0, 0, 1e-4)
    assert (row["status"], row["step"], row["net"], row["likelihood"]) == ("complete", 4, "mlp", "gaussian")


def test_a_run_is_trained_longer_and_from_its_weights(codes: str, tmp_path: Path) -> None:
    (first,) = fitted(codes, tmp_path)
    result = RUNNER.invoke(cli.app, ["resume", first["id"][:6], "--steps", "8", "--runs", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    (longer,) = json.loads(result.stdout)
    assert (longer["steps"], longer["step"], longer["status"]) == (8, 8, "complete")
    assert longer["id"] != first["id"]
    shown = RUNNER.invoke(cli.app, ["resume", longer["id"], "--runs", str(tmp_path)])
    assert f"vaescope runs show {longer['id']} --runs {tmp_path}" in shown.stdout
    words = [
        "fit",
        codes,
        "--start",
        first["id"][:6],
        "--steps",
        "4",
        "--beta",
        "1,4",
        "--runs",
        str(tmp_path),
        "--json",
    ]
    rows = json.loads(RUNNER.invoke(cli.app, words).stdout)
    assert [(row["latents"], row["beta"], row["started_from"]) for row in rows] == [
        (2, beta, first["id"]) for beta in (1.0, 4.0)
    ]
    refused = RUNNER.invoke(cli.app, [*words, "--latents", "3"])
    assert isinstance(refused.exception, ConfigurationError)
    assert "latents 2 in the run and 3 here" in str(refused.exception)


def test_lists_train_one_model_for_each_combination(codes: str, tmp_path: Path) -> None:
    lists = ["--latents", "1,2", "--beta", "1,4.5", "--seed", "0,3", "--learning-rate", "1e-3"]
    rows = fitted(codes, tmp_path, *lists)
    assert [(row["latents"], row["beta"], row["seed"]) for row in rows] == [
        (latents, beta, seed) for latents in (1, 2) for beta in (1.0, 4.5) for seed in (0, 3)
    ]
    result = RUNNER.invoke(cli.app, ["fit", codes, *QUICK, "--runs", str(tmp_path), *lists])
    assert result.exit_code == 0
    assert all(row["id"] in result.stdout for row in rows)
    assert "learning_rate" not in result.stdout
    assert {"active", "mixed", "passive", "test_loss"} <= set(result.stdout.splitlines()[1].split())
    assert result.stdout.splitlines()[-1] == f"next: `vaescope report {rows[0]['id']} --runs {tmp_path}`"


def test_a_repeated_value_trains_one_model(codes: str, tmp_path: Path) -> None:
    assert len(fitted(codes, tmp_path, "--seed", "1,1")) == 1


def test_epochs_can_be_fractional(codes: str, tmp_path: Path) -> None:
    words = ["fit", codes, *QUICK[:-2], "--latents", "2", "--runs", str(tmp_path), "--batch", "9", "--epochs", "1.5"]
    result = RUNNER.invoke(cli.app, [*words, "--json"])
    assert [row["step"] for row in json.loads(result.stdout)] == [9]  # the training part has 54 items


def test_options_of_parts_are_passed_on(codes: str, tmp_path: Path) -> None:
    options = ["--likelihood", "gaussian", "--set", "likelihood.variance=0.5", "--set", "optimiser.beta1=0.5"]
    (row,) = fitted(codes, tmp_path, *options, "--set", "objective.beta=3", "--set", "net.encoder_activation=tanh")
    configuration = json.loads((tmp_path / row["id"] / "run.json").read_text())["configuration"]
    assert configuration["architecture"]["likelihood"] == {"name": "gaussian", "variance": 0.5, "learned": False}
    assert configuration["architecture"]["net"]["encoder_activation"] == "tanh"
    assert configuration["architecture"]["net"]["encoder_widths"] == [8]
    assert configuration["plan"]["optimiser"]["beta1"] == 0.5
    assert row["beta"] == 3


def test_options_of_the_data_are_passed_on(tmp_path: Path) -> None:
    (row,) = fitted("pinwheel", tmp_path, "--set", "data.per_class=10", "--set", "data.classes=3")
    assert (row["data"], row["items"]) == ("pinwheel", 30)


def test_data_are_standardised_and_opened_again_as_such(codes: str, tmp_path: Path) -> None:
    (row,) = fitted(codes, tmp_path, "--standardise")
    run = vaescope.Run.open(tmp_path / row["id"])
    assert run.record.configuration["architecture"]["standardise"] is True
    assert run.provenance.source == {"name": codes, "standardise": True}
    # The data are found by their source.
    assert run.encode().mean.isfinite().all()


def test_an_autoencoder_can_be_trained(codes: str, tmp_path: Path) -> None:
    (row,) = fitted(codes, tmp_path, "--model", "autoencoder", "--held-out", "0", "--precision", "float64")
    assert row["model"] == "autoencoder"
    assert row["train_rate"] == 0
    assert "test_loss" not in row


# Arguments, and a pattern for the message.
WRONG = {
    "unknown data": (["fit", "dsprite"], "'dsprite'"),
    "missing file": (["fit", "nowhere/x.npy"], "'nowhere/x.npy'"),
    "zero latents": (["fit", "CODES", "--latents", "0"], "between 1 and 4"),
    "too many latents": (["fit", "CODES", "--latents", "2,5"], "between 1 and 4.*5"),
    "latents as words": (["fit", "CODES", "--latents", "two"], "--latents.*'two'"),
    "latents as a range": (["fit", "CODES", "--latents", "1-4"], "--latents.*'1-4'"),
    "latents with a gap": (["fit", "CODES", "--latents", "1,,2"], "--latents.*'1,,2'"),
    "half a latent": (["fit", "CODES", "--latents", "1.5"], "--latents"),
    "no beta": (["fit", "CODES", "--beta", ""], "--beta"),
    "negative beta": (["fit", "CODES", "--beta=-1"], "beta.*-1"),
    "beta not a number": (["fit", "CODES", "--beta", "nan"], "beta.*nan"),
    "beta twice": (["fit", "CODES", "--beta", "2", "--set", "objective.beta=3"], "--beta or --set objective.beta"),
    "seed as words": (["fit", "CODES", "--seed", "x"], "--seed"),
    "negative seed": (["fit", "CODES", "--seed=-4"], "seed.*-4"),
    "learning rate": (["fit", "CODES", "--learning-rate", "0"], "learning_rate.*above 0"),
    "unknown model": (["fit", "CODES", "--model", "gan"], "model.*'gan'"),
    "unknown net": (["fit", "CODES", "--net", "resnet"], "net.*'resnet'"),
    "unknown likelihood": (["fit", "CODES", "--likelihood", "poison"], "likelihood.*'poison'"),
    "unknown posterior": (["fit", "CODES", "--posterior", "fall"], "posterior.*'fall'"),
    "unknown prior": (["fit", "CODES", "--prior", "flat"], "prior.*'flat'"),
    "unknown objective": (["fit", "CODES", "--objective", "gamma"], "objective.*'gamma'"),
    "unknown optimiser": (["fit", "CODES", "--optimiser", "sgd"], "optimiser.*'sgd'"),
    "unknown precision": (["fit", "CODES", "--precision", "half"], "precision.*'half'"),
    "unknown initialisation": (["fit", "CODES", "--initialisation", "zero"], "initialisation.*'zero'"),
    "unknown device": (["fit", "CODES", "--device", "tpu"], "device.*'tpu'"),
    "absent GPU": (["fit", "CODES", "--device", "cuda:99"], "'cuda:99'"),
    "steps and epochs": (["fit", "CODES", "--steps", "5", "--epochs", "2"], "steps or epochs"),
    "zero steps": (["fit", "CODES", "--steps", "0"], "steps.*0"),
    "zero batch": (["fit", "CODES", "--batch", "0"], "batch.*0"),
    "all held out": (["fit", "CODES", "--held-out", "1"], "held_out"),
    "set without value": (["fit", "CODES", "--set", "net.kernels"], "--set.*PART.OPTION=VALUE"),
    "set of no part": (["fit", "CODES", "--set", "colour.red=1"], "--set.*'colour.red=1'"),
    "set of which net": (["fit", "CODES", "--set", "net.hidden=3"], "--set net.hidden.*--net"),
    "set of unknown option": (["fit", "CODES", "--net", "mlp", "--set", "net.depth=3"], "'mlp'.*'depth'"),
    "set of wrong kernels": (["fit", "CODES", "--net", "conv", "--set", "net.kernels=[4]"], "kernels"),
    "more held out than numbers say": (["fit", "CODES", "--held-out", "1e308"], "held_out.*1e.308"),
    "epochs without end": (["fit", "CODES", "--epochs", "1e308"], "epochs.*1e.308"),
    "absent GPU of 5000 digits": (["fit", "CODES", "--device", f"cuda:{'9' * 5000}"], "device.*5,007 characters"),
    "a name of 5000 letters": (["fit", "CODES", "--net", "n" * 5000], "net.*5,002 characters"),
    "seeds without end": (["fit", "CODES", "--seed", "9" * 5000], "--seed.*5,002 characters"),
    "too many combinations": (
        ["fit", "CODES", *(f"--{name}={','.join(['1'] * 400)}" for name in ("beta", "seed"))],
        "100,000.*400 of beta x 400 of seed",
    ),
    "set of deep lists": (["fit", "CODES", "--net", "mlp", "--set", f"net.x={'[' * 9999}"], "--set net.x.*20"),
    "set of nested lists": (["fit", "CODES", "--set", f"net.x={'[' * 99}{']' * 99}"], "--set net.x.*20"),
    "set of terabytes": (
        ["fit", "CODES", "--net", "mlp", "--set", "net.encoder_widths=[1000000000]"],
        "must fit into memory.*GB.*1000000000",
    ),
    "option of the data": (["fit", "pinwheel", "--set", "data.colour=1"], "colour.*pinwheel"),
    "type of an option": (["fit", "pinwheel", "--set", "data.along=far"], "along"),
    "convolution of vectors": (["fit", "CODES", "--net", "conv"], "'conv'.*images"),
    "bernoulli on the line": (["fit", "CODES", "--likelihood", "bernoulli"], "'bernoulli'"),
    "runs in a file": (["fit", "CODES", "--latents", "2", "--runs", "CODES"], "folder"),
    "no such run": (["runs", "show", "abc"], "'abc'"),
    "no such path": (["runs", "show", "/nowhere"], "'/nowhere'"),
    "no runs to query": (["runs", "sql", "SELECT 1"], "run"),
}


@pytest.mark.parametrize(("arguments", "words"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_named_before_anything_is_written(
    arguments: list[str],
    words: str,
    codes: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: Callable[..., str],
) -> None:
    monkeypatch.chdir(tmp_path)
    filled = [codes if argument == "CODES" else argument for argument in arguments]
    if filled[0] == "fit" and "--latents" not in filled:
        filled += ["--latents", "2"]
    message = refused(*filled)
    assert re.search(words, message), message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "failure", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")], ids=repr
)
def test_running_out_of_memory_is_one_sentence(
    failure: Exception, codes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., str]
) -> None:
    def exhausted(*_: object, **options: object) -> None:
        raise failure

    monkeypatch.setattr("vaescope.runs.fitting.open_dataset", exhausted)
    assert "must fit into memory" in refused("fit", codes, "--runs", tmp_path)


MISUSED = {
    "no data": (["fit"], "data"),
    "unknown command": (["train"], "No such command 'train'"),
    "unknown option": (["fit", "pinwheel", "--latent", "2"], "--latent"),
    "words for a number": (["fit", "pinwheel", "--batch", "many"], "--batch"),
    "no query": (["runs", "sql"], "query"),
    "no run": (["runs", "show"], "run"),
}


@pytest.mark.parametrize(("arguments", "words"), MISUSED.values(), ids=MISUSED)
def test_a_misused_command_prints_its_usage_and_exits_with_2(arguments: list[str], words: str) -> None:
    result = RUNNER.invoke(cli.app, arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage" in result.stderr
    assert words.lower() in result.stderr.lower()
    assert "Traceback" not in result.stderr


def test_only_the_result_is_written_to_stdout(codes: str, tmp_path: Path, printed: Callable[..., str]) -> None:
    arguments = ["fit", codes, *QUICK, "--latents", "2", "--runs", str(tmp_path)]
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "next: `vaescope report " in done.stdout
    assert all(character.isprintable() or character == "\n" for character in done.stdout)
    assert json.loads(printed(*arguments, "--json"))[0]["status"] == "complete"


@pytest.mark.parametrize("module", ["vaescope", "vaescope.cli"])
def test_the_package_runs_as_a_module(module: str) -> None:
    done = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"vaescope {vaescope.__version__}\n", "")


def test_an_error_in_a_pipe_has_no_traceback() -> None:
    done = subprocess.run([*COMMAND, "fit", "dsprite"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: 'dsprite'")
    assert done.stderr.count("\n") == 1


@pytest.mark.skipif(os.name != "posix", reason="sends an interrupt")
def test_an_interrupted_command_says_that_it_can_resume(codes: str, tmp_path: Path) -> None:
    arguments = ["fit", codes, *QUICK[:-1], "10000000", "--latents", "2", "--runs", str(tmp_path)]
    with subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as worker:
        patience = time.monotonic() + 60
        while not [file for file in tmp_path.glob("*/history.jsonl") if file.stat().st_size]:
            assert time.monotonic() < patience
            time.sleep(0.05)
        worker.send_signal(signal.SIGINT)
        output, errors = worker.communicate()
    assert (worker.returncode, output) == (130, "")
    assert errors.startswith("Interrupted.")
    assert errors.count("\n") == 1
    assert list(tmp_path.glob("*/state.safetensors"))


def test_lists_are_read_as_numbers() -> None:
    assert numbers("latents", "5,10,20", int) == [5, 10, 20]
    assert numbers("beta", "1e-3, 4", float) == [1e-3, 4.0]


def test_settings_are_read_as_json_or_else_as_text() -> None:
    settings = ["net.kernels=[4,4]", "net.name=a=b", "likelihood.learned=true", "data.items=3"]
    tables = TrainingFlags(settings=settings).tables
    assert tables["net"] == {"kernels": [4, 4], "name": "a=b"}
    assert tables["likelihood"] == {"learned": True}
    assert tables["data"] == {"items": 3}
    with pytest.raises(ConfigurationError, match="kernels=3"):
        TrainingFlags(settings=["kernels=3"]).keywords()


def test_numbers_without_a_word_in_json_become_null(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"loss": [float("nan"), (float("inf"), 1.5)], "path": Path("x")})
    assert json.loads(capsys.readouterr().out) == {"loss": [None, [None, 1.5]], "path": "x"}


def test_a_table_in_a_pipe_is_not_truncated_and_ignores_markup(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_table(["name", "value"], [["[/] :smile: " + "x" * 400, 0.1234567], [None, 3]])
    out = capsys.readouterr().out
    assert "[/] :smile: " + "x" * 400 in out
    assert "0.12346" in out


def test_missing_options_of_data_are_named_and_given_ones_are_kept_in_the_run(
    tmp_path: Path, refused: Callable[..., str]
) -> None:
    (tmp_path / "pngs").mkdir()
    for position in range(24):
        side = 20 if position % 2 else 24
        pixels = np.random.default_rng(position).integers(0, 256, (side, side), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / "pngs" / f"{position:02}.png")
    words = ["fit", tmp_path / "pngs", *QUICK, "--latents", "2", "--runs", tmp_path / "runs"]
    assert "Pass --size 64 to resize them" in refused(*words)
    (row,) = fitted(str(tmp_path / "pngs"), tmp_path / "runs", "--set", "data.size=16")
    assert row["data.size"] == 16
    shown = RUNNER.invoke(cli.app, ["diagnose", row["id"], "--runs", str(tmp_path / "runs"), "--json"])
    assert len(json.loads(shown.stdout)["latents"]) == 2


def test_a_log_has_lines_of_progress_unless_the_output_is_json(
    codes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vaescope.progress.MIN_LINE_SECONDS", 0.0)
    words = ["fit", codes, *QUICK, "--latents", "2", "--runs", str(tmp_path)]
    shown = RUNNER.invoke(cli.app, words)
    assert f"training on {codes}: 4 of 4 steps (100%), loss " in shown.stderr
    assert "training on" not in shown.stdout
    quiet = RUNNER.invoke(cli.app, [*words, "--seed", "1", "--json"])
    assert quiet.stderr == ""
    assert json.loads(quiet.stdout)[0]["status"] == "complete"
    # Only for the one command.
    assert "training on" in RUNNER.invoke(cli.app, [*words, "--seed", "2"]).stderr
