"""One table of the ways to hand over data: what arrives (items, shape, values, labels, factors), or the error."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse
import torch
from PIL import Image

import vaescope as vs
from vaescope.errors import PixelRangeWarning, VaescopeError

N = 12
DRAW = np.random.default_rng(0)
VECTORS = DRAW.normal(size=(N, 5))
BYTES = DRAW.integers(0, 256, (N, 16, 16), dtype=np.uint8)
BYTES[0, 0, :2] = 0, 255
FLOATS = BYTES / 255
COLOUR = DRAW.integers(0, 256, (N, 16, 16, 3), dtype=np.uint8)
COUNTS = DRAW.poisson(1.0, (N, 7))
WORDS = ["cat", "dog", "emu"] * 4
CLASSES = [0, 1, 2] * 4
NAMES = ("cat", "dog", "emu")

Source = Callable[[Path], object]


@dataclass(frozen=True)
class Arrives:
    """What a data set has; None for what a case does not check."""

    shape: tuple[int, ...]
    low: float | None = None
    high: float | None = None
    classes: list[int] | None = None
    names: tuple[str, ...] | None = None
    factors: tuple[str, ...] | None = None
    items: int = N


UNIT = {"low": 0.0, "high": 1.0}


def file(name: str, write: Callable[[Path], object]) -> Source:
    """A source that is a file, written into a new folder."""

    def source(folder: Path) -> Path:
        write(folder / name)
        return folder / name

    return source


def given(value: object) -> Source:
    return lambda folder: value


def save_png(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def png(pixels: np.ndarray) -> bytes:
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, format="PNG")
    return content.getvalue()


def pictures(suffix: str = ".png", pixels: np.ndarray = BYTES, classes: bool = False) -> Source:
    def source(folder: Path) -> Path:
        for place, one in enumerate(pixels):
            parent = folder / "pictures" / WORDS[place] if classes else folder / "pictures"
            save_png(parent / f"{place:02}{suffix}", one)
        return folder / "pictures"

    return source


def with_table(name: str, text: str) -> Source:
    def source(folder: Path) -> Path:
        path = pictures()(folder)
        (path / name).write_text(text)
        return path

    return source


def frame(**columns: object) -> object:
    import pandas as pd

    return pd.DataFrame({"a": VECTORS[:, 0], "b": VECTORS[:, 1], **columns})


def with_names(names: object) -> object:
    import pandas as pd

    columns = pd.MultiIndex.from_tuples(names) if isinstance(names, list) else list(str(names))
    return pd.DataFrame(VECTORS[:, :2], columns=columns)


def categories() -> object:
    import pandas as pd

    return frame(kind=pd.Categorical(WORDS, categories=["emu", "fox", "dog", "cat"]))


def polars_enum() -> object:
    import polars as pl

    return pl.DataFrame({"a": VECTORS[:, 0], "kind": pl.Series(WORDS, dtype=pl.Enum(NAMES))})


def polars_struct() -> object:
    import polars as pl

    return pl.DataFrame({"a": VECTORS[:, 0], "s": [{"u": 1, "v": 2}] * N})


def csv_of(text: str) -> Source:
    return file("table.csv", lambda path: path.write_text(text))


def lines(rows: object, header: str = "") -> str:
    return header + "".join(",".join(map(str, row)) + "\n" for row in rows)


def shards(folder: Path) -> Path:
    with tarfile.open(folder / "shard-000.tar", "w") as archive:
        for place, one in enumerate(BYTES):
            for suffix, content in (("png", png(one)), ("cls", WORDS[place].encode())):
                entry = tarfile.TarInfo(f"{place:06}.{suffix}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    return folder / "shard-000.tar"


class Pairs(torch.utils.data.Dataset[object]):
    def __init__(self, labels: list[object]) -> None:
        self.labels = labels

    def __len__(self) -> int:
        return N

    def __getitem__(self, place: int) -> object:
        return FLOATS[place], self.labels[place]


class Entries(Pairs):
    def __getitem__(self, place: int) -> object:
        return {"image": BYTES[place], "label": self.labels[place]}


class Pictures(Pairs):
    """Entries as the library datasets stores them."""

    def __getitem__(self, place: int) -> object:
        content = png(BYTES[place])
        return {"image": {"bytes": content, "path": None} if place % 2 else content, "label": self.labels[place]}


class Stream(torch.utils.data.IterableDataset[object]):
    def __iter__(self) -> Iterator[object]:
        return iter(VECTORS.astype(np.float32))


class Sample(NamedTuple):
    item: np.ndarray
    label: int


class Named(Pairs):
    def __getitem__(self, place: int) -> object:
        return Sample(VECTORS[place], CLASSES[place])


def adata(matrix: object = None, **options: object) -> object:
    import anndata

    found = scipy.sparse.csr_matrix(COUNTS.astype(np.float32)) if matrix is None else matrix
    return anndata.AnnData(found, **options)


def cells(folder: Path) -> object:
    found = adata()
    found.obs["cell_type"] = WORDS
    found.layers["counts"] = found.X.copy()
    return found


def fifo(folder: Path) -> Path:
    os.mkfifo(folder / "pipe.npy")
    return folder / "pipe.npy"


WAYS: dict[str, tuple[Source, dict[str, object], Arrives | tuple[str, ...]]] = {
    # arrays of vectors
    "array of vectors": (given(VECTORS), {}, Arrives((5,))),
    "tensor": (given(torch.from_numpy(VECTORS)), {}, Arrives((5,))),
    "half precision": (given(VECTORS.astype(np.float16)), {}, Arrives((5,))),
    "bfloat16": (given(torch.from_numpy(VECTORS).bfloat16()), {}, Arrives((5,))),
    "list of lists": (given(VECTORS.tolist()), {}, Arrives((5,))),
    "big endian": (given(VECTORS.astype(">f8")), {}, Arrives((5,))),
    "Fortran order": (given(np.asfortranarray(VECTORS)), {}, Arrives((5,))),
    "not contiguous": (given(VECTORS[:, ::2]), {}, Arrives((3,))),
    "whole numbers": (given(COUNTS), {}, Arrives((7,), float(COUNTS.min()), float(COUNTS.max()))),
    "booleans": (given(VECTORS > 0), {}, Arrives((5,), **UNIT)),
    "labels": (given(VECTORS), {"labels": CLASSES}, Arrives((5,), classes=CLASSES)),
    "labels in words": (given(VECTORS), {"labels": WORDS}, Arrives((5,), classes=CLASSES, names=NAMES)),
    "factors": (
        given(VECTORS),
        {"factors": np.c_[CLASSES, [0] * 6 + [1] * 6], "factor_names": ("kind", "half")},
        Arrives((5,), factors=("kind", "half")),
    ),
    "factors in a data frame": (
        given(VECTORS),
        {"factors": frame(kind=WORDS)[["kind"]]},
        Arrives((5,), factors=("kind",)),
    ),
    "standardised": (given(VECTORS * 1e4), {"standardise": True}, Arrives((5,), high=float(VECTORS.max()) * 1e4)),
    "one item": (given(VECTORS[:1]), {}, ("at least 2 items", "got 1")),
    "one number for each item": (given(VECTORS[:, 0]), {}, ("items x dimensions", "array[:, None]")),
    "equal items": (given(np.ones((N, 5))), {}, ("must differ", "all numbers are 1")),
    "a NaN": (given(np.where(VECTORS > 1, np.nan, VECTORS)), {}, ("finite", "missing='mask'")),
    "a NaN that is missing": (given(np.where(VECTORS > 1, np.nan, VECTORS)), {"missing": "mask"}, Arrives((5,))),
    "complex numbers": (given(VECTORS + 1j), {}, ("complex",)),
    "objects": (given(np.array([[object()] * 3] * 4)), {}, ("object",)),
    "ragged lists": (given([[1, 2], [3]]), {}, ("same shape",)),
    "too few labels": (given(VECTORS), {"labels": CLASSES[:3]}, ("labels", "12", "3")),
    "factors in words": (
        given(VECTORS),
        {"factors": [[word, "x"] for word in WORDS], "factor_names": ("animal", "same")},
        Arrives((5,), factors=("animal", "same")),
    ),
    "image that is a word": (given(FLOATS), {"image": "no"}, ("image must be True or False", "'no'")),
    "an image that is a signal": (given(FLOATS), {"image": True, "signal": True}, ("images or signals", "Leave one")),
    "an unknown option": (given(VECTORS), {"colour": True}, ("colour", "not an option")),
    "no data": (given(None), {}, ("NoneType",)),
    "an empty name": (given(""), {}, ("'' is neither",)),
    "a dictionary of columns": (given({"a": VECTORS[:, 0]}), {}, ("dict", "data frame")),
    "labels in bytes": (given(VECTORS), {"labels": [b"cat", b"dog", b"emu"] * 4}, Arrives((5,), names=NAMES)),
    "labels in emoji": (given(VECTORS), {"labels": ["🐈", "🐕", "🦤"] * 4}, Arrives((5,), names=("🐈", "🐕", "🦤"))),
    "labels in one column": (given(VECTORS), {"labels": np.array(CLASSES)[:, None]}, Arrives((5,), classes=CLASSES)),
    "one-hot labels": (given(VECTORS), {"labels": np.eye(3, dtype=int)[CLASSES]}, ("(12, 3)", "argmax(1)")),
    "factors of another length": (given(VECTORS), {"factors": np.zeros((3, 2), int)}, ("factors", "12", "(3, 2)")),
    "a list of pictures": (given([Image.fromarray(one) for one in BYTES]), {}, Arrives((1, 16, 16), **UNIT)),
    "a list of dictionaries": (given([{"image": BYTES[0]}] * N), {}, ("'image'", "data frame", "torch Dataset")),
    "a list of pairs": (given([(BYTES[0], 1)] * N), {}, ("pairs", "labels=labels")),
    "a list of paths": (given(["a.png", "b.png"]), {}, ("'a.png'", "folder")),
    # arrays of images
    "grey bytes": (given(BYTES), {}, Arrives((1, 16, 16), **UNIT)),
    "grey floats": (given(FLOATS), {}, Arrives((1, 16, 16), **UNIT)),
    "colour, channels last": (given(COLOUR), {}, Arrives((3, 16, 16))),
    "colour, channels first": (given(np.moveaxis(COLOUR, -1, 1)), {}, Arrives((3, 16, 16))),
    "five channels": (given(np.stack([FLOATS] * 5, 1)), {}, Arrives((5, 16, 16), **UNIT)),
    "five channels last": (given(np.stack([FLOATS] * 5, -1)), {}, Arrives((5, 16, 16), **UNIT)),
    "channels that may be first or last": (
        given(np.stack([FLOATS] * 16, 1)),
        {},
        ("channels='first'", "channels='last'"),
    ),
    "channels that are said": (given(np.stack([FLOATS] * 16, 1)), {"channels": "last"}, Arrives((16, 16, 16))),
    "binary images": (given(BYTES > 127), {}, Arrives((1, 16, 16), **UNIT)),
    "16 bits": (given(BYTES.astype(np.uint16) * 257), {}, Arrives((1, 16, 16), **UNIT)),
    "12 bits in a range": (
        given(BYTES.astype(np.uint16) * 16),
        {"range": (0, 4080)},
        Arrives((1, 16, 16), **UNIT),
    ),
    "pixels from -1 to 1": (given(FLOATS * 2 - 1), {}, ("[0, 1]", "range=(-1, 1)")),
    "pixels from -1 to 1 in a range": (given(FLOATS * 2 - 1), {"range": (-1, 1)}, Arrives((1, 16, 16), **UNIT)),
    "pixels outside the range": (given(FLOATS * 2 - 1), {"range": (0, 1)}, ("-1..1",)),
    "bytes of 0 and 1 in a range": (
        given((BYTES > 127).astype(np.uint8)),
        {"range": (0, 1)},
        Arrives((1, 16, 16), **UNIT),
    ),
    "floats from 0 to 255": (given(BYTES.astype(np.float32)), {}, ("range=(0, 255)", "signal=True", "image=False")),
    "bytes with an alpha channel": (given(np.concatenate([COLOUR, COLOUR[..., :1]], -1)), {}, Arrives((4, 16, 16))),
    "a memory map in Fortran order": (
        lambda folder: np.load(
            file("x.npy", lambda path: np.save(path, np.asfortranarray(BYTES)))(folder), mmap_mode="r"
        ),
        {},
        Arrives((1, 16, 16), **UNIT),
    ),
    "images as vectors": (given(FLOATS), {"image": False}, Arrives((256,), **UNIT)),
    "images that are not square": (given(np.tile(FLOATS, (1, 1, 2))), {}, Arrives((1, 16, 32), **UNIT)),
    "preprocessed images": (given(FLOATS * 4 - 2), {"as_given": True}, Arrives((1, 16, 16), -2.0, 2.0)),
    # signals
    "signals": (given(VECTORS.repeat(20, 1).reshape(N, 2, 50)), {}, Arrives((2, 50))),
    "signals, channels last": (given(np.swapaxes(VECTORS.repeat(20, 1).reshape(N, 2, 50), 1, 2)), {}, Arrives((2, 50))),
    "square signals": (given(FLOATS), {"signal": True}, Arrives((16, 16))),
    "long images": (given(np.tile(FLOATS, (1, 1, 4))), {"signal": False}, Arrives((1, 16, 64), **UNIT)),
    # sparse matrices and cells
    "CSR": (given(scipy.sparse.csr_matrix(COUNTS)), {}, Arrives((7,), float(COUNTS.min()), float(COUNTS.max()))),
    "COO array": (given(scipy.sparse.coo_array(VECTORS)), {"labels": WORDS}, Arrives((5,), names=NAMES)),
    "CSC": (given(scipy.sparse.csc_matrix(COUNTS)), {}, Arrives((7,), float(COUNTS.min()), float(COUNTS.max()))),
    "a sparse tensor": (given(torch.from_numpy(COUNTS).to_sparse()), {"labels": WORDS}, Arrives((7,), names=NAMES)),
    "a sparse tensor in bfloat16": (given(torch.from_numpy(COUNTS).bfloat16().to_sparse()), {}, Arrives((7,))),
    "a sparse tensor of images": (given(torch.ones(3, 4, 5).to_sparse()), {}, ("items x dimensions", "(3, 4, 5)")),
    "a sparse matrix in a file": (
        file("x.npz", lambda path: scipy.sparse.save_npz(path, scipy.sparse.csc_matrix(COUNTS))),
        {"labels": WORDS},
        Arrives((7,), high=float(COUNTS.max()), names=NAMES),
    ),
    "a sparse matrix of nothing": (given(scipy.sparse.csr_matrix((N, 5))), {}, ("must differ",)),
    "AnnData": (cells, {}, Arrives((7,), high=float(COUNTS.max()))),
    "AnnData, layer and labels": (
        cells,
        {"layer": "counts", "labels": "cell_type"},
        Arrives((7,), classes=CLASSES, names=NAMES),
    ),
    "AnnData without the layer": (cells, {"layer": "spliced"}, ("spliced", "counts")),
    ".h5ad": (
        file("cells.h5ad", lambda path: cells(path).write_h5ad(path)),
        {"labels": "cell_type"},
        Arrives((7,), names=NAMES),
    ),
    "AnnData with missing labels": (
        lambda folder: adata(obs={"kind": np.array([None, *WORDS[1:]], object)}),
        {"labels": "kind"},
        ("'kind'", "1 missing", "item 0"),
    ),
    "dense AnnData with missing cells": (
        lambda folder: adata(np.where(VECTORS > 1, np.nan, VECTORS)),
        {"missing": "mask"},
        Arrives((5,)),
    ),
    "sparse AnnData with missing cells": (cells, {"missing": "mask"}, ("missing='mask'", "dense")),
    # tables
    "data frame": (given(frame()), {}, Arrives((2,))),
    "data frame with words": (given(frame(kind=WORDS)), {}, ("kind", "'cat'", "drop", "label=")),
    "data frame with a label": (
        given(frame(kind=WORDS)),
        {"label": "kind"},
        Arrives((2,), classes=CLASSES, names=NAMES),
    ),
    "data frame with numbers and words in a column": (
        given(frame(kind=[1, "x"] * 6)),
        {},
        ("'kind' contains words such as 'x'",),
    ),
    "data frame with numbers as text": (
        given(frame(c=[str(one) for one in VECTORS[:, 2]])),
        {},
        ("'c' contains numbers that are stored as text",),
    ),
    "data frame with two labels": (given(frame(kind=WORDS)), {"label": ["kind", "a"]}, ("one column", "kind, a")),
    "data frame with columns of one name": (given(with_names("aa")), {}, ("different names",)),
    "data frame with several levels of columns": (given(with_names([("x", "a"), ("x", "b")])), {}, Arrives((2,))),
    "data frame without rows": (given(frame()[:0]), {}, ("a row for each item",)),
    "data frame with one row": (given(frame()[:1]), {}, ("at least 2 items",)),
    "categories": (given(categories()), {"label": "kind"}, Arrives((2,), classes=CLASSES, names=NAMES)),
    "polars enum": (given(polars_enum()), {"label": "kind"}, Arrives((1,), classes=CLASSES, names=NAMES)),
    "polars struct": (given(polars_struct()), {}, ("'s'", "dict", "drop=['s']")),
    "bytes that are no image": (
        given(frame(c=[b"abc"] * N)[["c"]]),
        {},
        ("cannot identify image file 'array, item 0'",),
    ),
    "data frame without a column": (given(frame(kind=WORDS)), {"drop": "kind"}, Arrives((2,))),
    "some columns": (given(frame(c=VECTORS[:, 2], kind=WORDS)), {"columns": ["a", "c"]}, Arrives((2,))),
    "factors in columns": (
        given(frame(kind=WORDS, half=[True] * 6 + [False] * 6)),
        {"factors": ["kind", "half"]},
        Arrives((2,), factors=("kind", "half")),
    ),
    "a column twice": (given(frame()), {"columns": ["a", "a"]}, ("columns", "once", "a more")),
    "labels twice": (given(frame()), {"label": "a", "labels": CLASSES}, ("got both",)),
    "a column that is not there": (given(frame()), {"label": "kind"}, ("label", "a, b", "'kind'")),
    "missing values": (given(frame(c=[None] + [1.5] * 10 + [2.5])), {}, ("c (1)", "missing='mean'")),
    "missing values filled in": (given(frame(c=[None] + [1.5] * 10 + [2.5])), {"missing": "mean"}, Arrives((3,))),
    "missing values masked": (given(frame(c=[None] + [1.5] * 10 + [2.5])), {"missing": "mask"}, Arrives((3,))),
    "dates": (given(frame(day=np.arange(N).astype("datetime64[D]"))), {}, ("day", "dates")),
    "images in a column": (
        given(frame(image=[png(one) for one in BYTES])[["image"]]),
        {},
        Arrives((1, 16, 16), **UNIT),
    ),
    ".parquet": (
        file("table.parquet", lambda path: frame(kind=WORDS).to_parquet(path)),
        {"label": "kind"},
        Arrives((2,), names=NAMES),
    ),
    "a damaged .parquet": (file("table.parquet", lambda path: path.write_bytes(b"PAR1")), {}, ("table.parquet",)),
    ".csv": (csv_of(lines(VECTORS, "a,b,c,d,e\n")), {}, Arrives((5,))),
    ".csv without a header": (csv_of(lines(VECTORS)), {}, Arrives((5,))),
    ".csv with a label": (
        csv_of(lines(zip(VECTORS[:, 0], WORDS, strict=True), "a,kind\n")),
        {"label": "kind"},
        Arrives((1,), names=NAMES),
    ),
    ".tsv": (file("t.tsv", lambda path: path.write_text(lines(VECTORS).replace(",", "\t"))), {}, Arrives((5,))),
    "an empty .csv": (csv_of(""), {}, ("empty file",)),
    "a .csv that may have a header": (csv_of("0,1,2\n3,4,5\n6,7,8\n"), {}, ("header",)),
    # files of arrays
    ".npy": (file("x.npy", lambda path: np.save(path, BYTES)), {}, Arrives((1, 16, 16), **UNIT)),
    ".npy of floats in a range": (
        file("x.npy", lambda path: np.save(path, FLOATS * 2 - 1)),
        {"range": (-1, 1)},
        Arrives((1, 16, 16), **UNIT),
    ),
    "a pickle in a .npy": (
        file("x.npy", lambda path: np.save(path, np.array([{}] * 3), allow_pickle=True)),
        {},
        ("x.npy", "pickle"),
    ),
    ".npz": (file("x.npz", lambda path: np.savez(path, x=VECTORS, y=CLASSES)), {}, Arrives((5,), classes=CLASSES)),
    ".npz with two arrays": (file("x.npz", lambda path: np.savez(path, a=VECTORS, b=VECTORS)), {}, ("key='NAME'",)),
    ".npz by key": (file("x.npz", lambda path: np.savez(path, a=VECTORS, b=BYTES)), {"key": "a"}, Arrives((5,))),
    "a memory map": (
        lambda folder: np.load(file("x.npy", lambda path: np.save(path, VECTORS))(folder), mmap_mode="r"),
        {},
        Arrives((5,)),
    ),
    **({"a pipe": (fifo, {}, ("pipe.npy",))} if hasattr(os, "mkfifo") else {}),
    "a file of another type": (file("x.txt", lambda path: path.write_text("1")), {}, ("x.txt", ".npy")),
    "a path without a file": (given("no/such/file.npy"), {}, ("neither a known data set nor an existing",)),
    # images in files
    "folder of .png": (pictures(), {}, Arrives((1, 16, 16), **UNIT)),
    "folder of .jpg": (pictures(".jpg"), {}, Arrives((1, 16, 16))),
    "folder in colour": (pictures(pixels=COLOUR), {}, Arrives((3, 16, 16))),
    "folder in grey": (pictures(pixels=COLOUR), {"colour": False}, Arrives((1, 16, 16))),
    "folder in a colour that is a word": (pictures(), {"colour": "no"}, ("colour must be True or False",)),
    "folder of a size with a fraction": (pictures(), {"size": 8.0}, ("size must be", "got 8.0")),
    "folder of a size that is no number": (pictures(), {"size": True}, ("size must be", "got True")),
    "tar shards in a colour that is a word": (shards, {"colour": "no"}, ("colour must be True or False",)),
    "folder of classes": (pictures(classes=True), {}, Arrives((1, 16, 16), names=NAMES)),
    "folder of another size": (pictures(), {"size": 8}, Arrives((1, 8, 8))),
    "factors in file names": (
        pictures(),
        {"factors": "{tens}{ones}.png"},
        Arrives((1, 16, 16), factors=("tens", "ones")),
    ),
    "factors next to the images": (
        pictures(),
        {"factors": frame(kind=WORDS)[["kind"]]},
        Arrives((1, 16, 16), factors=("kind",)),
    ),
    "an empty folder": (lambda folder: folder, {}, ("must contain images",)),
    "tar shards": (shards, {}, Arrives((1, 16, 16), classes=CLASSES, names=NAMES)),
    # torch
    "Dataset of pairs": (given(Pairs(CLASSES)), {}, Arrives((1, 16, 16), classes=CLASSES)),
    "Dataset with words": (given(Pairs(WORDS)), {}, Arrives((1, 16, 16), classes=CLASSES, names=NAMES)),
    "Dataset of dicts": (given(Entries(WORDS)), {}, Arrives((1, 16, 16), classes=CLASSES, names=NAMES)),
    "Dataset of named tuples": (given(Named([])), {}, Arrives((5,), classes=CLASSES)),
    "Dataset of dicts with the bytes of pictures": (given(Pictures(WORDS)), {}, Arrives((1, 16, 16), names=NAMES)),
    "IterableDataset": (given(Stream()), {}, Arrives((5,))),
    "DataLoader": (
        given(torch.utils.data.DataLoader(Pairs(CLASSES), batch_size=5)),
        {},
        Arrives((1, 16, 16), classes=CLASSES),
    ),
    # names
    "a name": (given("gaussian-manifold"), {"items": N}, Arrives((20,))),
    "a name with options": (given({"name": "gaussian-manifold", "items": N, "ambient": 9}), {}, Arrives((9,))),
    "a name that is misspelt": (given("dsprite"), {}, ("'dsprite'", "dsprites")),
}


@pytest.mark.parametrize("way", WAYS)
def test_data_arrive_or_an_error_says_why(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    source, options, expected = WAYS[way]
    if isinstance(expected, tuple):
        with pytest.raises(VaescopeError) as raised:
            vs.open_dataset(source(tmp_path / "data"), **options)
        message = str(raised.value)
        assert all(word in message for word in expected), message
        assert message.endswith((".", "?")), message
        return
    data = vs.open_dataset(source(tmp_path / "data"), **options)
    x = data.batch(torch.arange(len(data)))
    assert (len(data), data.shape) == (expected.items, expected.shape)
    assert (x.shape, x.dtype) == ((expected.items, *expected.shape), torch.float32)
    known = x[~x.isnan()]
    assert expected.low is None or float(known.min()) == pytest.approx(expected.low)
    assert expected.high is None or float(known.max()) == pytest.approx(expected.high)
    assert (None if expected.classes is None else data.labels.tolist()) == expected.classes
    assert expected.names is None or data.label_names == expected.names
    assert expected.factors is None or data.factor_table.names == expected.factors


@pytest.mark.parametrize("kind", [np.uint8, np.int64, np.uint16])
def test_masks_that_would_be_nearly_black_are_warned_of(kind: type) -> None:
    with pytest.warns(PixelRangeWarning, match=r"divided by 255, but the largest is 1.*range=\(0, 1\)"):
        vs.open_dataset((BYTES > 127).astype(kind))


def test_masks_in_a_folder_are_warned_of(tmp_path: Path) -> None:
    masks = pictures(pixels=(BYTES > 127).astype(np.uint8))(tmp_path)
    with pytest.warns(PixelRangeWarning, match="save pictures with 255 as white"):
        vs.open_dataset(masks)


def test_there_are_at_least_sixty_ways() -> None:
    assert len(WAYS) >= 60
