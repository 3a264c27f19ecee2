"""Procedural dSprites and its paints against their specification and an independent rendering."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from vaescope.data.dataset import Dataset
from vaescope.data.dsprites import (
    CHANNEL_BITS,
    ENTRIES,
    open_color,
    open_dsprites,
    open_noisy,
    open_scream,
    open_small,
    open_upright,
)
from vaescope.errors import ConfigurationError, DataError

PUBLISHED_NAMES = ("color", "shape", "scale", "orientation", "position x", "position y")
PUBLISHED_SIZES = (1, 3, 6, 40, 32, 32)
SQUARE, ELLIPSE, HEART = range(3)

Render = Callable[[Sequence[tuple[int, ...]]], torch.Tensor]


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (90, 130, 3), dtype=np.uint8)
    path = tmp_path / "picture.png"
    Image.fromarray(pixels).save(path)
    return path


def items(dataset: Dataset, count: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, len(dataset), (count,), generator=torch.Generator().manual_seed(seed))


def tensors_in(thing: object) -> list[torch.Tensor]:
    if isinstance(thing, torch.Tensor):
        return [thing]
    return [tensor for value in getattr(thing, "__dict__", {}).values() for tensor in tensors_in(value)]


def test_the_grid_is_the_published_one(full: Dataset) -> None:
    assert full.factor_table is not None
    assert full.factor_table.names == PUBLISHED_NAMES
    assert full.factor_table.sizes == PUBLISHED_SIZES
    assert len(full) == 737_280
    assert full.grid
    assert full.shape == (1, 64, 64)


def test_index_and_codes_agree_with_numpy(full: Dataset) -> None:
    index = items(full, 5000)
    expected = np.stack(np.unravel_index(index.numpy(), PUBLISHED_SIZES), axis=1)
    assert full.factors is not None
    np.testing.assert_array_equal(full.factors[index].numpy(), expected)


def test_images_are_binary_float32(full: Dataset) -> None:
    images = full.batch(items(full, 200))
    assert images.dtype == torch.float32
    assert images.shape == (200, 1, 64, 64)
    assert set(images.unique().tolist()) == {0.0, 1.0}


def test_the_mean_pixel_is_the_measured_one(full: Dataset) -> None:
    total = sum(float(full.batch(chunk).mean()) for chunk in items(full, 10_000).split(500))
    assert total / 20 == pytest.approx(0.0423, abs=0.0006)


def test_position_x_moves_the_column_and_position_y_the_row(render: Render) -> None:
    images = render([(0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 31, 0), (0, 0, 0, 0, 0, 31)])
    torch.testing.assert_close(images[1], images[0].roll(32, dims=1))
    torch.testing.assert_close(images[2], images[0].roll(32, dims=0))


def test_larger_scales_cover_more(render: Render) -> None:
    for shape in (SQUARE, ELLIPSE, HEART):
        areas = render([(0, shape, scale, 7, 9, 20) for scale in range(6)]).sum((1, 2))
        assert bool((areas.diff() > 0).all())


def signed_crossings(u: np.ndarray, v: np.ndarray, polygon: np.ndarray) -> np.ndarray:
    """The winding number of a closed polygon around each point, from the crossings of a ray along u."""
    winding = np.zeros_like(u)
    for (u1, v1), (u2, v2) in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        side = (u2 - u1) * (v - v1) - (u - u1) * (v2 - v1)
        winding += ((v1 <= v) & (v2 > v) & (side > 0)).astype(float)
        winding -= ((v2 <= v) & (v1 > v) & (side < 0)).astype(float)
    return winding


def literal_image(shape: int, scale: int, orientation: int, x: int, y: int) -> np.ndarray:
    """An image computed from the definition: all 4,096 pixels, the heart as a fine polygon."""
    angle = np.linspace(0, 2 * np.pi, 40)[orientation]
    centre = 15.5 + 32 * np.linspace(0, 1, 32)
    row, column = np.mgrid[:64, :64].astype(float)
    dx, dy = column - centre[x], row - centre[y]
    u, v = np.cos(angle) * dx + np.sin(angle) * dy, np.cos(angle) * dy - np.sin(angle) * dx
    u, v = u / np.linspace(0.5, 1, 6)[scale], v / np.linspace(0.5, 1, 6)[scale]
    if shape == SQUARE:
        return (abs(u) <= 9.598) & (abs(v) <= 9.598)
    if shape == ELLIPSE:
        return (u / 12.75) ** 2 + (v / 7.225) ** 2 <= 1
    t = np.linspace(0, 2 * np.pi, 1500, endpoint=False)
    curve = 13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)
    return signed_crossings(u, v, np.stack([0.5995 * 16 * np.sin(t) ** 3, -0.6615 * curve - 1.438], axis=1)) != 0


@pytest.mark.parametrize(("shape", "count"), [(SQUARE, 300), (ELLIPSE, 300), (HEART, 8)])
def test_images_equal_a_literal_rendering(render: Render, shape: int, count: int) -> None:
    draw = np.random.default_rng(shape).integers(0, (6, 40, 32, 32), (count, 4))
    draw[0] = (5, 4, 0, 0)
    draw[1] = (5, 35, 31, 31)
    codes = [(0, shape, *map(int, row)) for row in draw]
    images = render(codes).bool().numpy()
    expected = np.stack([literal_image(*code[1:]) for code in codes])
    # The polygon cuts corners of the curve by about 1e-5 pixels; few pixel centres are that close.
    assert (images != expected).sum() <= (1 if shape == HEART else 0)


def test_the_last_orientation_is_the_first(render: Render) -> None:
    codes = [(0, shape, scale, 0, 11, 23) for shape in range(3) for scale in range(6)]
    turned = [(*code[:3], 39, *code[4:]) for code in codes]
    torch.testing.assert_close(render(codes), render(turned), rtol=0, atol=0)


def test_the_small_set_is_part_of_the_full_one_and_has_no_duplicates(full: Dataset) -> None:
    small = open_small()
    images = torch.cat(list(small.chunks(512)))
    assert small.factor_table is not None
    assert small.factor_table.names == PUBLISHED_NAMES
    assert small.factor_table.sizes == (1, 3, 3, 13, 6, 6)
    assert len(images) == len(small) == 4_212
    assert len(np.unique(np.packbits(images.flatten(1).bool().numpy(), axis=1), axis=0)) == 4_212
    index = items(small, 100)
    codes = small.factor_table.codes(index)
    published = torch.stack([codes[:, 0], codes[:, 1], 2 * codes[:, 2] + 1, 3 * codes[:, 3], *(6 * codes[:, 4:]).T])
    assert full.factor_table is not None
    torch.testing.assert_close(images[index], full.batch(full.factor_table.index(published.T)), rtol=0, atol=0)


def test_only_small_tables_are_stored(full: Dataset) -> None:
    held = tensors_in(full)
    assert held
    assert sum(tensor.nbytes for tensor in held) < 100_000


@pytest.mark.parametrize("opened", [open_dsprites, open_small, open_color, open_noisy])
def test_rendering_stays_on_the_device_and_reads_no_value_back(opened: Callable[[], Dataset]) -> None:
    dataset = opened().to("meta")
    index = torch.empty(16, dtype=torch.int64, device="meta")
    assert {tensor.device.type for tensor in tensors_in(dataset)} == {"meta"}
    assert dataset.batch(index).shape == (16, *dataset.shape)


def test_an_index_outside_the_set_is_an_error(full: Dataset) -> None:
    with pytest.raises(IndexError):
        full.batch(torch.tensor([len(full)]))


@pytest.mark.parametrize("opened", [open_dsprites, open_small, open_color, open_noisy])
def test_an_item_does_not_depend_on_its_batch(opened: Callable[[], Dataset]) -> None:
    dataset = opened()
    index = items(dataset, 20)
    together = dataset.batch(index)
    alone = torch.cat([dataset.batch(index[i : i + 1]) for i in range(20)])
    torch.testing.assert_close(together, alone, rtol=0, atol=0)
    torch.testing.assert_close(together.flip(0), opened().batch(index.flip(0)), rtol=0, atol=0)


def test_colours_lie_between_one_half_and_one_and_differ(full: Dataset) -> None:
    dataset = open_color()
    index = items(dataset, 300).unique()
    images, sprites = dataset.batch(index), full.batch(index)
    colours = images.amax((2, 3))
    torch.testing.assert_close(images, sprites * colours[:, :, None, None], rtol=0, atol=0)
    assert images.dtype == torch.float32
    assert float(colours.min()) >= 0.5
    assert float(colours.max()) <= 1
    assert float(colours.mean()) == pytest.approx(0.75, abs=0.02)
    assert len(colours.unique(dim=0)) == len(index)


def test_noise_divided_in_float64_has_the_bits_of_a_float32_division() -> None:
    values = torch.arange(2**CHANNEL_BITS)
    largest = 2**CHANNEL_BITS - 1
    assert torch.equal((values.double() / largest).float(), values.float() / largest)


def test_noise_is_uniform_around_white_sprites(full: Dataset) -> None:
    dataset = open_noisy()
    index = items(dataset, 60)
    images, sprites = dataset.batch(index), full.batch(index).bool().expand(-1, 3, -1, -1)
    assert images.dtype == torch.float32
    assert bool((images[sprites] == 1).all())
    noise = images[~sprites]
    histogram = torch.histc(noise, bins=10, min=0, max=1) / len(noise)
    torch.testing.assert_close(histogram, torch.full((10,), 0.1), rtol=0, atol=0.003)
    outside = ~sprites[:, 0]
    channels = torch.stack([images[:, channel][outside] for channel in range(3)])
    torch.testing.assert_close(torch.corrcoef(channels), torch.eye(3), rtol=0, atol=0.01)


def test_another_seed_paints_other_images_and_changes_the_fingerprint() -> None:
    index = torch.arange(4)
    for opened in (open_color, open_noisy):
        assert not torch.equal(opened(seed=0).batch(index), opened(seed=1).batch(index))
        assert opened(seed=0).fingerprint == opened().fingerprint
        assert opened(seed=0).fingerprint != opened(seed=1).fingerprint


def test_scream_is_a_patch_mixed_with_a_colour_and_inverted_on_the_sprite(full: Dataset, picture: Path) -> None:
    dataset = open_scream(background=picture)
    index = items(dataset, 6)
    images, sprites = dataset.batch(index), full.batch(index).bool()
    mixed = torch.where(sprites, 1 - images, images)
    whole = torch.from_numpy(np.array(Image.open(picture))).permute(2, 0, 1).float() / 255
    patches = whole.unfold(1, 64, 1).unfold(2, 64, 1).flatten(1, 2).transpose(0, 1)
    for image in mixed:
        colour = 2 * image - patches
        spread = colour.amax((2, 3)) - colour.amin((2, 3))
        found = int(spread.amax(1).argmin())
        assert float(spread[found].max()) < 1e-5
        assert float(colour[found].min()) >= -1e-6
        assert float(colour[found].max()) <= 1 + 1e-6


def test_scream_fingerprint_follows_the_content_of_the_background(picture: Path, tmp_path: Path) -> None:
    before = open_scream(background=picture).fingerprint
    moved = picture.rename(tmp_path / "moved.png")
    assert open_scream(background=str(moved)).fingerprint == before
    Image.new("RGB", (90, 90), (1, 2, 3)).save(moved)
    assert open_scream(background=moved).fingerprint != before


def test_scream_without_a_background_says_which_option_is_missing() -> None:
    with pytest.raises(DataError, match="background=PATH"):
        open_scream()


def test_a_missing_background_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere\.png"):
        open_scream(background=tmp_path / "nowhere.png")


def test_a_background_that_is_not_an_image_is_named(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a picture")
    with pytest.raises(DataError, match=r"notes\.txt"):
        open_scream(background=path)


def test_a_truncated_background_is_named(picture: Path) -> None:
    picture.write_bytes(picture.read_bytes()[:2000])
    with pytest.raises(DataError, match=r"picture\.png"):
        open_scream(background=picture)


def test_a_background_smaller_than_an_image_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "thin.png"
    Image.new("RGB", (3500, 200)).save(path)
    with pytest.raises(DataError, match="350 x 20"):
        open_scream(background=path)


@pytest.mark.parametrize("seed", [-1, 0.5, "1", True])
def test_a_seed_that_is_not_a_whole_number_is_refused(seed: Any) -> None:
    with pytest.raises(ConfigurationError, match="seed"):
        open_color(seed=seed)


def test_upright_sprites_differ_in_all_factors_but_the_orientation() -> None:
    dataset = open_upright()
    assert dataset.factor_table.sizes == (1, 3, 6, 1, 32, 8)
    images = dataset.batch(torch.arange(len(dataset))).flatten(1)
    assert len(torch.unique(images, dim=0)) == len(dataset) == 4608


def test_the_entries_describe_what_they_open(picture: Path) -> None:
    names = [entry.name for entry in ENTRIES]
    assert names == [f"dsprites{variant}" for variant in ("", "-small", "-upright", "-color", "-noisy", "-scream")]
    prints = set()
    for entry in ENTRIES:
        dataset = entry.open(background=picture) if entry.name == "dsprites-scream" else entry.open()
        assert dataset.factor_table is not None
        assert (dataset.name, len(dataset), dataset.shape) == (entry.name, entry.items, entry.shape)
        assert dataset.factor_table.names == entry.factors
        assert dataset.batch(torch.tensor([0])).shape == (1, *entry.shape)
        prints.add(dataset.fingerprint)
    assert len(prints) == len(ENTRIES)
