"""Tables of numbers in text files: separators, headers, texts, and faults by line and column."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vaescope.codes.reading import is_number, read_lines, read_numbers
from vaescope.errors import DataError


def written(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_all_separators_are_read(separator: str, mark: str, tmp_path: Path) -> None:
    path = written(tmp_path, mark + "a,b\n\n1,2.5\n-3,4e2\n".replace(",", separator))
    numbers, texts = read_numbers(path, header=True)
    assert numbers.tolist() == [[1, 2.5], [-3, 400]]
    assert texts == {}
    assert [line for line, _ in read_lines(path)] == [1, 3, 4]


def test_columns_are_read_in_the_given_order_and_others_may_hold_anything(tmp_path: Path) -> None:
    path = written(tmp_path, 'name,a,b\n"x, y",1,2\n,3,4\n')
    assert read_numbers(path, header=True, columns=[2, 1])[0].tolist() == [[2, 1], [4, 3]]


def test_texts_are_numbered_in_order_of_appearance(tmp_path: Path) -> None:
    numbers, texts = read_numbers(written(tmp_path, "1,cat\n2, dog\n3,cat\n"), header=False, text_columns=[1])
    assert texts == {1: ["cat", "dog"]}
    np.testing.assert_array_equal(numbers, [[1, 0], [2, 1], [3, 0]])


@pytest.mark.parametrize(
    ("text", "columns", "facts"),
    [
        ("a,b\n1,2\n\n1,much\n", None, r"line 4, column 2 \(b\) is 'much'.* Look"),
        ("a,b\n1,2\n\n1,much\n", [1], r"line 4, column 2 \(b\) is 'much'"),
        ("a,b\n1,\n", None, r"line 2, column 2 \(b\) is ''"),
        ("a,b\n1_0,2\n", None, "'1_0'"),
        ("a,b\n1,2\n1\n", None, "2 cells.* line 3 has 1"),
        ("a,b\n1,2,3\n", [0], "2 cells.* line 2 has 3"),
    ],
)
def test_faults_are_named_by_line_and_column(text: str, columns: list[int] | None, facts: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=facts):
        read_numbers(written(tmp_path, text), header=True, columns=columns, advice="Look.")


def test_numbers_and_text_are_distinguished() -> None:
    cells = ("1", "-2.5e3", "nan", " 4 ", "", "1_0", "one")
    assert [is_number(cell) for cell in cells] == [True, True, True, True, False, False, False]


def test_several_columns_of_text_are_numbered_and_ignored_columns_are_zeros(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b,c,d\nx,1,u,?\ny,2,u,!\nx,3,v,-\n")
    numbers, texts = read_numbers(path, header=True, text_columns=[0, 2], ignored=[3])
    assert texts == {0: ["x", "y"], 2: ["u", "v"]}
    assert numbers.tolist() == [[0, 1, 0, 0], [1, 2, 0, 0], [0, 3, 1, 0]]


@pytest.mark.parametrize("cell", ["", " ", "NA", "nan", "NaN", "N/A", "null", "<NA>"])
def test_cells_without_a_value_are_read_as_nan_if_they_may_be_missing(cell: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"a,b,c\n1,x,2\n{cell},y,4\n")
    numbers, texts = read_numbers(path, header=True, text_columns=[1], missing=True)
    np.testing.assert_array_equal(numbers, [[1, 0, 2], [np.nan, 1, 4]])
    assert texts == {1: ["x", "y"]}
    with pytest.raises(DataError, match=r"line 3, column 3 \(c\) is 'four'"):
        read_numbers(written(tmp_path, f"a,b,c\n{cell},x,2\n1,y,four\n"), header=True, text_columns=[1], missing=True)


def test_a_number_with_an_underscore_is_no_number_next_to_missing_cells(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'1_0'"):
        read_numbers(written(tmp_path, "1_0,\n2,3\n"), header=False, missing=True)


def test_the_advice_names_the_column(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"Leave out \[b\]\.$"):
        read_numbers(written(tmp_path, "a,b\n1,x\n"), header=True, advice="Leave out [COLUMN].")
