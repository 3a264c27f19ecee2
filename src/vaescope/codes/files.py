"""Files of codes: .npz archives and .csv tables with means and variances of posteriors."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path

import numpy as np

from vaescope.codes.arrays import ArrayLike, as_tensor
from vaescope.codes.reading import numpy_archive, read_lines, read_numbers, reading
from vaescope.codes.representation import FACTOR_NAMES, PRIOR, Representation
from vaescope.errors import DataError

LOG_VARIANCE = "log_variance"
TABLES = ("mean", "variance", LOG_VARIANCE, "sample", "factors", *PRIOR)
CSV_SUFFIXES = (".csv", ".tsv")
CODE_FILE_SUFFIXES = (".npz", *CSV_SUFFIXES)


def read_codes(path: str | Path, *, seed: int = 0) -> Representation:
    """Read codes in float64 from an .npz archive or a .csv table.

    Args:
        path: A file with `mean` and `variance` (or `log_variance`), and optionally the other attributes of a
            `Representation`. A .csv names its columns mean_0, mean_1, ..., variance_0, ...; other columns are ignored.
        seed: Random seed for sampling when the file holds no `sample`.
    """
    path = Path(path)
    if path.suffix.lower() not in CODE_FILE_SUFFIXES:
        raise DataError(f"{path} must be a file of codes, with a name that ends in .npz or .csv.")
    if path.suffix.lower() in CSV_SUFFIXES:
        arrays = _read_csv(path)
    else:
        with numpy_archive(path) as archive:
            arrays = {name: archive[name] for name in (*TABLES, "labels", FACTOR_NAMES) if name in archive}
    return codes_from_arrays(arrays, str(path), "In a .csv name the columns mean_0, variance_0, mean_1, ...", seed=seed)


def codes_from_arrays(arrays: Mapping[str, ArrayLike], name: str, advice: str = "", *, seed: int = 0) -> Representation:
    """Codes in float64 from arrays with `mean` and either `variance` or `log_variance`.

    Args:
        arrays: The arrays by name.
        name: Their name in error messages.
        advice: The end of the message if an array is missing.
        seed: Random seed for sampling when there is no `sample`.
    """
    if "mean" not in arrays or ("variance" in arrays) == (LOG_VARIANCE in arrays):
        raise DataError(
            f"{name} must hold mean and either variance or log_variance, items x latents, got "
            f"{' and '.join(map(str, arrays)) or 'none of them'}. {advice}".rstrip()
        )
    given = dict(arrays)
    if LOG_VARIANCE in given:
        given["variance"] = as_tensor(given.pop(LOG_VARIANCE), LOG_VARIANCE).double().exp()
    return Representation.from_arrays(given, name=name, seed=seed)


def _read_csv(path: Path) -> dict[str, np.ndarray]:
    """The columns mean_0, mean_1, ... of a table as arrays, in the order of their numbers."""
    with reading(path, "a table of numbers with a header"):
        first = [cells for _, cells in islice(read_lines(path), 2)]
        header = first[0] if first else []
        groups = {name: _positions(path, name, header) for name in TABLES}
        groups["labels"] = [header.index("labels")] if "labels" in header else []
        groups = {name: positions for name, positions in groups.items() if positions}
        if not groups:
            return {}
        if len(first) < 2:
            raise DataError(f"{path} must hold one line per item below its header, got none.")
        numbers, _ = read_numbers(path, header=True, columns=[place for group in groups.values() for place in group])
    parts = np.split(numbers, np.cumsum([len(positions) for positions in groups.values()])[:-1], axis=1)
    arrays = dict(zip(groups, parts, strict=True))
    return arrays | ({"labels": arrays["labels"][:, 0]} if "labels" in arrays else {})


def _positions(path: Path, group: str, header: list[str]) -> list[int]:
    """The positions of the columns of a group in the header, by increasing number."""
    found: dict[int, int] = {}
    for position, column in enumerate(header):
        name, _, number = column.rpartition("_")
        if name == group and number.isdecimal():
            if int(number) in found:
                raise DataError(f"{path} must name each column once, got {column} twice.")
            found[int(number)] = position
    missing = next((number for number in range(len(found)) if number not in found), None)
    if missing is not None:
        raise DataError(
            f"{path} must number the columns {group}_0, {group}_1, ... without a gap, {group}_{missing} is missing."
        )
    return [found[number] for number in sorted(found)]
