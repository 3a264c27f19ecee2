"""Pictures in zips and folders: symmetric solids and CelebA, decoded once and kept."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vaescope.data import DATASETS
from vaescope.data.file_rows import FileRows
from vaescope.data.public import pictures
from vaescope.errors import DataError, WriteError


def picture(pixels: np.ndarray, kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind, **({"quality": 100, "subsampling": 0} if kind == "JPEG" else {}))
    return stream.getvalue()


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def unpacked(path: Path, members: dict[str, bytes]) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for name, content in members.items():
        (path / name).write_bytes(content)


SOLIDS = {
    f"{shape}_{number:05d}.png": np.full((64, 64), 40 * label + number, np.uint8)
    for label, shape in enumerate(pictures.SHAPES)
    for number in (1, 2)
}
SOLID_FILES = {name: picture(pixels) for name, pixels in SOLIDS.items()}


def test_symsol_reads_pictures_and_labels_from_the_zip(folder: Path) -> None:
    inside = {f"symsol_reduced/{name}": content for name, content in SOLID_FILES.items()}
    junk = {"symsol_reduced/": b"", "__MACOSX/symsol_reduced/._cone_00001.png": b"junk"}
    zipped(folder / "symsol_reduced" / "symsol_reduced.zip", {**inside, **junk})
    data = pictures.open_symsol()
    names = sorted(SOLIDS)
    assert (len(data), data.shape) == (10, (1, 64, 64))
    expected = torch.tensor(np.stack([SOLIDS[name] for name in names]))[:, None] / 255
    torch.testing.assert_close(data.batch(torch.arange(10)), expected)
    assert data.labels is not None
    assert [pictures.SHAPES[label] for label in data.labels] == [name.split("_")[0] for name in names]
    assert isinstance(data.items, FileRows)


def test_symsol_reads_an_unpacked_folder_too(folder: Path) -> None:
    zipped(folder / "symsol_reduced" / "symsol_reduced.zip", SOLID_FILES)
    from_zip = pictures.open_symsol()
    (folder / "symsol_reduced" / "symsol_reduced.zip").unlink()
    unpacked(folder / "symsol_reduced", SOLID_FILES)
    data = pictures.open_symsol()
    assert data.fingerprint == from_zip.fingerprint
    assert torch.equal(data.batch(torch.arange(10)), from_zip.batch(torch.arange(10)))


@pytest.mark.parametrize("name", ["sphere_1.png", "cone_cube_1.png", "00001.png"])
def test_a_file_name_without_exactly_one_shape_is_an_error(folder: Path, name: str) -> None:
    zipped(folder / "symsol_reduced.zip", {**SOLID_FILES, name: SOLID_FILES["cone_00001.png"]})
    with pytest.raises(DataError, match=f"tet, cube, icosa, cone, cyl.*got '{name}'"):
        pictures.open_symsol()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no picture", "cyl_9.png .*readable image"),
        (SOLID_FILES["cone_00001.png"][:-30], "cyl_9.png .*readable image"),
        (picture(np.zeros((32, 64), np.uint8)), "64 x 64.* cyl_9.png has 64 x 32"),
    ],
)
def test_a_wrong_picture_is_an_error_that_names_it_and_nothing_is_cached(
    folder: Path, content: bytes, words: str
) -> None:
    zipped(folder / "symsol_reduced.zip", {**SOLID_FILES, "cyl_9.png": content})
    with pytest.raises(DataError, match=words):
        pictures.open_symsol()
    assert not [path for path in (folder.parent / "cache").rglob("*") if path.is_file()]


def test_a_truncated_damaged_or_empty_zip_is_an_error(folder: Path) -> None:
    path = zipped(folder / "symsol_reduced.zip", SOLID_FILES)
    content = path.read_bytes()
    path.write_bytes(content[:-40])
    with pytest.raises(DataError, match="whole zip file"):
        pictures.open_symsol()
    path.write_bytes(content[:45] + bytes(20) + content[65:])
    with pytest.raises(DataError, match="whole picture"):
        pictures.open_symsol()
    zipped(path, {"readme.txt": b"nothing"})
    with pytest.raises(DataError, match=r"at least 2 pictures .*\.png, got 0"):
        pictures.open_symsol()


def test_decoded_pictures_are_cached_until_a_picture_changes(folder: Path) -> None:
    path = zipped(folder / "symsol_reduced.zip", SOLID_FILES)
    first = pictures.open_symsol()
    [kept] = (folder.parent / "cache").rglob("*.npy")
    written = kept.stat().st_mtime_ns
    assert pictures.open_symsol().fingerprint == first.fingerprint
    assert kept.stat().st_mtime_ns == written
    zipped(path, {**SOLID_FILES, "cone_00001.png": picture(np.zeros((64, 64), np.uint8))})
    assert pictures.open_symsol().fingerprint != first.fingerprint


def test_a_picture_cache_that_is_not_writable_is_named(folder: Path) -> None:
    zipped(folder / "symsol_reduced.zip", SOLID_FILES)
    (folder.parent / "cache").write_bytes(b"a file where the cache should be")
    with pytest.raises(WriteError, match=r"cache.*cannot be written"):
        pictures.open_symsol()


def face(number: int) -> np.ndarray:
    """178x218 with grey borders outside the central 148x148, and smooth colour inside."""
    pixels = np.zeros((218, 178, 3), np.uint8)
    pixels[35:183, 15:163] = (40 * number, 100, 255 - 40 * number)
    return pixels


FACES = {f"{number:06d}.jpg": picture(face(number), "JPEG") for number in range(1, 5)}
ROWS = {name: [1 if number % 2 else -1, -1] for number, name in enumerate(FACES)}


def attributes(rows: dict[str, list[int]], names: str = "Bald Smiling", count: int | None = None) -> str:
    lines = [f"{name} " + " ".join(f"{value:2d}" for value in values) for name, values in rows.items()]
    return "\n".join([str(len(rows) if count is None else count), names, *lines]) + "\n"


@pytest.mark.parametrize("packed", [True, False])
def test_celeba_is_cropped_to_its_centre_with_attributes_as_factors(folder: Path, packed: bool) -> None:
    if packed:
        inside = {f"img_align_celeba/{name}": content for name, content in FACES.items()}
        zipped(folder / "celeba" / "img_align_celeba.zip", inside)
    else:
        unpacked(folder / "celeba" / "img_align_celeba", FACES)
    (folder / "celeba" / "list_attr_celeba.txt").write_text(attributes(ROWS))
    data = pictures.open_celeba()
    assert (len(data), data.shape) == (4, (3, 64, 64))
    expected = torch.tensor([[40 * n, 100, 255 - 40 * n] for n in range(1, 5)])[:, :, None, None] / 255
    batch = data.batch(torch.arange(4))
    # JPEG loses a little; at the edges of the crop the dark border shines through.
    torch.testing.assert_close(batch[:, :, 4:60, 4:60], expected.expand(4, 3, 56, 56), atol=0.02, rtol=0)
    assert float(batch[:, 1].min()) > 0.2
    assert data.factor_table is not None
    assert data.factors is not None
    assert data.factor_table.names == ("Bald", "Smiling")
    assert data.factor_table.sizes == (2, 2)
    assert data.factors.tolist() == [[0, 0], [1, 0], [0, 0], [1, 0]]


def test_celeba_without_attributes_has_no_factors(folder: Path) -> None:
    unpacked(folder / "img_align_celeba", FACES)
    data = pictures.open_celeba(size=16)
    assert data.factors is None
    assert data.shape == (3, 16, 16)
    assert DATASETS["celeba"].locate() == str(folder / "img_align_celeba")


def test_size_and_crop_change_the_images(folder: Path) -> None:
    unpacked(folder / "img_align_celeba", FACES)
    assert pictures.open_celeba(size=16).shape == (3, 16, 16)
    assert pictures.open_celeba(size=32, crop=100).shape == (3, 32, 32)
    assert pictures.open_celeba(size=16).shape == (3, 16, 16)
    with pytest.raises(DataError, match=r"crop .*1\.\.178 .*178 x 218, got 200"):
        pictures.open_celeba(crop=200)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", r"\[\] and has 0 rows"),
        (attributes(ROWS, count=9), r"\['9'\] and has 4 rows"),
        (attributes(ROWS, names="Bald"), "line 3 .* 1 values"),
        (attributes({**ROWS, "000002.jpg": [0, 1]}), "line 4 .* 2 values"),
        (attributes(dict(list(ROWS.items())[:3])), "1 have none.* 000004.jpg"),
    ],
)
def test_a_wrong_table_of_attributes_is_an_error(folder: Path, text: str, words: str) -> None:
    unpacked(folder / "celeba" / "img_align_celeba", FACES)
    (folder / "celeba" / "list_attr_celeba.txt").write_text(text)
    with pytest.raises(DataError, match=words):
        pictures.open_celeba()


def test_the_size_of_chunks_changes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "CHUNK_PICTURES", 3)
    zipped(folder / "symsol_reduced.zip", SOLID_FILES)
    in_chunks = pictures.open_symsol().fingerprint
    for kept in (folder.parent / "cache").rglob("*.npy"):
        kept.unlink()
    monkeypatch.setattr(pictures, "CHUNK_PICTURES", 100)
    assert pictures.open_symsol().fingerprint == in_chunks
