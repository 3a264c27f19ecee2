"""The examples in the documentation run as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from vaescope.likelihoods import LIKELIHOODS
from vaescope.metrics import METRICS
from vaescope.objectives import OBJECTIVES
from vaescope.priors import PRIORS

DOCS = Path(__file__).parent.parent / "docs"
BLOCKS = re.findall(r"```python\n(.*?)```", (DOCS / "extend.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture(autouse=True)
def _unregister_afterwards() -> Iterator[None]:
    registries = (LIKELIHOODS, OBJECTIVES, PRIORS, METRICS)
    before = [set(registry) for registry in registries]
    yield
    for registry, names in zip(registries, before, strict=True):
        for name in set(registry) - names:
            registry.unregister(name)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_an_example_of_a_part_works_as_shown(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(BLOCKS[number], f"extend.md, block {number}", "exec", dont_inherit=True), {"__name__": __name__})
    assert capsys.readouterr().out.strip()


def test_the_document_has_examples() -> None:
    assert BLOCKS
