"""Files and folders: the data set returns what was written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vaescope.data import Dataset, open_dataset
from vaescope.data.file_rows import FileRows
from vaescope.data.images import read_image, resize
from vaescope.errors import DataError


def pixels(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def everything(dataset: Dataset) -> np.ndarray:
    return dataset.batch(torch.arange(len(dataset))).numpy()


def save(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


def test_an_npy_file_stays_on_disk(tmp_path: Path) -> None:
    rows = pixels(9, 6, 5)
    np.save(tmp_path / "rows.npy", rows)
    dataset = open_dataset(tmp_path / "rows.npy", labels=range(9))
    assert isinstance(dataset.items, FileRows)
    np.testing.assert_allclose(everything(dataset)[:, 0], rows / 255, atol=1e-7)
    assert dataset.labels.tolist() == list(range(9))


def test_a_fortran_ordered_npy_file_is_read_by_rows(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).random((9, 6))
    np.save(tmp_path / "rows.npy", np.asfortranarray(rows))
    np.testing.assert_allclose(everything(open_dataset(str(tmp_path / "rows.npy"))), rows, rtol=1e-7)


@pytest.mark.parametrize("key", ["images", "imgs", "x", "data", "arr_0", "anything"])
def test_an_npz_file_gives_its_data_labels_and_factors(tmp_path: Path, key: str) -> None:
    rows, labels, factors = pixels(6, 4, 4), np.arange(6), np.arange(12).reshape(6, 2) % 3
    np.savez(tmp_path / "set.npz", y=labels, latents_classes=factors, **{key: rows})
    dataset = open_dataset(tmp_path / "set.npz", factor_names=("first", "second"))
    np.testing.assert_allclose(everything(dataset)[:, 0], rows / 255, atol=1e-7)
    np.testing.assert_array_equal(dataset.labels, labels)
    np.testing.assert_array_equal(dataset.factors, factors)
    assert dataset.factor_table.names == ("first", "second")


def test_a_usual_key_is_preferred_and_pickled_arrays_are_not_read(tmp_path: Path) -> None:
    rows = pixels(6, 4, 4)
    np.savez(tmp_path / "set.npz", imgs=rows, latents_values=np.ones(6), metadata=np.array([{}], object))
    np.testing.assert_allclose(everything(open_dataset(tmp_path / "set.npz"))[:, 0], rows / 255, atol=1e-7)


def test_keys_of_an_npz_file_can_be_chosen_or_disabled(tmp_path: Path) -> None:
    train, test = np.random.default_rng(0).random((2, 6, 3))
    np.savez(tmp_path / "set.npz", x_train=train, x_test=test, y_test=np.arange(6), y=np.full(6, 0.5))
    dataset = open_dataset(tmp_path / "set.npz", key="x_test", labels="y_test")
    np.testing.assert_allclose(everything(dataset), test, rtol=1e-7)
    assert dataset.labels.tolist() == list(range(6))
    assert open_dataset(tmp_path / "set.npz", key="x_train", labels=False).labels is None


def test_a_folder_is_read_by_name_whatever_the_case_of_the_suffix(tmp_path: Path) -> None:
    rows = pixels(3, 5, 4)
    for name, row in zip(("b.PNG", "c.png", "a.Png"), rows, strict=True):
        save(tmp_path / name, row)
    (tmp_path / "notes.txt").write_text("not an image")
    (tmp_path / ".hidden.png").write_text("not an image")
    dataset = open_dataset(tmp_path)
    assert dataset.shape == (1, 5, 4)
    assert dataset.labels is None
    np.testing.assert_allclose(everything(dataset)[:, 0], rows[[2, 0, 1]] / 255, atol=1e-7)


def test_one_colour_image_makes_a_folder_colour_unless_grey_is_requested(tmp_path: Path) -> None:
    grey, colour = pixels(5, 4), pixels(5, 4, 3)
    save(tmp_path / "a.png", grey)
    save(tmp_path / "b.png", colour)
    values = everything(open_dataset(tmp_path))
    np.testing.assert_allclose(values[0], np.broadcast_to(grey / 255, (3, 5, 4)), atol=1e-7)
    np.testing.assert_allclose(values[1], np.moveaxis(colour, -1, 0) / 255, atol=1e-7)
    assert open_dataset(tmp_path, colour=False).shape == (1, 5, 4)


def test_subfolders_are_classes_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("dog/2.png", "cat/1.png", "cat/3.png", "ant/9.png"):
        save(tmp_path / name, pixels(5, 4, seed=len(name) + ord(name[4])))
    (tmp_path / "empty").mkdir()
    assert open_dataset(tmp_path).labels.tolist() == [0, 1, 1, 2]


def test_jpeg_images_of_any_size_are_resized(tmp_path: Path) -> None:
    for number, side in enumerate((8, 16, 24)):
        save(tmp_path / f"{number}.jpeg", np.full((side, 2 * side, 3), 80 * number, np.uint8))
    dataset = open_dataset(tmp_path, size=(4, 6))
    assert dataset.shape == (3, 4, 6)
    np.testing.assert_allclose(everything(dataset).mean((1, 2, 3)), np.array([0, 80, 160]) / 255, atol=0.02)


def test_threads_keep_the_order_of_a_large_folder(tmp_path: Path) -> None:
    for number in range(120):
        save(tmp_path / f"{number:03}.png", np.full((2, 2), number, np.uint8))
    np.testing.assert_allclose(everything(open_dataset(tmp_path))[:, 0, 0, 0], np.arange(120) / 255, atol=1e-7)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("header", ["", "one{0}two{0}three\n"], ids=["bare", "header"])
def test_a_table_is_read_with_any_separator_and_with_or_without_header(
    tmp_path: Path, separator: str, header: str
) -> None:
    rows = np.random.default_rng(0).normal(size=(5, 3))
    lines = [separator.join(map(repr, row)) for row in rows.tolist()]
    text = header.format(separator) + "\n".join(lines[:2]) + "\n\n" + "\r\n".join(lines[2:]) + "\n"
    (tmp_path / "table.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    np.testing.assert_allclose(everything(open_dataset(tmp_path / "table.csv")), rows, rtol=1e-6)


@pytest.mark.parametrize("label", ["kind", 2, "2"])
def test_a_label_column_is_chosen_by_name_or_number(tmp_path: Path, label: str | int) -> None:
    (tmp_path / "table.csv").write_text("x,kind,y\n1,3,0.5\n2,0,1.5\n3,3,2.5\n")
    dataset = open_dataset(tmp_path / "table.csv", label=label)
    np.testing.assert_array_equal(everything(dataset), [[1, 0.5], [2, 1.5], [3, 2.5]])
    assert dataset.labels.tolist() == [3, 0, 3]


def test_labels_in_words_are_numbered_alphabetically(tmp_path: Path) -> None:
    (tmp_path / "table.tsv").write_text('1\t2\tvirginica\n3\t4\t"setosa"\n5\t6\tvirginica\n')
    assert open_dataset(tmp_path / "table.tsv", label=3).labels.tolist() == [1, 0, 1]


def test_a_first_line_of_consecutive_numbers_is_ambiguous_and_an_error(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("0,1\n5,6\n7,8\n")
    with pytest.raises(DataError, match=r"line 1 counts from 0 to 1.*header=True"):
        open_dataset(tmp_path / "table.csv")
    assert len(open_dataset(tmp_path / "table.csv", header=False)) == 3
    assert len(open_dataset(tmp_path / "table.csv", header=True)) == 2


def test_downsizing_averages_pixels() -> None:
    board = (np.indices((32, 32)).sum(0) % 2 * 255).astype(np.uint8)[None, None]
    small = resize(board, 8)
    assert small.shape == (1, 1, 8, 8)
    assert 120 < small.min() <= small.max() < 136


def test_resizing_to_the_same_size_changes_nothing_and_a_size_is_height_then_width() -> None:
    rows = pixels(2, 3, 6, 4)
    np.testing.assert_array_equal(resize(rows, (6, 4)), rows)
    assert resize(rows, (3, 9)).shape == (2, 3, 3, 9)


def test_sixteen_bit_images_keep_their_upper_eight_bits(tmp_path: Path) -> None:
    deep = np.random.default_rng(0).integers(0, 2**16, (5, 4)).astype(np.uint16)
    save(tmp_path / "deep.png", deep)
    np.testing.assert_array_equal(read_image(tmp_path / "deep.png", colour=False)[0], deep >> 8)


def test_transparent_pixels_are_black(tmp_path: Path) -> None:
    image = np.full((2, 2, 4), 200, np.uint8)
    image[:, :, 3] = [[255, 0], [0, 255]]
    save(tmp_path / "clear.png", image)
    np.testing.assert_array_equal(read_image(tmp_path / "clear.png", colour=True)[0], [[200, 0], [0, 200]])


def test_two_photographs_in_one_file_are_the_first_of_them(tmp_path: Path) -> None:
    first, second = (Image.new("L", (8, 6), level) for level in (200, 10))
    first.save(tmp_path / "a.jpg", format="MPO", save_all=True, append_images=[second])
    assert read_image(tmp_path / "a.jpg", colour=False).tolist() == [[[200] * 8] * 6]


def test_a_file_that_is_no_image_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("no image")
    with pytest.raises(DataError, match=r"reading it failed: cannot identify image file .*a\.png"):
        open_dataset(tmp_path)


def test_a_photograph_is_rotated_by_its_exif_orientation(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    for name in ("a", "b"):
        Image.fromarray(pixels(8, 16, seed=ord(name))).save(tmp_path / f"{name}.jpg", exif=exif)
    assert open_dataset(tmp_path).shape == (1, 16, 8)
