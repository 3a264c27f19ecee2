"""The published dSprites file, in small files in its format."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

from vaescope.data.dataset import Factors
from vaescope.data.dsprites import NAMES
from vaescope.data.public import objects
from vaescope.errors import DataError

SIZES = (1, 3, 2, 2, 2, 2)
DSPRITES = dataclasses.replace(objects.DSPRITES, files=(dataclasses.replace(objects.DSPRITES.files[0], checksum=""),))


def sprites() -> dict[str, np.ndarray]:
    table = Factors(NAMES, SIZES)
    classes = table.codes(torch.arange(table.cells)).numpy()
    images = np.random.default_rng(0).integers(0, 2, (table.cells, 8, 8), np.uint8)
    return {"imgs": images, "latents_values": classes.astype(np.float64), "latents_classes": classes}


def write_sprites(folder: Path, arrays: dict[str, np.ndarray]) -> Path:
    path = folder / "dsprites-file" / objects.DSPRITES_FILE
    path.parent.mkdir(exist_ok=True)
    # The published file carries pickled metadata, which must be left unread.
    np.savez_compressed(path, metadata=np.array({"pickled": True}, dtype=object), **arrays)
    return path


def test_dsprites_is_a_grid_of_binary_images(folder: Path) -> None:
    arrays = sprites()
    write_sprites(folder, arrays)
    data = objects.open_dsprites(DSPRITES)
    assert (len(data), data.shape, data.grid) == (48, (1, 8, 8), True)
    assert data.factor_table == Factors(NAMES, SIZES)
    everything = torch.arange(48)
    assert torch.equal(data.batch(everything), torch.tensor(arrays["imgs"][:, None]).float())
    assert data.factors is not None
    assert torch.equal(data.factors.long(), data.factor_table.codes(everything))
    _, held_out = data.split(0.25)
    assert held_out.factors is not None
    assert torch.equal(data.factor_table.index(held_out.factors), held_out.index)
    assert data.to("cpu").grid


def test_a_part_of_dsprites_has_factors_but_is_not_a_grid(folder: Path) -> None:
    write_sprites(folder, {key: array[::-1] for key, array in sprites().items()})
    turned = objects.open_dsprites(DSPRITES)
    assert not turned.grid
    assert turned.factors is not None
    assert turned.factors[0].tolist() == [size - 1 for size in SIZES]
    write_sprites(folder, {key: array[:20] for key, array in sprites().items()})
    assert not objects.open_dsprites(DSPRITES).grid


def test_the_fingerprint_of_dsprites_is_that_of_its_file(folder: Path) -> None:
    arrays = sprites()
    write_sprites(folder, arrays)
    before = objects.open_dsprites(DSPRITES).fingerprint
    arrays["imgs"][0, 0, 0] ^= 1
    write_sprites(folder, arrays)
    assert objects.open_dsprites(DSPRITES).fingerprint != before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"imgs": None}, "imgs is missing"),
        ({"latents_classes": None}, "latents_classes is missing"),
        ({"imgs": np.zeros((48, 8, 8))}, "imgs must be uint8"),
        ({"imgs": np.zeros((48, 64), np.uint8)}, "imgs must be uint8"),
        ({"imgs": np.full((48, 8, 8), 255, np.uint8)}, "0 or 1, .* 255"),
        ({"imgs": np.zeros((48, 8, 8), np.uint8)}, r"0 or 1, .* 0\.$"),
        ({"latents_classes": np.zeros((47, 6), np.int64)}, r"latents_classes .*\(48, 6\)"),
        ({"latents_values": np.zeros((48, 5))}, r"latents_values .*\(48, 6\)"),
        ({"latents_classes": np.full((48, 6), -1)}, "integers from 0, got int64 from -1"),
        ({"latents_classes": np.zeros((48, 6))}, "integers from 0, got float64"),
    ],
)
def test_a_wrong_array_in_the_dsprites_file_is_an_error(
    folder: Path, change: dict[str, np.ndarray | None], words: str
) -> None:
    arrays = {key: array for key, array in {**sprites(), **change}.items() if array is not None}
    write_sprites(folder, arrays)
    with pytest.raises(DataError, match=words):
        objects.open_dsprites(DSPRITES)


def test_a_truncated_or_damaged_dsprites_file_is_an_error(folder: Path) -> None:
    path = write_sprites(folder, sprites())
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match="archive"):
        objects.open_dsprites(DSPRITES)
    start = content.index(b"imgs.npy") + 60
    path.write_bytes(content[:start] + bytes(50) + content[start + 50 :])
    with pytest.raises(DataError, match="archive"):
        objects.open_dsprites(DSPRITES)
    with pytest.raises(DataError, match="checksum md5:"):
        objects.open_dsprites()
