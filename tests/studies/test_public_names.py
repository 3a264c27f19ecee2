"""Studies use the library as its users do: through package-level names only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import vaescope.studies

FOLDER = Path(vaescope.studies.__file__).parent


def imported(file: Path) -> Iterator[tuple[str, str]]:
    """Modules of vaescope that a file imports from, with the names."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vaescope"):
            yield from ((node.module or "", name.name) for name in node.names)


def test_studies_import_only_package_level_names() -> None:
    found = {
        f"{file.relative_to(FOLDER)}: {module}"
        for file in FOLDER.rglob("*.py")
        for module, _ in imported(file)
        if module.count(".") > 1 and not module.startswith("vaescope.studies")
    }
    assert found == set()


def test_documents_do_not_import_each_other() -> None:
    documents = {"bonheme", "clapham", "mathieu", "pastrana", "rolinek"}
    for document in documents:
        files = [*(FOLDER / document).rglob("*.py"), *FOLDER.glob(f"{document}.py")]
        assert files, document
        for file in files:
            others = {module.split(".")[2] for module, _ in imported(file) if module.startswith("vaescope.studies.")}
            assert not others & (documents - {document}), file
