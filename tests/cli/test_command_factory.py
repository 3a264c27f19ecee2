"""Models that a factory builds, named on the command line as package.module:name."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from vaescope import cli
from vaescope.models import factory_architecture

MODELS = """
from torch import nn


class MyVAE(nn.Module):
    def __init__(self, latents):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(5, 2 * latents), nn.Linear(latents, 5)

    def encode(self, x):
        return self.encoder(x).chunk(2, 1)

    def decode(self, z):
        return self.decoder(z)
"""
MODEL = ("--model", "my_models:MyVAE")
FIT = ("fit", "x.npy", *MODEL, "--latents", "3", "--batch", "16", "--device", "cpu")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with data and a module, which is imported from there."""
    np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32))
    (tmp_path / "my_models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("my_models", None)


def called(*words: str) -> str:
    result = CliRunner().invoke(cli.app, words)
    assert result.exit_code == 0, result.output
    return result.stdout


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in another process: no factory is known, and the module is not imported."""
    monkeypatch.setattr(factory_architecture, "_KNOWN", {})
    sys.modules.pop("my_models", None)


def test_a_factory_is_trained_and_named_again_to_use_its_run(
    refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (row,) = json.loads(called(*FIT, "--steps", "4", "--json"))
    run = row["id"]
    assert row["model"] == "my_models:MyVAE"
    forget(monkeypatch)
    assert "--model my_models:MyVAE" in refused("diagnose", run)
    assert "of 3 latents" in called("diagnose", run, *MODEL)
    commands = (
        ("compare", run, run),
        ("report", run, "-o", "page.html", "--no-layers"),
        ("prune", run, "--keep", "0,1"),
        ("resume", run, "--steps", "6"),
        ("fit", "x.npy", "--start", run, "--steps", "2", "--batch", "16", "--device", "cpu"),
    )
    for words in commands:
        forget(monkeypatch)
        assert called(*words, *MODEL)
    assert (tmp_path / "page.html").stat().st_size > 0


def test_the_size_of_a_factory_is_found() -> None:
    words = ("--init", "2", "--largest", "3", "--period", "4", "--max-periods", "1", "--seeds", "1", "--device", "cpu")
    found = json.loads(called("fondue", "x.npy", *MODEL, *words, "--json"))
    assert found["settings"]["factory"]["name"] == "my_models:MyVAE"


def test_a_factory_that_cannot_be_used_is_one_line(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "No module named 'nothing'" in refused("fit", "x.npy", "--model", "nothing:here")
    assert "no attribute 'Other'" in refused("fit", "x.npy", "--model", "my_models:Other")
    assert "Write --model my_models:MyVAE." in refused("fit", "x.npy", "--model", "my_models.MyVAE")
    assert "got module" in refused("fit", "x.npy", "--model", "my_models:nn")
    assert "got the factory" in refused("fondue", "x.npy", *MODEL, "--check")
    assert "--set model.a" in refused("fit", "x.npy", *MODEL, "--set", "model.a=1")
    (tmp_path / "broken.py").write_text("1 / 0")
    assert "ZeroDivisionError" in refused("fit", "x.npy", "--model", "broken:make")
    np.savez("codes.npz", mean=np.zeros((4, 2)), variance=np.ones((4, 2)))
    assert "trained with a factory, got codes.npz" in refused("diagnose", "codes.npz", *MODEL)
