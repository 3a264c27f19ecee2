"""Outputs of notebooks in a browser without a network, also next to a loader of modules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from browser import chromium, opened

import vaescope as vs

# What notebooks with require.js define; a library that registers itself with it is not drawn.
LOADER = "<script>window.define = () => { throw new Error('registered'); }; window.define.amd = {};</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


def test_figures_are_drawn_without_a_network(browser: Any, tmp_path: Path) -> None:
    mean = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    codes = [vs.Representation(sign * mean, torch.full_like(mean, 0.1), mean) for sign in (1, -1)]
    output = vs.compare(codes)._repr_html_()
    file = tmp_path / "notebook.html"
    file.write_text(f"<meta charset='utf-8'>{LOADER}<div>{output}</div><div>{output}</div>", encoding="utf-8")
    with opened(browser, file) as page:
        page.wait_for_function("() => document.querySelectorAll('.vaescope-figure .main-svg').length >= 2")
        assert page.locator(".vaescope-figure.js-plotly-plot").count() == 2
        assert page.evaluate("() => typeof window.Plotly") == "undefined"
