"""The options of data have short names on the command line, and messages name those of the interface in use."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from vaescope import cli
from vaescope.cli.options import DataFlags
from vaescope.data import open_dataset
from vaescope.data.sources import SHORT_OPTIONS, flags_of, keyword, option_name, passing, setting
from vaescope.errors import ConfigurationError, DataError
from vaescope.runs import Run
from vaescope.terminal import command_line

RUNNER = CliRunner()
IMAGES = np.random.default_rng(0).uniform(-1, 1, (40, 16, 16)).astype(np.float32)
IMAGES.flat[:2] = -1, 1
TINY = (
    *("--net", "mlp", "--set", "net.encoder_widths=[8]", "--set", "net.decoder_widths=[8]"),
    *("--latents", "2", "--steps", "2", "--batch", "8", "--device", "cpu"),
)


def output(*words: object) -> str:
    result = RUNNER.invoke(cli.app, list(map(str, words)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images in [-1, 1], images of two sizes, and a table with a column of words."""
    folder = tmp_path_factory.mktemp("data")
    np.save(folder / "images.npy", IMAGES)
    (folder / "pngs").mkdir()
    for position in range(24):
        side = 20 if position % 2 else 24
        pixels = np.random.default_rng(position).integers(0, 256, (side, side), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "pngs" / f"{position:02}.png")
    rows = (f"{a:.3f},{b:.3f},{'oak' if a > b else 'ash'}" for a, b in np.random.default_rng(0).normal(size=(30, 2)))
    (folder / "trees.csv").write_text("\n".join(["height,width,species", *rows]))
    return folder


OPTIONS = {
    "nothing": ({}, {}),
    "a square": ({"size": "64"}, {"size": 64}),
    "height and width": ({"size": "48,64"}, {"size": [48, 64]}),
    "a label": ({"label": "species"}, {"label": "species"}),
    "several factors": ({"factors": "shape,scale"}, {"factors": ["shape", "scale"]}),
    "a table of factors": ({"factors": "factors.csv"}, {"factors": "factors.csv"}),
    "columns": ({"columns": "a,b,c", "drop": "d"}, {"columns": ["a", "b", "c"], "drop": ["d"]}),
    "missing values": ({"missing": "mean", "standardise": True}, {"missing": "mean", "standardise": True}),
    "a range": ({"range": "-1,1"}, {"range": [-1, 1]}),
    "a range of fractions": ({"range": "-0.5,2.5"}, {"range": [-0.5, 2.5]}),
    "a layer": ({"layer": "counts"}, {"layer": "counts"}),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_flags_are_options_of_open_dataset_and_are_written_as_such_again(case: str) -> None:
    given, expected = OPTIONS[case]
    flags = DataFlags(**given)
    assert flags.options() == expected
    written = flags_of({"name": "x", **expected})
    assert written == [
        word for name, value in given.items() for word in ([f"--{name}"] if value is True else [f"--{name}", value])
    ]


def test_every_short_option_is_a_flag() -> None:
    assert tuple(field.name for field in fields(DataFlags)) == SHORT_OPTIONS


@pytest.mark.parametrize(("given", "fact"), [({"size": "big"}, "--size must be whole"), ({"range": "a,b"}, "--range")])
def test_flags_that_are_no_numbers_are_named(given: dict[str, Any], fact: str) -> None:
    with pytest.raises(ConfigurationError, match=fact):
        DataFlags(**given).options()


def test_a_flag_and_a_setting_of_the_same_option_exclude_each_other() -> None:
    with pytest.raises(ConfigurationError, match=r"--size or --set data\.size, not both"):
        DataFlags(size="8").options({"size": 9})
    assert DataFlags(size="8").options({"colour": False}) == {"size": 8, "colour": False}


def test_messages_name_the_option_of_the_interface_in_use() -> None:
    assert passing("size", 64) == "size=64 to open_dataset"
    assert (setting("image", False), option_name("image")) == ("image=False", "image")
    with command_line():
        assert passing("size", 64) == "--size 64"
        assert passing("range", (-1, 1)) == "--range -1,1"
        assert passing("standardise", True) == "--standardise"
        assert passing("columns", ["a", "b, c"]) == '--set data.columns=["a", "b, c"]'
        assert (setting("factors", False), keyword("factors")) == ("--set data.factors=false", "--factors")
        assert (setting("image", False), option_name("image")) == ("--set data.image=false", "--set data.image")
    assert setting("size", 64) == "size=64"


def test_the_same_mistake_is_named_in_both_interfaces(folder: Path, refused: Callable[..., str]) -> None:
    assert "Pass --range -1,1 if" in refused("fit", folder / "images.npy")
    assert "or --set data.image=false to" in refused("fondue", folder / "images.npy")
    with pytest.raises(DataError, match=r"Pass range=\(-1, 1\) to open_dataset if .* or image=False to"):
        open_dataset(folder / "images.npy")
    assert "Pass --size 64 to" in refused("fit", folder / "pngs")
    assert "pass --drop species to leave the column out, or name it in --label or --factors" in refused(
        "fit", folder / "trees.csv"
    )
    message = refused("fit", folder / "trees.csv", "--label", "specie")
    assert "--label must be the name of a column" in message
    assert message.rstrip().endswith("Did you mean 'species'?")
    assert "--missing must be" in refused("fit", folder / "trees.csv", "--missing", "median")
    assert "Remove --standardise." in refused("fit", folder / "pngs", "--size", "8", "--standardise")


def test_an_option_that_a_source_does_not_take_is_named_as_it_was_given(
    folder: Path, refused: Callable[..., str]
) -> None:
    message = refused("fit", folder / "images.npy", "--size", "64")
    assert "--size is not an option of" in message
    assert "--set data.channels, --range, --missing. Remove --size 64." in message
    assert refused("fit", folder / "pngs", "--label", "species").rstrip().endswith("Did you mean --set data.labels?")
    assert "--set data.colour is not an option of" in refused("fit", folder / "images.npy", "--set", "data.colour=true")
    with pytest.raises(ConfigurationError, match=r"^size is not an option of .*, range, missing\. Remove size=64\.$"):
        open_dataset(folder / "images.npy", size=64)


def test_short_options_open_the_data_of_a_run(folder: Path, tmp_path: Path) -> None:
    rows = {
        name: json.loads(output("fit", folder / file, *words, *TINY, "--runs", tmp_path, "--json"))[0]
        for name, file, words in (
            ("range", "images.npy", ("--range", "-1,1")),
            ("size", "pngs", ("--size", "16")),
            ("label", "trees.csv", ("--label", "species")),
        )
    }
    sources = {name: Run.open(tmp_path / row["id"]).provenance.source for name, row in rows.items()}
    assert sources["range"] == {"name": str(folder / "images.npy"), "range": [-1, 1]}
    assert sources["size"] == {"name": str(folder / "pngs"), "size": 16}
    assert sources["label"] == {"name": str(folder / "trees.csv"), "label": "species"}
    again = output("fit", folder / "pngs", "--set", "data.size=16", *TINY, "--runs", tmp_path, "--json")
    assert json.loads(again)[0]["id"] == rows["size"]["id"]


def test_commands_open_other_data_with_short_options(folder: Path, tmp_path: Path, refused: Callable[..., str]) -> None:
    trained = output("fit", folder / "pngs", "--size", "16", *TINY, "--runs", tmp_path, "--json")
    identity = json.loads(trained)[0]["id"]
    where, other = ("--runs", tmp_path), ("--data", folder / "pngs")
    for words in (
        ("diagnose", identity),
        ("compare", identity, identity),
        ("report", identity, "--output", tmp_path / "report.html"),
        ("prune", identity, "--keep", "1"),
    ):
        assert json.loads(output(*words, *other, "--size", "16", *where, "--json"))
    assert "Pass --size 64" in refused("diagnose", identity, *other, *where)
    assert "--size is an option of the data to open. Name them with --data" in refused(
        "diagnose", identity, "--size", "16", *where
    )
    assert "--set must be PART.OPTION=VALUE with PART data" in refused("report", identity, "--set", "net.x=1", *where)


def test_the_command_after_a_search_opens_the_same_data(folder: Path, tmp_path: Path) -> None:
    quick = ("--period", "5", "--max-periods", "1", "--seeds", "1", "--largest", "3", "--init", "2")
    words = ("fondue", folder / "images.npy", "--range", "-1,1", *TINY[:6], *quick, "--runs", tmp_path)
    *_, last = output(*words).splitlines()
    command = shlex.split(last.removeprefix("next: `").removesuffix("`"))
    assert command[:5] == ["vaescope", "fit", str(folder / "images.npy"), "--range", "-1,1"]
