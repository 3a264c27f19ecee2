"""Tutorials as notebooks with outputs: the same text and examples, from the same run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pages import Part

# Tutorial -> its notebook.
NOTEBOOKS = {"own-model": "own_model.ipynb", "size-and-beta": "size_and_beta.ipynb"}


def notebook(parts: Sequence[Part]) -> dict[str, Any]:
    """The notebook of a page, in version 4 of the format."""
    cells = [cell for number, part in enumerate(parts) if (cell := _cell(part, number)) is not None]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def update_notebook(parts: Sequence[Part], file: Path) -> None:
    """Write the notebook of a page, unless it has the same text and examples: outputs differ between machines."""
    made = notebook(parts)
    if not file.is_file() or sources(json.loads(file.read_text(encoding="utf-8"))) != sources(made):
        file.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def sources(content: dict[str, Any]) -> list[list[str]]:
    """The text and examples of a notebook."""
    return [cell["source"] for cell in content["cells"]]


def _cell(part: Part, number: int) -> dict[str, Any] | None:
    if not part.text.strip():
        return None
    common = {"id": f"cell-{number}", "metadata": {}}
    if not part.language:
        return {"cell_type": "markdown", **common, "source": _lines(part.text.strip())}
    source = part.text.rstrip() if part.language == "python" else f"%%bash\n{part.text.rstrip()}"
    return {"cell_type": "code", **common, "execution_count": None, "source": _lines(source), "outputs": _outputs(part)}


def _outputs(part: Part) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = []
    if part.output.text:
        shown.append({"output_type": "stream", "name": "stdout", "text": _lines(part.output.text)})
    data = {"text/html": _lines(part.output.html)} if part.output.html else {}
    data |= {"text/plain": _lines(part.output.value)} if part.output.value else {}
    if data:
        shown.append({"output_type": "execute_result", "execution_count": None, "data": data, "metadata": {}})
    return shown


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
