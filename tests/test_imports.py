"""What linters cannot see: no pickle is read, array packages load no model, and a name stands for one class."""

from __future__ import annotations

import ast
import functools
import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

import vaescope

ROOT = Path(vaescope.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
ARRAYS = ("numerics", "codes", "regime", "metrics", "similarity", "dimension")
UPPER = {"data", "nets", "posteriors", "priors", "likelihoods", "models", "objectives", "training", "encoding", "runs"}


PICKLING = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
RUNNING = {"torch.load", "torch.jit.load", "torch.hub.load", "eval", "exec"}  # code in what they read
WRITING = {"write_text", "write_bytes", "savez", "savez_compressed", "savetxt", "tofile", "to_csv", "to_parquet"}
# `files.py` itself, an archive that is moved when it is whole, journals, and temporary files for duckdb.
WRITERS = {"files.py", "data/stored_rows.py", "runs/journal.py", "runs/queries.py"}


@functools.cache
def nodes_of(path: Path) -> list[ast.AST]:
    """The syntax tree of a file, flattened."""
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_file_is_read_with_pickle(path: Path) -> None:
    for node in nodes_of(path):
        if isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "weights_only"):
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is (node.arg == "weights_only")
        elif isinstance(node, ast.Import | ast.ImportFrom):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else [name.name for name in node.names]
            assert not PICKLING.intersection(module.partition(".")[0] for module in modules)
        elif isinstance(node, ast.Call):
            assert ast.unparse(node.func) not in RUNNING


def test_files_are_written_by_the_functions_that_replace_them_as_a_whole() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.Call) and _writes(node)
    }
    assert found == WRITERS


def _writes(call: ast.Call) -> bool:
    """Whether a call writes a file by name; `open_output` gives files that may be written to."""
    _, dot, name = ast.unparse(call.func).rpartition(".")
    if name == "open":
        return any(isinstance(one, ast.Constant) and set(str(one.value)) & set("wax+") for one in call.args[-2:])
    return (
        bool(dot) and name in WRITING and not any(isinstance(one, ast.Name) and one.id == "file" for one in call.args)
    )


# One interpreter for all packages: loading torch takes longer than the rest.
LOAD = """
import importlib, json, sys
loaded = {}
for package in sys.argv[1:]:
    importlib.import_module(f"vaescope.{package}")
    loaded[package] = [name for name in sys.modules if name.startswith("vaescope.")]
print(json.dumps(loaded))
"""


def test_the_array_packages_load_no_higher_package() -> None:
    done = subprocess.run([sys.executable, "-c", LOAD, *ARRAYS], capture_output=True, text=True, check=True)
    for package, modules in json.loads(done.stdout).items():
        loaded = {name.split(".")[1] for name in modules}
        assert package in loaded
        assert loaded & UPPER == set(), package


STUDIES = sorted((ROOT / "studies").rglob("*.py"))
SHARED = ("checks", "errors", "files", "markup", "notebook", "numerics", "registry", "tables", "terminal")


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_study_uses_only_public_names(path: Path) -> None:
    # import-linter cannot tell the function `encode` of a package from its module `encode`.
    for node in nodes_of(path):
        module = (node.module or "").split(".") if isinstance(node, ast.ImportFrom) else []
        if module[:1] != ["vaescope"] or len(module) == 1 or module[1] in ("studies", *SHARED):
            continue
        package = importlib.import_module(f"vaescope.{module[1]}")
        assert len(module) == 2, ast.unparse(node)
        assert {name.name for name in node.names} <= set(package.__all__), ast.unparse(node)


def test_every_optional_package_has_a_contract() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    # A contract for all of the package covers packages that are added later.
    restricted = {
        module
        for contract in contracts
        if contract["type"] == "forbidden" and contract["source_modules"] == ["vaescope"]
        for module in contract["forbidden_modules"]
    }
    extras = {
        name: found
        for name, found in project["project"]["optional-dependencies"].items()
        if name not in ("dev", "docs")
    }
    optional = {re.split(r"[^\w.-]", requirement)[0] for found in extras.values() for requirement in found}
    assert len(optional) >= len(extras) > 5
    assert optional <= restricted


def test_a_class_name_stands_for_one_class() -> None:
    names = Counter(node.name for path in FILES for node in nodes_of(path) if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []
