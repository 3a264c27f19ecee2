"""Images in tar files (see `tar_samples`), decoded once into a file in the user cache."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, islice
from pathlib import Path

import numpy as np

from vaescope.codes.reading import is_number, reading
from vaescope.data.arrays import PROGRESS_BAR_ITEMS, ArrayDataset, from_array
from vaescope.data.cache import user_cache
from vaescope.data.file_rows import open_rows
from vaescope.data.image_sets import read_images
from vaescope.data.images import Size, height_and_width, probe_image
from vaescope.data.labels import column_codes, column_labels
from vaescope.data.sources import check_flag, passing
from vaescope.data.stored_rows import store_rows
from vaescope.data.tar_samples import Sample, samples_in
from vaescope.errors import DataError, quoted
from vaescope.files import write_atomically
from vaescope.progress import progress_bar, track

CACHE_FOLDER = "shards"
CHUNK_IMAGES = 64  # that are decoded together


@dataclass(frozen=True)
class Contents:
    """What tar files contain next to images: texts of labels, and values of the factors by name.

    `size` and `colour` are those asked for, or else those that fit all images.
    """

    items: int
    size: tuple[int, int]
    colour: bool
    labels: list[str] | None
    factors: dict[str, list[float | str]]


def shards_in(folder: Path) -> list[Path]:
    """The tar files of a folder, sorted by name."""
    return sorted(path for path in folder.iterdir() if path.suffix.lower() == ".tar" and path.name[0] != ".")


def open_shards(
    path: Path,
    *,
    size: Size | None = None,
    colour: bool | None = None,
    factors: Sequence[str] = (),
) -> ArrayDataset:
    """The images of a tar file, or of all tar files of a folder, in their order; `.cls` members are labels.

    The images are decoded into a file in the user cache, which is used until a tar file or an option changes.

    Args:
        size: Resize the images to (height, width), or to a square. Default: their common size.
        colour: True for 3 channels, False for 1. Default: 3 if any image is in colour.
        factors: Entries of the `.json` members, numbers or words, that are factors; their values are numbered in order.
    """
    names = (factors,) if isinstance(factors, str) else tuple(factors)
    check_flag("colour", colour)
    asked = None if size is None else height_and_width(size)
    with reading(path, "a tar file or a folder of tar files"):
        shards = shards_in(path) if path.is_dir() else [path]
        states = [(str(shard.absolute()), shard.stat().st_size, shard.stat().st_mtime_ns) for shard in shards]
    folder = user_cache(CACHE_FOLDER)
    if folder is None:
        raise DataError(f"{path}: decoding images needs the package pooch, which is not installed. Install it.")
    identity = hashlib.sha256(repr((states, asked, colour, names)).encode()).hexdigest()
    contents, rows = _kept(folder, identity) or _decoded(folder, identity, str(path), shards, asked, colour, names)
    codes = [column_codes(_column(values), str(path), factor) for factor, values in contents.factors.items()]
    texts = contents.labels or []
    labels = _column([float(text) for text in texts] if all(map(is_number, texts)) else texts)
    return from_array(
        open_rows(rows),
        str(path),
        labels=column_labels(labels, str(path), ".cls") if texts else None,
        factors=np.column_stack(codes) if codes else None,
        factor_names=names or None,
    )


def _kept(folder: Path, identity: str) -> tuple[Contents, Path] | None:
    """The contents and the decoded images of an earlier opening; None if there are none or they are damaged."""
    try:
        record = json.loads((folder / f"{identity}.json").read_text(encoding="utf-8"))
        contents, rows = Contents(**record["contents"]), folder / record["rows"]
        lengths = {len(values) for values in (*contents.factors.values(), contents.labels) if values is not None}
        whole = rows.stat().st_size == record["bytes"] and lengths <= {contents.items}
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None
    return (contents, rows) if whole else None


def _decoded(
    folder: Path,
    identity: str,
    name: str,
    shards: list[Path],
    size: tuple[int, int] | None,
    colour: bool | None,
    factors: tuple[str, ...],
) -> tuple[Contents, Path]:
    """The contents and the decoded images, written for the next opening."""
    contents = _survey(name, shards, size, colour, factors)
    rows = store_rows(_pixels(name, shards, contents), folder, "images")
    record = {"contents": asdict(contents), "rows": rows.name, "bytes": rows.stat().st_size}
    write_atomically(folder / f"{identity}.json", json.dumps(record).encode())
    return contents, rows


def _survey(
    name: str, shards: list[Path], size: tuple[int, int] | None, colour: bool | None, factors: tuple[str, ...]
) -> Contents:
    """The contents of all samples; errors in them come before hours of decoding."""
    survey = _Survey(name, size is None, size, colour is None, bool(colour), {factor: [] for factor in factors})
    with progress_bar(f"checking {name}", None) as report:
        for sample in _samples(shards):
            survey.add(sample)
            report(survey.items)
    if survey.size is None or survey.items < 2:
        raise DataError(f"{name} must contain tar files with at least 2 images (.png, .jpg), got {survey.items}.")
    return Contents(survey.items, survey.size, survey.colour, survey.labels or None, survey.factors)


@dataclass
class _Survey:
    """The contents of the samples so far; size and colour are those of the images where they are to be found."""

    name: str
    find_size: bool
    size: tuple[int, int] | None
    find_colour: bool
    colour: bool
    factors: dict[str, list[float | str]]
    labels: list[str] = field(default_factory=list)
    items: int = 0

    def add(self, sample: Sample) -> None:
        """Check one sample more."""
        if self.find_size or self.find_colour:
            colour, size = probe_image(sample.place, sample.image())
            self.colour = self.colour or (self.find_colour and colour)
            self.size = size if self.size is None else self.size
            if self.find_size and size != self.size:
                raise DataError(
                    f"{self.name}: all images must have the same size, but {sample.place} is {size[0]} x {size[1]} and "
                    f"those before are {self.size[0]} x {self.size[1]} (height x width). Pass {passing('size', 64)} to "
                    "resize them."
                )
        label = sample.text("cls")
        if (label is None) if self.labels else (label is not None and self.items > 0):
            raise DataError(
                f"{self.name}: all samples must have a .cls member or none, but {sample.place} "
                f"{'has none' if label is None else 'is the first with one'}. Complete the tar files."
            )
        self.labels.extend([] if label is None else [label])
        table = sample.table() if self.factors else {}
        for name, values in self.factors.items():
            values.append(self._value(table, name, sample, values))
        self.items += 1

    def _value(self, table: Mapping[str, object], name: str, sample: Sample, before: list[float | str]) -> float | str:
        value = table.get(name)
        words = bool(before) and isinstance(before[0], str)
        if isinstance(value, str) and (words or not before):
            return value
        if isinstance(value, int | float) and math.isfinite(value) and not words:
            return float(value)
        raise DataError(
            f"{self.name}: the factor {name} must be a number in the .json member of each sample, or a word in each, "
            f"got {quoted(value)} for {sample.place}; the member has {', '.join(map(str, table)) or 'no entries'}."
        )


def _pixels(name: str, shards: list[Path], contents: Contents) -> Iterator[np.ndarray]:
    """The decoded images, in blocks of a few."""
    samples = ((one.place, one.image()) for one in _samples(shards))
    tracked = track(samples, f"decoding {name}", contents.items, long=contents.items > PROGRESS_BAR_ITEMS)
    while chunk := list(islice(tracked, CHUNK_IMAGES)):
        yield read_images(name, chunk, contents.size, contents.colour)


def _samples(shards: list[Path]) -> Iterator[Sample]:
    return chain.from_iterable(map(samples_in, shards))


def _column(values: Sequence[float | str]) -> np.ndarray:
    """Numbers or words as the column of a table."""
    return np.array(values, object if values and isinstance(values[0], str) else np.float64)
