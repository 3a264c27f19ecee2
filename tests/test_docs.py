"""The examples in the documentation run as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import vaescope as vs
from vaescope.likelihoods import LIKELIHOODS
from vaescope.metrics import METRICS
from vaescope.models import MODELS
from vaescope.nets import NETS
from vaescope.objectives import OBJECTIVES
from vaescope.priors import PRIORS
from vaescope.runs import TRACKERS

DOCS = Path(__file__).parent.parent / "docs"


def python_blocks(page: str) -> list[str]:
    """The Python examples of a page."""
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)


BLOCKS = python_blocks("extend.md")


@pytest.fixture(autouse=True)
def _unregister_afterwards() -> Iterator[None]:
    registries = (LIKELIHOODS, MODELS, NETS, OBJECTIVES, PRIORS, METRICS, TRACKERS)
    before = [set(registry) for registry in registries]
    yield
    for registry, names in zip(registries, before, strict=True):
        for name in set(registry) - names:
            registry.unregister(name)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_an_example_of_a_part_works_as_shown(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(BLOCKS[number], f"extend.md, block {number}", "exec", dont_inherit=True), {"__name__": __name__})
    assert capsys.readouterr().out.strip()


def test_the_document_has_an_example_of_every_part_and_of_a_gap() -> None:
    registered = set(re.findall(r"@([A-Z]+)\.register", "\n".join(BLOCKS)))
    assert registered >= {"LIKELIHOODS", "METRICS", "MODELS", "NETS", "OBJECTIVES", "PRIORS", "TRACKERS"}
    assert any("gap=" in block for block in BLOCKS)


def test_the_page_about_your_own_architecture_works_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": __name__}
    for block in python_blocks("your-architecture.md"):
        exec(compile(block, "your-architecture.md", "exec", dont_inherit=True), names)
    size, types, own_loop, _, continued = capsys.readouterr().out.splitlines()
    assert "latents for digits" in size
    assert re.search(r"\d+ of \d+ latents are active", types)
    assert "latents for digits" in own_loop
    assert len(continued.split()) == 2


def test_the_page_about_your_own_models_works_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": __name__}
    # The page shows the result before the model.
    for block in sorted(python_blocks("your-model.md"), key=lambda block: "class MyVAE" not in block):
        exec(compile(block, "your-model.md", "exec", dont_inherit=True), names)
    first, again, types, groups, smaller = capsys.readouterr().out.splitlines()
    assert re.search(r"^\d+ of 16 latents are active, \d+ mixed, and \d+ passive; the passive latents can be", first)
    # The same posterior, given by a function.
    assert again == first
    assert first.startswith(types)
    assert groups.startswith("top: ")
    assert "bottom: " in groups
    assert re.search(r"^\d+ of the 16 latents of MyVAE are kept\. Over 1,797 items", smaller)
    assert (tmp_path / "report.html").stat().st_size > 0


def test_the_page_about_counts_works_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("anndata")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": __name__}
    for block in python_blocks("counts.md"):
        exec(compile(block, "counts.md", "exec", dont_inherit=True), names)
    size, verdict, cells = capsys.readouterr().out.splitlines()
    assert re.match(r"[345] latents for synthetic-counts", size)
    assert "latents are active" in verdict
    assert "items=100, shape=(30,), factors=('batch',)" in cells
    assert "('B cell', 'T cell')" in cells


def test_the_page_about_your_own_data_works_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache")
    names: dict[str, object] = {"__name__": __name__}
    text = (DOCS / "your-data.md").read_text(encoding="utf-8")
    for kind, block in re.findall(r"```(python|text)\n(.*?)```", text, re.DOTALL):
        if kind == "text":
            assert capsys.readouterr().out == block
        else:
            capsys.readouterr()
            exec(compile(block, "your-data.md", "exec", dont_inherit=True), names)


@pytest.mark.parametrize("page", ["images-and-signals.md", "scale-and-missing-values.md"])
def test_the_examples_of_other_pages_about_data_work(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    images = np.random.default_rng(0).uniform(-1, 1, (40, 16, 16))
    names: dict[str, object] = {"vs": vs, "images": images}
    blocks = python_blocks(page)
    assert blocks
    for block in blocks:
        quick = block.replace("latents=10)", "latents=2, steps=2)").replace("steps=1000", "steps=20")
        exec(compile(quick, page, "exec", dont_inherit=True), names)


QUICK_RUN = {"latents": 3, "net": {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}, "steps": 20}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> vs.Run:
    monkeypatch.chdir(tmp_path)
    return vs.fit("digits", **QUICK_RUN)


class TinyVAE(nn.Module):
    """What a reader of the README may have."""

    def __init__(self, latents: int = 4) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(64, 2 * latents), nn.Linear(latents, 64)

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.encoder(x.flatten(1)).chunk(2, 1)
        return mean, log_variance

    def decode(self, z: Tensor) -> Tensor:
        return self.decoder(z).unflatten(1, (1, 8, 8))


def encoder(batch: Tensor) -> tuple[Tensor, Tensor]:
    """Three latents that encode the brightness."""
    return batch.flatten(1).mean(1, keepdim=True).expand(-1, 3), torch.full((len(batch), 3), 0.5)


# Page -> what its settings become, so that its examples take seconds, and what they need.
QUICK = {
    "README.md": {
        "model=MyVAE)  #": "model=MyVAE, period=20, max_periods=1, seeds=1, init=2, largest=4)  #",
        "model=MyVAE)\n": "model=MyVAE, steps=5)\n",
    },
    "runs.md": {
        '"3f2a"': "run.id",
        "steps=4000": "steps=30",
        "steps=500": "steps=5",
        '"dsprites-small"': '"digits", steps=5',
        'tracker="tensorboard"': "progress=False",
        '"dsprites", members, vs.FitOptions(precision="bfloat16")': '"digits", members[:2], vs.FitOptions(steps=5)',
    },
    "report.md": {},
    "metrics.md": {"half_samples=20": "half_samples=2"},
    "integrations.md": {"steps=1000": "steps=20"},
}


@pytest.mark.parametrize("page", QUICK)
def test_the_examples_of_a_page_run_with_quick_settings(page: str, run: vs.Run) -> None:
    images = load_digits()
    data = vs.open_dataset("digits")
    few = vs.open_dataset(
        images.images[:300].astype("float32") / 16, factors=np.stack([images.target, images.target % 2], 1)[:300]
    )
    mean, variance = np.random.default_rng(0).normal(size=(50, 3)), np.full((50, 3), 0.5)
    first = images.images.astype("float32")[:, None] / 16
    names: dict[str, object] = {
        **{"vs": vs, "run": run, "other": run, "third": run, "model": TinyVAE(), "MyVAE": TinyVAE, "encoder": encoder},
        **{"mean": mean, "variance": variance, "image": first[0], "images": first[:4], "x": first[:100]},
        **{"data": few if page == "metrics.md" else data, "X": images.data, "y": images.target},
    }
    text = (DOCS.parent if page == "README.md" else DOCS).joinpath(page).read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        for usual, quick in QUICK[page].items():
            block = block.replace(usual, quick)
        if "other)" in block and "interpolate" in block:
            names["other"] = first[1]
        exec(compile(block, page, "exec", dont_inherit=True), names)
        names["other"] = run
