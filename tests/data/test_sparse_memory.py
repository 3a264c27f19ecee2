"""Training on a sparse matrix of 200,000 x 2,000 counts takes far less memory than its dense array."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "sparse_memory.py"
LIMIT = 1.5e9  # bytes, with the libraries; the dense array alone has 1.6e9


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not report the peak in this way")
def test_training_on_a_sparse_matrix_takes_less_than_half_of_its_dense_array(tmp_path: Path) -> None:
    arguments = ["--steps", "3", "--json", str(tmp_path / "found.json")]
    subprocess.run([sys.executable, str(BENCHMARK), *arguments], check=True, capture_output=True)
    (found,) = json.loads((tmp_path / "found.json").read_text())["tables"]["bytes and seconds"]
    assert found["dense"] == 4 * 200_000 * 2000
    assert found["fit peak"] < LIMIT
    assert found["fit peak"] - found["import peak"] < 0.5 * found["dense"]
    assert found["open peak"] - found["build peak"] < 0.2 * found["dense"]
