"""Training on a sparse matrix takes far less memory than its dense array."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "sparse_memory.py"
ROWS, COLUMNS = 60_000, 2000


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not report the peak in this way")
def test_training_on_a_sparse_matrix_takes_less_than_half_of_its_dense_array(tmp_path: Path) -> None:
    sizes = ["--rows", str(ROWS), "--columns", str(COLUMNS), "--steps", "3", "--json", str(tmp_path / "found.json")]
    subprocess.run([sys.executable, str(BENCHMARK), *sizes], check=True, capture_output=True)
    (found,) = json.loads((tmp_path / "found.json").read_text())["tables"]["bytes and seconds"]
    assert found["fit peak"] - found["import peak"] < 0.6 * 4 * ROWS * COLUMNS
    assert found["open peak"] - found["build peak"] < 0.2 * 4 * ROWS * COLUMNS
