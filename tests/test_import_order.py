"""The tree is the pipeline: a package imports only from packages above it, and heavy packages have one home."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import vaescope

ROOT = Path(vaescope.__file__).parent
ORDER = [
    "errors",
    "checks",
    "registry",
    "progress",
    "markup",
    "showing",
    "numerics",
    "data",
    "nets",
    "posteriors",
    "priors",
    "likelihoods",
    "models",
    "objectives",
    "training",
    "representation",
    "regime",
    "metrics",
    "similarity",
    "dimension",
    "integrations",
    "runs",
    "fondue",
    "studies",
    "report",
    "cli",
    "__main__",
]
# Foreign package -> the packages of ours that may import it.
HOMES: dict[str, set[str]] = {
    "pydantic": {"runs", "cli"},
    "plotly": {"report"},
    "duckdb": {"runs"},
    "lightgbm": {"metrics"},
    "torchmetrics": {"integrations"},
    "lightning": {"integrations"},
    "onnx": {"runs"},
    "onnxruntime": {"runs"},
    "onnxscript": {"runs"},
    "ray": {"runs"},
    "torchvision": set(),
    "pickle": set(),
    "cloudpickle": set(),
    "dill": set(),
    "joblib": set(),
    "shelve": set(),
}


def imported(source: str, module: str) -> Iterator[str]:
    """Every module that a source imports, anywhere in it; `module` is its own dotted package."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -(node.level - 1) or None] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{name.name}" for name in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            yield from (one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str))


def violations(source: str, package: str, module: str | None = None) -> list[str]:
    """What a source in one of our packages imports against the rules."""
    found = []
    for name in imported(source, module or f"vaescope.{package}"):
        top, _, rest = name.partition(".")
        if top in HOMES and package not in HOMES[top]:
            found.append(f"{package} imports {name}, which belongs to {sorted(HOMES[top]) or 'no package'}")
        if top != "vaescope" or rest == "__version__":
            continue
        target = rest.partition(".")[0]
        if target not in ORDER:
            found.append(f"{package} imports {name}, which is no package of the pipeline")
        elif ORDER.index(target) > ORDER.index(package):
            found.append(f"{package} imports {name}, which stands below it")
    return found


def package_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_file_imports_only_from_above_and_heavy_packages_only_at_home(path: Path) -> None:
    module = ".".join(("vaescope", *path.relative_to(ROOT).parts[:-1]))
    assert violations(path.read_text(), package_of(path), module) == []


def test_every_package_has_its_place_in_the_order() -> None:
    assert {package_of(path) for path in FILES} <= set(ORDER)


def test_the_packages_are_found() -> None:
    assert {"errors", "numerics", "models", "cli"} <= {package_of(path) for path in FILES}


@pytest.mark.parametrize("path", [ROOT / "__init__.py", *FILES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_file_is_read_with_pickle(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.keyword) and node.arg in ("allow_pickle", "weights_only"):
            wanted = node.arg == "weights_only"
            assert isinstance(node.value, ast.Constant)
            assert node.value.value is wanted


def test_the_package_itself_imports_nothing_at_once_but_the_standard_library() -> None:
    top = [node for node in ast.parse((ROOT / "__init__.py").read_text()).body if isinstance(node, ast.stmt)]
    at_once = [node for node in top if isinstance(node, ast.Import | ast.ImportFrom)]
    assert {ast.unparse(node).split()[1] for node in at_once} <= {"__future__", "importlib", "typing"}


@pytest.mark.parametrize(
    ("source", "package"),
    [
        ("from vaescope.training import Plan", "models"),
        ("import vaescope.runs.store", "numerics"),
        ("from vaescope import data", "numerics"),
        ("from vaescope import fit", "data"),
        ("import vaescope", "data"),
        ("def late():\n    from vaescope.cli import main", "runs"),
        ("if TYPE_CHECKING:\n    from vaescope.models import VAE", "nets"),
        ("class A:\n    def f(self):\n        import vaescope.report", "metrics"),
        ("from ..training import Plan", "models"),
        ("from .. import training", "models"),
        ("import importlib\nimportlib.import_module('vaescope.training')", "models"),
        ("from vaescope.elsewhere import thing", "cli"),
        ("import pydantic", "training"),
        ("from pydantic import BaseModel", "data"),
        ("def late():\n    import plotly.graph_objects", "runs"),
        ("import duckdb", "cli"),
        ("import lightgbm", "regime"),
        ("from torchmetrics import Metric", "metrics"),
        ("import lightning", "training"),
        ("from torchvision import datasets", "data"),
        ("import pickle", "runs"),
        ("from pickle import loads", "data"),
    ],
)
def test_the_check_catches_a_violation(source: str, package: str) -> None:
    assert len(violations(source, package)) == 1


@pytest.mark.parametrize(
    ("source", "package"),
    [
        ("from vaescope.models import VAE", "training"),
        ("from vaescope.models.vae import VAE", "models"),
        ("from .vae import VAE", "models"),
        ("from ..nets import Conv", "models"),
        ("from vaescope import __version__", "runs"),
        ("from vaescope.errors import DataError", "registry"),
        ("import pydantic", "cli"),
        ("import plotly", "report"),
        ("import torch, numpy", "numerics"),
    ],
)
def test_the_check_lets_pass_what_is_allowed(source: str, package: str) -> None:
    assert violations(source, package) == []
