"""Codes from anything that can encode: a function with data, a file of codes, a pair of arrays."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vaescope.codes.factors import codes_of
from vaescope.codes.reading import numpy_archive, reading
from vaescope.codes.representation import PRIOR, Representation
from vaescope.data import Dataset, open_dataset
from vaescope.encoding.encode import LONG_ITEMS, encode
from vaescope.errors import DataError
from vaescope.models import MODELS
from vaescope.numerics import counter
from vaescope.progress import follow

CHUNK = 1024
LOG_VARIANCE = "log_variance"
NUMBERED = ("mean", "variance", LOG_VARIANCE, "sample", "factors", *PRIOR)
KNOWN = (*NUMBERED, "labels")
TEXT = (".csv", ".tsv")
FILES = (".npz", *TEXT)
ACCEPTED = "codes, a pair (mean, variance) of arrays, a file of codes (.npz, .csv) or a function with data"


def adapt(subject: Any, data: Any = None, *, seed: int = 0) -> Representation:
    """The codes that `subject` stands for.

    A `Representation` as it is; a pair (mean, variance) of arrays; the path of an .npz archive or a .csv table with
    `mean` and `variance` (or `log_variance`), and what else a `Representation` holds; or, with `data`, one of our
    models, a function from a batch to a posterior or to a pair (mean, variance), or a module with such a function
    named `encode`. Codes from a file or a function come in float64, so that the type they were kept in changes
    nothing; samples that are missing are drawn from `seed`.
    """
    if isinstance(subject, tuple(MODELS.values())) and data is not None:
        return encode(subject, data, seed=seed)
    if isinstance(subject, nn.Module):
        subject = getattr(subject, "encode", subject)
    if callable(subject):
        if data is None:
            raise DataError("a function that encodes needs data to encode; pass them as data.")
        return _from_function(subject, open_dataset(data), seed)
    if data is not None:
        raise DataError(f"data are for a function that encodes, got {type(subject).__name__}; leave data out.")
    if isinstance(subject, Representation):
        return subject
    if isinstance(subject, str | Path):
        return _from_file(Path(subject), seed)
    if isinstance(subject, tuple | list) and len(subject) == 2:
        return _codes("codes", dict(zip(("mean", "variance"), subject, strict=True)), seed)
    count = f" of {len(subject)}" if isinstance(subject, tuple | list) else ""
    raise DataError(f"what is diagnosed must be {ACCEPTED}, got {type(subject).__name__}{count}.")


@torch.no_grad()
def _from_function(function: Any, data: Dataset, seed: int) -> Representation:
    parts = []
    starts = range(0, len(data), CHUNK)
    for start in follow(starts, f"encoding {data.name}", len(starts), long=len(data) > LONG_ITEMS):
        batch = data.batch(torch.arange(start, min(start + CHUNK, len(data))))
        pair = [
            _numbers(name, values) for name, values in zip(("mean", "variance"), _pair(function(batch)), strict=True)
        ]
        for values in pair:
            if values.ndim != 2 or len(values) != len(batch):
                raise DataError(
                    f"the function must return one row of latents for each of the {len(batch)} items of a batch, "
                    f"got the shape {tuple(values.shape)}."
                )
        parts.append(pair)
    mean, variance = (torch.cat(columns) for columns in zip(*parts, strict=True))
    beside = {"factors": data.factors, "labels": data.labels}
    given = {name: values for name, values in beside.items() if values is not None}
    return _codes(data.name, {"mean": mean, "variance": variance, **given}, seed)


def _pair(answer: Any) -> tuple[Any, Any]:
    """Mean and variance, from a pair or from a distribution that has both."""
    if isinstance(answer, tuple | list) and len(answer) == 2:
        return answer[0], answer[1]
    found = [getattr(answer, name, None) for name in ("mean", "variance")]
    # The mean of an array or a tensor is a method, not codes.
    if any(values is None or callable(values) for values in found):
        count = f" of {len(answer)}" if isinstance(answer, tuple | list) else ""
        raise DataError(
            "the function must return a posterior with mean and variance, or a pair (mean, variance), "
            f"got {type(answer).__name__}{count}."
        )
    return found[0], found[1]


def _from_file(path: Path, seed: int) -> Representation:
    if not path.is_file():
        raise DataError(f"{path} must be a file of codes (.npz or .csv), there is no such file.")
    if path.suffix.lower() not in FILES:
        raise DataError(f"{path} must be a file of codes, its name must end in .npz or .csv.")
    arrays: dict[str, Any] = _columns(path) if path.suffix.lower() in TEXT else _archive(path)
    if "mean" not in arrays or ("variance" in arrays) == (LOG_VARIANCE in arrays):
        raise DataError(
            f"{path} must hold mean and either variance or log_variance, items x latents, it holds "
            f"{' and '.join(arrays) or 'none of them'}. In a .csv name the columns mean_0, variance_0, mean_1, ..."
        )
    if LOG_VARIANCE in arrays:
        arrays["variance"] = _numbers(LOG_VARIANCE, arrays.pop(LOG_VARIANCE)).exp()
    return _codes(str(path), arrays, seed)


def _archive(path: Path) -> dict[str, np.ndarray]:
    with numpy_archive(path) as archive:
        return {name: archive[name] for name in KNOWN if name in archive}


def _columns(path: Path) -> dict[str, np.ndarray]:
    """The columns mean_0, mean_1, ... of a table, put together in the order of their numbers; others are left."""
    with reading(path, "a table of numbers with a header"):
        lines = _lines(path)
        _, header = next(lines, (0, []))
        places = {name: _places(path, name, header) for name in NUMBERED}
        places["labels"] = [place for place, column in enumerate(header) if column == "labels"][:1]
        wanted = [place for group in places.values() for place in group]
        table = _table(path, header, lines, wanted) if wanted else np.empty((0, 0))
    ends = np.cumsum([len(group) for group in places.values()])[:-1]
    groups = dict(zip(places, np.split(table, ends, axis=1), strict=True)) if wanted else {}
    arrays = {name: values for name, values in groups.items() if values.shape[1]}
    return arrays | ({"labels": arrays["labels"][:, 0]} if "labels" in arrays else {})


def _places(path: Path, group: str, header: list[str]) -> list[int]:
    """Where the columns of a group stand in the header, by increasing number."""
    found: dict[int, int] = {}
    for place, column in enumerate(header):
        name, _, number = column.rpartition("_")
        if name == group and number.isdecimal():
            if int(number) in found:
                raise DataError(f"{path} must name each column once, {column} is there twice.")
            found[int(number)] = place
    missing = next((number for number in range(len(found)) if number not in found), None)
    if missing is not None:
        raise DataError(
            f"{path} must number the columns {group}_0, {group}_1, ... without a gap, {group}_{missing} is missing."
        )
    return [found[number] for number in sorted(found)]


def _table(path: Path, header: list[str], lines: Iterator[tuple[int, list[str]]], wanted: list[int]) -> np.ndarray:
    rows = []
    for line, cells in lines:
        if len(cells) != len(header):
            raise DataError(
                f"{path}: every line must have as many cells as the header, {len(header)}; line {line} has "
                f"{len(cells)}."
            )
        try:
            rows.append([float(cells[place]) for place in wanted])
        except ValueError as error:
            column, cell = next((header[place], cells[place]) for place in wanted if not _is_number(cells[place]))
            raise DataError(f"{path}: {column} must be a number, line {line} has {cell!r}.") from error
    if not rows:
        raise DataError(f"{path} must hold a line for each item below its header, there is none.")
    return np.array(rows)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of each line that is not blank; separated by commas, semicolons or tabs."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        file.seek(0)
        separator = next((one for one in "\t;" if one in first), ",")
        reader = csv.reader(file, delimiter=separator)
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, [cell.strip() for cell in cells]


def _codes(name: str, arrays: dict[str, Any], seed: int) -> Representation:
    """Codes with a sample for each item; a wrong number or sign is for the diagnostics to name."""
    tables = {part: _numbers(part, arrays[part]) for part in ("mean", "variance", "sample") if part in arrays}
    mean, variance = tables["mean"], tables["variance"]
    if mean.ndim != 2:
        raise DataError(f"{name}: mean must be a table, items x latents, got the shape {tuple(mean.shape)}.")
    for part, values in tables.items():
        if values.shape != mean.shape:
            raise DataError(
                f"{name}: mean and {part} must be of one shape, items x latents, got {tuple(mean.shape)} and "
                f"{tuple(values.shape)}."
            )
    whole = {
        part: torch.from_numpy(codes_of(arrays[part], len(mean), name, part, *ranks))
        for part, ranks in (("factors", (1, 2)), ("labels", (1,)))
        if part in arrays
    }
    sample = tables["sample"] if "sample" in tables else _sample(mean, variance, seed)
    prior = {part: _numbers(part, arrays[part]) for part in PRIOR if part in arrays}
    if len(prior) == 1:
        raise DataError(f"{name} must hold {' and '.join(PRIOR)}, or neither; it holds {next(iter(prior))} alone.")
    return Representation(mean, variance, sample, whole.get("factors"), whole.get("labels"), **prior)


def _numbers(name: str, values: Any) -> Tensor:
    """Real numbers of any kind as float64 on the CPU."""
    if isinstance(values, Tensor):
        real = not (values.is_complex() or values.dtype == torch.bool)
        kind, array = str(values.dtype), values.detach().cpu()
    else:
        try:
            given = np.asarray(values)
        except ValueError as error:
            raise DataError(f"{name} must be a full table, items x latents, got rows that do not match.") from error
        real, kind = given.dtype.kind in "iuf", str(given.dtype)
        # A copy: torch cannot hold read-only memory, foreign byte orders or long doubles.
        array = torch.from_numpy(np.array(given, dtype=np.float64, order="C")) if real else torch.empty(0)
    if not real:
        raise DataError(f"{name} must hold real numbers, got type {kind}; convert it to a float type.")
    return array.double()


def _sample(mean: Tensor, variance: Tensor, seed: int) -> Tensor:
    rows = torch.arange(len(mean))
    noise = counter.normal(torch.tensor(seed), "encode", torch.tensor(0), rows, mean.shape[1])
    return mean + variance.clamp_min(0).sqrt() * noise.double()
