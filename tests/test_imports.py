"""What import-linter cannot see: no pickle is read, and the array floor loads no model, data set or training."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import vaescope

ROOT = Path(vaescope.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
ARRAYS = ("numerics", "codes", "regime", "metrics", "similarity", "dimension")
UPPER = {"data", "nets", "posteriors", "priors", "likelihoods", "models", "objectives", "training", "encoding", "runs"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_file_is_read_with_pickle(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "weights_only"):
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is (node.arg == "weights_only")


@pytest.mark.parametrize("package", ARRAYS)
def test_the_array_floor_loads_nothing_from_above(package: str) -> None:
    code = f"import sys, json, vaescope.{package}; print(json.dumps([m for m in sys.modules if m[:9] == 'vaescope.']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[1] for name in json.loads(done.stdout)}
    assert package in loaded
    assert loaded & UPPER == set()


STUDIES = sorted((ROOT / "studies").rglob("*.py"))
SHARED = ("checks", "errors", "files", "markup", "notebook", "numerics", "registry", "tables", "terminal")


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_study_uses_public_names_alone(path: Path) -> None:
    # import-linter cannot tell the function `encode` of a package from its module `encode`.
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        module = (node.module or "").split(".") if isinstance(node, ast.ImportFrom) else []
        if module[:1] != ["vaescope"] or len(module) == 1 or module[1] in ("studies", *SHARED):
            continue
        package = importlib.import_module(f"vaescope.{module[1]}")
        assert len(module) == 2, ast.unparse(node)
        assert {name.name for name in node.names} <= set(package.__all__), ast.unparse(node)
