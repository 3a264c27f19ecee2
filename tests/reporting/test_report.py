"""`vs.report`: what the page contains, and why parts are missing."""

from __future__ import annotations

import dataclasses
import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vaescope as vs
from vaescope.errors import ConfigurationError, WriteError
from vaescope.reporting.comparison import seed_rows

HISTORY = "history.jsonl"
NET = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}


def words(path: Path) -> str:
    """The text of the page, without scripts, styles and tags."""
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)))


def fitted(folder: Path, data: Any = "digits", **settings: Any) -> vs.Run:
    return vs.fit(data, runs=folder, **{"latents": 3, "net": NET, "steps": 30, **settings})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> vs.Run:
    return fitted(tmp_path_factory.mktemp("runs"))


def test_the_page_has_verdict_cards_latents_decoding_and_plots_in_order(run: vs.Run, tmp_path: Path) -> None:
    found = words(vs.report(run, tmp_path / "report.html"))
    lead, _, symptoms = vs.diagnose(run).headline.sentence.partition(": ")
    verdict = f"{lead}. {symptoms[:1].upper()}{symptoms[1:]}"
    assert lead == "Not trained long enough"
    parts = [
        verdict,
        "Sample from the prior",
        "Settings",
        "Findings",
        "Posterior collapse",
        "How to read this table",
        "Rate and distortion",
    ]
    places = [found.index(part, found.index(verdict)) for part in parts]
    assert places == sorted(places)


def test_no_two_elements_have_the_same_id(run: vs.Run, tmp_path: Path) -> None:
    text = vs.report(run, tmp_path / "report.html").read_text(encoding="utf-8")
    body = re.sub(r"<(script|style)>.*?</\1>", "", text, flags=re.DOTALL)
    found = re.findall(r'<[a-z][^>]* id="([^"]+)"', body)
    assert len(found) > 10
    assert len(found) == len(set(found))


def test_the_same_run_gives_the_same_page(run: vs.Run, tmp_path: Path) -> None:
    one, two = (vs.report(run, tmp_path / name) for name in ("one.html", "two.html"))
    assert one.read_bytes() == two.read_bytes()


def test_a_run_without_history_is_reported_without_it(tmp_path: Path) -> None:
    run = fitted(tmp_path)
    (run.path / HISTORY).unlink()
    found = words(vs.report(vs.Run.open(run.path), tmp_path / "report.html"))
    assert "Not included" in found
    assert f"History: {run.path.name}/{HISTORY}" in found
    assert "Rate and distortion" not in found
    assert "Sample from the prior" in found


def test_a_page_names_no_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "at home"
    folder.mkdir()
    np.save(folder / "faces.npy", np.random.default_rng(0).integers(0, 256, (50, 1, 8, 8), dtype=np.uint8))
    run = fitted(folder / "runs", str(folder / "faces.npy"))
    (run.path / HISTORY).unlink()
    text = vs.report(vs.Run.open(run.path), tmp_path / "report.html").read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    assert "<dd>faces.npy</dd>" in text
    monkeypatch.chdir(tmp_path)
    text = vs.report(vs.Run.open(run.path), tmp_path / "report.html").read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    assert "<dd>at home/faces.npy</dd>" in text


def test_a_page_says_that_it_contains_items_and_can_be_made_without_them(tmp_path: Path) -> None:
    live = fitted(tmp_path / "runs")
    frames = fitted(tmp_path / "runs", net={"name": "resnet", "width": 4}, steps=2)
    for run in (live, frames):
        path = vs.report(run, tmp_path / "report.html")
        assert "It contains items of the data and what the model decodes" in words(path)
        assert "data:image/png;base64," in path.read_text()
        bare = vs.report(run, tmp_path / "bare.html", images=False)
        assert "It contains no items of the data and no decoder." in words(bare)
        assert "left out with images=False" in words(bare)
        body = re.sub(r"<(script|style)>.*?</\1>", "", bare.read_text(), flags=re.DOTALL)
        for part in ("data:image", "<canvas", 'id="live', 'id="frames', "picture lines"):
            assert part not in body
    mean = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    codes = vs.report((mean, torch.full_like(mean, 0.1)), tmp_path / "codes.html")
    assert "It contains no items of the data and no decoder." in words(codes)


def test_codes_without_items_are_reported_without_pictures(tmp_path: Path) -> None:
    random = torch.Generator().manual_seed(0)
    mean = torch.randn(500, 4, generator=random)
    found = words(vs.report((mean, torch.full_like(mean, 0.05)), tmp_path / "report.html"))
    assert "4 of 4 latents are active" in found
    for part in ("History: these are codes", "sliders: these are codes", "Pictures: ", "Factors: "):
        assert part in found
    assert "Sample from the prior" not in found


def test_the_report_of_a_function_shows_items(tmp_path: Path) -> None:
    def encoder(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        flat = x.flatten(1)[:, 20:23] * 4
        return flat, torch.full_like(flat, 0.02)

    path = vs.report(encoder, tmp_path / "report.html", "digits")
    assert "items with the largest mean of latent 0" in path.read_text()


def test_data_without_factors_are_mentioned(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (50, 1, 8, 8), dtype=np.uint8)
    run = fitted(tmp_path, images)
    found = words(vs.report(run, tmp_path / "report.html", images))
    assert "Factors: the data have no factors" in found
    assert "Encodes" not in found


def test_a_decoder_that_is_too_large_for_the_page_has_frames(tmp_path: Path) -> None:
    run = fitted(tmp_path, net={"name": "mlp", "encoder_widths": [8], "decoder_widths": [1500, 1500]}, steps=2)
    path = vs.report(run, tmp_path / "report.html")
    found = words(path)
    assert re.search(r"frames that were decoded when this page was made\. .*characters", found)
    assert "decoded items with latent 0 from" in path.read_text()
    assert path.stat().st_size < 8e6


def test_a_search_on_the_same_data_is_in_the_verdict(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (200, 1, 8, 8), dtype=np.uint8)
    options: dict[str, Any] = {"net": NET, "runs": tmp_path, "period": 10, "max_periods": 1}
    size = vs.fondue(images, seeds=2, largest=8, init=4, **options)
    run = fitted(tmp_path, images)
    path = vs.report(run, tmp_path / "report.html", images)
    assert f"FONDUE suggests {size.latents} latents." in words(path)
    assert "Number of latents" in words(path)
    stronger = fitted(tmp_path, images, objective=vs.objectives.Beta(4.0))
    assert "FONDUE suggests" not in words(vs.report(stronger, tmp_path / "stronger.html", images))
    other = fitted(tmp_path, images[:100])
    assert "FONDUE suggests" not in words(vs.report(other, tmp_path / "other.html", images[:100]))


def test_an_elbow_check_is_drawn(tmp_path: Path) -> None:
    from vaescope.runs import FitOptions
    from vaescope.sizing import elbow

    found = elbow("digits", [1, 2, 4], 2, FitOptions(net=NET, steps=20, runs=tmp_path))
    run = vs.fit("digits", latents=2, net=NET, steps=20, runs=tmp_path)
    assert "Elbow check" in words(vs.report(run, tmp_path / "report.html"))
    assert dataclasses.replace(found) == type(found).from_plain(found.plain())


def test_a_pruned_run_has_a_report(run: vs.Run, tmp_path: Path) -> None:
    small = vs.prune(run, keep=[0, 2])
    found = words(vs.report(small.run, tmp_path / "report.html"))
    assert "2 latents:" in found
    assert "has no training history" in found


def test_several_runs_are_compared_with_intervals(tmp_path: Path) -> None:
    members = [vs.Member(2, vs.objectives.Beta(beta), 1e-3, seed) for beta in (1.0, 4.0) for seed in (0, 1, 2)]
    runs = vs.fit_many("digits", members, vs.FitOptions(net=NET, steps=20, runs=tmp_path))
    found = words(vs.report(runs, tmp_path / "report.html"))
    assert "the 6 models encode" in found
    assert "Did the models learn the same thing?" in found
    assert "beta 1 · seed 0" in found
    assert "Over seeds" in found
    assert all(run.id in found for run in runs)
    assert "test loss" not in found


def test_intervals_over_seeds_are_students() -> None:
    rows = [{"name": str(seed), "beta": 4.0, "seed": seed, "rate": value} for seed, value in enumerate((1.0, 2.0, 3.0))]
    (row,) = seed_rows([*rows, {"name": "x", "beta": 1.0, "seed": 0, "rate": 9.0}])
    # t(.975, 2) = 4.3027, and the standard error 1 / sqrt(3).
    assert row["rate"] == "2 (-0.4841 to 4.484)"
    assert row["seeds"] == 3
    assert row["beta"] == 4.0


def test_an_empty_list_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="empty list"):
        vs.report([], tmp_path / "report.html")


def test_a_missing_folder_raises_an_error(run: vs.Run, tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"missing/report.html"):
        vs.report(run, tmp_path / "missing" / "report.html")


KINDS: dict[str, dict[str, Any]] = {
    "vgon": {"model": "vgon"},
    "autoencoder": {"model": "autoencoder"},
    "conditional with its prior": {"model": "conditional", "prior": "conditional"},
    "full": {"posterior": "full"},
    "student_t": {"prior": "student_t"},
    "mixture": {"prior": "mixture"},
    "sparse and laplace": {"prior": "sparse", "likelihood": "laplace"},
    "anisotropic": {"prior": {"name": "anisotropic", "kind": "learned"}},
    "factor": {"objective": {"name": "factor"}},
    "one latent": {"latents": 1},
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_has_a_report(kind: str, tmp_path: Path) -> None:
    run = fitted(tmp_path, steps=5, **KINDS[kind])
    found = words(vs.report(run, tmp_path / "report.html", layers=False))
    assert "Copy latent values" in found
    assert ("Sample from the prior" in found) == (kind != "autoencoder")


def test_a_rare_factor_value_and_constant_codes_leave_out_a_part_of_the_page_with_the_reason(tmp_path: Path) -> None:
    mean = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    factors = torch.stack([torch.arange(60) % 3, torch.arange(60) % 2], 1)
    factors[9, 0] = 5
    codes = vs.Representation(mean, torch.full_like(mean, 0.1), mean, factors)
    found = words(vs.report(codes, tmp_path / "one.html"))
    assert "Not computed: dci: " in found
    assert "class 5 of 'factor 0' has 1" in found
    constant = vs.Representation(torch.zeros_like(mean), torch.ones_like(mean), mean, factors)
    found = words(vs.report([codes, constant], tmp_path / "two.html"))
    assert "Constant codes" in found
    assert "codes (2)" in found
    assert "cannot be compared" in words(vs.report([constant, constant], tmp_path / "three.html"))
