"""Array-likes of any library become checked arrays, without copies where possible."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vaescope.codes.arrays import as_array, as_numpy, as_table, as_tensor, check_finite, column_names
from vaescope.errors import DataError

ROWS = np.arange(12.0).reshape(4, 3)

KINDS: dict[str, Any] = {
    "numpy": ROWS,
    "lists": ROWS.tolist(),
    "torch": torch.from_numpy(ROWS),
    "integers": ROWS.astype(np.int64),
    "bytes": ROWS.astype(np.uint8),
    "unsigned integers that torch lacks": ROWS.astype(np.uint16),
    "columns first": np.asfortranarray(ROWS),
    "foreign byte order": ROWS.astype(">f8"),
    "long doubles": ROWS.astype(np.longdouble),
    "objects": ROWS.astype(object),
    "a list of arrays": list(ROWS),
    "reversed rows": ROWS[::-1].copy()[::-1],
    "gradient": torch.from_numpy(ROWS).requires_grad_(),
    "bfloat16": torch.from_numpy(ROWS).bfloat16(),
}


@pytest.mark.parametrize("values", KINDS.values(), ids=KINDS)
def test_all_kinds_of_arrays_hold_the_same_numbers(values: Any) -> None:
    assert torch.equal(as_table(values, "x").double(), torch.from_numpy(ROWS))
    assert torch.equal(as_tensor(values, "x").double(), torch.from_numpy(ROWS))
    np.testing.assert_array_equal(as_numpy(values, "x").astype(np.float64), ROWS)


def test_arrays_and_tensors_are_not_copied(tmp_path: Path) -> None:
    tensor = torch.from_numpy(ROWS)
    assert as_array(ROWS, "x") is ROWS
    assert as_tensor(ROWS, "x").data_ptr() == as_tensor(tensor, "x").data_ptr() == tensor.data_ptr()
    np.save(tmp_path / "rows.npy", ROWS)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert as_array(mapped, "x") is mapped


def test_read_only_arrays_are_copied_for_torch() -> None:
    frozen = ROWS.copy()
    frozen.flags.writeable = False
    assert as_tensor(frozen, "x").add_(1)[0, 0] == 1
    assert frozen[0, 0] == 0


def test_a_table_has_a_float_type() -> None:
    assert as_table(ROWS.astype(np.float32), "x").dtype == torch.float32
    assert as_table(torch.ones(2, 2, dtype=torch.float16), "x").dtype == torch.float16
    assert as_table(ROWS.astype(int), "x").dtype == torch.float64


BAD: dict[str, tuple[Any, str]] = {
    "text": (np.array([["a"]]), "x .*real.* <U1"),
    "complex": (ROWS * 1j, "x .*real.* complex128"),
    "complex tensor": (torch.zeros(2, 2, dtype=torch.complex64), "x .*real.*complex64"),
    "objects": (None, "x .*real.* NoneType"),
    "objects in an array": (np.array([[1.0, None]]), "x .*real.* object"),
    "sparse tensor": (torch.from_numpy(ROWS).to_sparse(), "x .*dense.*sparse"),
    "meta tensor": (torch.from_numpy(ROWS).to("meta"), "x .*dense.*meta"),
    "text in lists": ([["a", "b"]], "x .*real.* <U1"),
    "ragged lists": ([[1, 2], [3]], "x .*lengths"),
    "masked": (np.ma.masked_less(ROWS, 3), "x .*masked"),
    "one dimension": (ROWS[0], r"x .*items x latents.* \(3,\).*items x 1"),
    "no columns": (ROWS[:, :0], r"\(4, 0\)"),
    "no rows": (ROWS[:0], r"\(0, 3\)"),
    "nan": (np.where(ROWS == 7, np.nan, ROWS), "x .*finite, got nan for item 2, latent 1"),
    "infinity": (np.where(ROWS == 11, -np.inf, ROWS), "x .*finite, got -inf for item 3, latent 2"),
}


@pytest.mark.parametrize(("values", "facts"), BAD.values(), ids=BAD)
def test_what_is_not_a_finite_table_is_refused(values: Any, facts: str) -> None:
    with pytest.raises(DataError, match=facts):
        as_table(values, "x")


def test_booleans_count_as_numbers() -> None:
    assert as_numpy(ROWS > 0, "x").dtype == bool
    assert as_tensor(torch.from_numpy(ROWS) > 0, "x").dtype == torch.bool
    assert as_table(ROWS > 0, "x").dtype == torch.float64


def test_names_of_columns_are_those_of_a_data_frame() -> None:
    @dataclass
    class Frame:
        columns: list[object]

    assert column_names(Frame(["shape", 2])) == ("shape", "2")
    assert column_names(ROWS) is column_names(torch.from_numpy(ROWS)) is None


def test_checks_of_a_table_are_optional() -> None:
    with pytest.raises(DataError, match="5 items, got 4"):
        as_table(ROWS, "x", min_items=5)
    assert as_table(np.full((2, 2), np.nan), "x", finite=False).isnan().all()
    with pytest.raises(DataError, match="item 0, feature 1"):
        as_table([[0.0, np.nan]], "x", columns="features")


def test_item_numbers_in_errors_can_be_given() -> None:
    values = torch.tensor([[0.0, 1.0], [2.0, np.inf]])
    with pytest.raises(DataError, match="item 8, latent 1"):
        check_finite(values, "x", numbers=[7, 8])
    with pytest.raises(DataError, match=r"for latent 1\."):
        check_finite(values, "x", numbers=())
    with pytest.raises(DataError, match=r"for item 1\."):
        check_finite(values[:, 1], "x")
