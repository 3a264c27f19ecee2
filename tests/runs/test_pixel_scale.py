"""A run takes and gives pixels as its data have them: in their range, in 16 bits, and signals in their own numbers."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vaescope as vs
from vaescope.data.pixel_scale import PixelScale
from vaescope.encoding import decode, reconstruct
from vaescope.errors import DataError, PixelRangeWarning
from vaescope.runs import fit_in_memory
from vaescope.runs.exporting import export
from vaescope.runs.store import data_of
from vaescope.training import Member

IMAGES = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
RANGE = (-1.0, 1.0)
TINY: dict[str, Any] = {
    "net": {"name": "mlp", "encoder_widths": (12,), "decoder_widths": (12,)},
    "steps": 3,
    "batch": 16,
    "learning_rate": 1e-2,
    "progress": False,
}


def in_range(pixels: np.ndarray | torch.Tensor) -> Any:
    """Pixels in [0, 1] as pixels in [-1, 1]."""
    return 2 * pixels - 1


UNIT = (IMAGES / 255).astype(np.float32)[:, None]
ROWS = in_range(UNIT).astype(np.float32)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, vs.Run]:
    """Runs on the same images in [0, 1] and in [-1, 1]."""
    folder = tmp_path_factory.mktemp("runs")
    return {
        "unit": vs.fit(UNIT, 3, runs=folder, **TINY),
        "range": vs.fit(vs.open_dataset(ROWS, range=RANGE), 3, runs=folder, **TINY),
    }


def opened(run: vs.Run) -> vs.Run:
    """The run as another process opens it."""
    return vs.Run.open(run.path)


def test_the_same_images_in_another_range_are_another_run(runs: dict[str, vs.Run]) -> None:
    assert runs["unit"].id != runs["range"].id
    assert runs["unit"].record.table()["provenance"]["pixel_scale"] is None
    assert opened(runs["range"]).pixel_scale == PixelScale(*RANGE)
    different = vs.fit(vs.open_dataset(ROWS, range=(-1, 2)), 3, runs=runs["unit"].path.parent, **TINY)
    assert different.id not in {run.id for run in runs.values()}


def test_items_go_in_and_come_out_in_the_range(runs: dict[str, vs.Run]) -> None:
    """The same pixels give the same weights, codes and decoded pixels, in another range."""
    unit, run = runs["unit"], opened(runs["range"])
    expected, found = unit.encode(UNIT), run.encode(ROWS)
    torch.testing.assert_close(found.mean, expected.mean, atol=1e-6, rtol=1e-5)
    pairs = [
        (run.reconstruct(ROWS), unit.reconstruct(UNIT)),
        (run.reconstruct(ROWS[3, 0]), unit.reconstruct(UNIT[3, 0])),
        (run.sample(5), unit.sample(5)),
        (run.interpolate(ROWS[0], ROWS[1]), unit.interpolate(UNIT[0], UNIT[1])),
        (run.traverse(ROWS, [1]).usual[0].items, unit.traverse(UNIT, [1]).usual[0].items),
        (run.module(torch.from_numpy(ROWS)), unit.module(torch.from_numpy(UNIT))),
        (decode(run, found.mean), decode(unit, expected.mean)),
        (reconstruct(run, ROWS), reconstruct(unit, UNIT)),
    ]
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, in_range(theirs), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(vs.encode(run, ROWS).mean, found.mean)


def test_pixels_outside_of_the_range_are_refused(runs: dict[str, vs.Run]) -> None:
    for use in (runs["range"].encode, runs["range"].reconstruct):
        with pytest.raises(DataError, match=r"given range -1\.\.1, got -2\.\.2"):
            use(2 * ROWS)
    with pytest.raises(DataError, match=r"\[0, 1\], got -1\.\.1\. Pass range=\(-1, 1\)"):
        runs["unit"].encode(ROWS)


def test_the_distribution_of_a_module_is_in_the_range(runs: dict[str, vs.Run]) -> None:
    unit, run = runs["unit"].module, runs["range"].module
    z, x = torch.randn(6, 3), torch.from_numpy(UNIT[:6])
    ours, theirs = run.decode(z), unit.decode(z)
    torch.testing.assert_close(ours.mean, in_range(theirs.mean))
    torch.testing.assert_close(ours.variance, 4 * theirs.variance)
    noise = torch.rand(6, 1, 8, 8)
    torch.testing.assert_close(ours.sample(noise), in_range(theirs.sample(noise)))
    torch.testing.assert_close(ours.log_prob(in_range(x)), theirs.log_prob(x) - 64 * np.log(2))


def test_the_data_of_a_run_are_opened_in_its_range(runs: dict[str, vs.Run], tmp_path: Path) -> None:
    """An array or a file that is passed needs no range: the run knows it."""
    run = opened(runs["range"])
    np.save(tmp_path / "rows.npy", ROWS)
    same = (ROWS, tmp_path / "rows.npy", {"name": str(tmp_path / "rows.npy")}, vs.open_dataset(ROWS, range=RANGE))
    for data in same:
        assert data_of(run, data).fingerprint == run.configuration.data["fingerprint"]
    assert vs.diagnose(run, ROWS).types.statistics.count == 40


def test_a_path_with_a_range_is_opened_again_from_the_run(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    run = vs.fit({"name": str(tmp_path / "rows.npy"), "range": RANGE}, 2, runs=tmp_path, **TINY)
    assert run.provenance.source == {"name": str(tmp_path / "rows.npy"), "range": [-1.0, 1.0]}
    assert opened(run).encode().mean.shape == (40, 2)
    assert opened(run).reconstruct(ROWS).min() < 0


def test_a_model_in_memory_knows_the_range() -> None:
    trained = fit_in_memory(
        vs.open_dataset(ROWS, range=RANGE), Member(2), vs.runs.FitOptions(**without("learning_rate"))
    )
    assert reconstruct(trained.model, ROWS).min() < -0.05


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in TINY.items() if name not in names}


def test_a_resumed_and_a_pruned_run_keep_the_range(runs: dict[str, vs.Run]) -> None:
    longer = vs.runs.resume(runs["range"], 5, progress=False)
    smaller = vs.prune(runs["range"], ROWS, keep=[0, 2]).run
    for run in (opened(longer), opened(smaller)):
        assert run.pixel_scale == PixelScale(*RANGE)
        assert run.reconstruct(ROWS).min() < 0


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_files_of_onnx_take_and_give_the_range(runs: dict[str, vs.Run], part: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    run = runs["range"]
    export(run, tmp_path, data=ROWS, check_items=8)
    codes = run.encode(ROWS).mean.float()
    session = onnxruntime.InferenceSession(str(tmp_path / f"{part}.onnx"))
    if part == "encoder":
        (mean, _) = session.run(None, {"x": ROWS})
        np.testing.assert_allclose(mean, codes, atol=1e-5)
    else:
        (x,) = session.run(None, {"z": codes.numpy()})
        np.testing.assert_allclose(x, run.reconstruct(ROWS), atol=1e-5)


def test_a_dark_image_of_16_bits_is_read_with_the_depth_of_the_run(tmp_path: Path) -> None:
    bright = IMAGES.astype(np.uint16) * 257
    run = vs.fit(bright, 2, runs=tmp_path, **TINY)
    assert opened(run).pixel_scale == PixelScale(integer_white=65535)
    dark = np.full((2, 8, 8), 200, np.uint16)
    for wide in (dark, dark.astype(np.int64)):
        torch.testing.assert_close(run.encode(wide).mean, run.encode(dark / np.float32(65535)).mean)
    torch.testing.assert_close(run.encode(IMAGES).mean, run.encode(bright).mean)  # bytes are divided by 255
    torch.testing.assert_close(
        run.module(torch.from_numpy(dark.astype(np.int32))[:, None]), run.reconstruct(dark), atol=1e-6, rtol=1e-5
    )
    assert 0 <= run.reconstruct(bright).min() <= run.reconstruct(bright).max() <= 1


@pytest.mark.parametrize("kind", [np.uint8, np.int64])
def test_integers_of_0_and_1_in_their_range_are_black_and_white(kind: type, tmp_path: Path) -> None:
    binary = IMAGES > 127
    data = vs.open_dataset(binary.astype(kind), range=(0, 1))
    assert torch.equal(data.batch(torch.arange(4)), torch.from_numpy(binary[:4, None]).float())
    run = vs.fit(data, 2, runs=tmp_path, **TINY)
    for same in (binary.astype(np.uint8), binary.astype(np.int64), binary, binary.astype(np.float32)):
        torch.testing.assert_close(run.encode(same).mean, run.encode(binary).mean)
    batch = torch.from_numpy(binary.astype(kind))[:, None]
    torch.testing.assert_close(run.module(batch), run.reconstruct(binary), atol=1e-6, rtol=1e-5)
    with pytest.raises(DataError, match=r"must lie in 0\.\.1, got 0\.\.25"):
        run.encode(IMAGES)
    assert data.fingerprint != opened_quietly(binary.astype(kind)).fingerprint


def opened_quietly(images: np.ndarray) -> vs.Dataset:
    with pytest.warns(PixelRangeWarning, match="nearly black"):
        return vs.open_dataset(images)


def test_the_id_of_a_run_does_not_depend_on_the_record_of_the_scale(runs: dict[str, vs.Run]) -> None:
    record = runs["range"].record
    bare = dataclasses.replace(record, provenance=dataclasses.replace(record.provenance, pixel_scale=None))
    assert bare.id == record.id
    assert "pixel_scale" not in record.configuration["data"]


def test_signals_keep_their_numbers(tmp_path: Path) -> None:
    time = np.linspace(0, 9, 32)
    rows = np.stack([np.stack([30 * np.sin(time + shift), 5 + np.cos(time * shift)]) for shift in range(1, 31)])
    run = vs.fit(rows, 2, runs=tmp_path, net={"name": "conv1d", "channels": (4,), "hidden": 8}, **without("net"))
    assert run.configuration.architecture.plain()["likelihood"]["name"] == "gaussian"
    whole = run.encode(rows)
    for one in (rows[0], rows[0].T, rows[:1], np.swapaxes(rows[:1], 1, 2)):
        torch.testing.assert_close(run.encode(one).mean, whole.mean[:1])
    assert run.reconstruct(rows[:3]).shape == (3, 2, 32)
    assert run.module(torch.from_numpy(rows[:3]).float()).shape == (3, 2, 32)
    assert vs.prune(run, rows, keep=[1]).run.reconstruct(rows[:3]).shape == (3, 2, 32)
