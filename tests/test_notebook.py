"""Results, runs and cards are displayed in a notebook as in the report."""

from __future__ import annotations

import importlib
import pkgutil
import re
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vaescope as vs
from vaescope.codes import read_codes
from vaescope.data.arrays import from_array
from vaescope.diagnosis.cards import Card
from vaescope.markup import Markup
from vaescope.notebook import register_view, render_view
from vaescope.tables import MAX_HTML_ROWS, columns_of, table, text

NET = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}


def results() -> list[type[Any]]:
    """Every frozen class of the package with a summary and rows."""
    found = {}
    for module in pkgutil.walk_packages(vs.__path__, "vaescope."):
        if module.name.startswith(("vaescope.integrations", "vaescope.cli")):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            told = isinstance(value, type) and is_dataclass(value) and value.__module__.startswith("vaescope.")
            if told and callable(getattr(value, "summary", None)) and callable(getattr(value, "rows", None)):
                found[f"{value.__module__}.{value.__name__}"] = value
    return [found[name] for name in sorted(found)]


def test_there_are_results() -> None:
    assert len(results()) > 20


@pytest.mark.parametrize("result", results(), ids=lambda result: result.__name__)
def test_every_result_has_an_html_representation(result: type[Any]) -> None:
    assert callable(getattr(result, "_repr_html_", None))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> vs.Run:
    return vs.fit("digits", latents=3, net=NET, steps=40, runs=tmp_path_factory.mktemp("runs"))


def test_a_run_shows_its_settings_and_its_history(run: vs.Run) -> None:
    shown = run._repr_html_()
    assert run.id in shown
    assert "<td>digits</td>" in shown
    assert "vaescope-figure" in shown


def test_figures_bring_the_library_and_ask_for_nothing(run: vs.Run) -> None:
    shown = run._repr_html_()
    assert not re.search(r"""<(script|link|iframe|img)[^>]* (src|href)=|https?://|cdn\.""", shown)
    assert shown.count("DecompressionStream") == 2
    assert "PACKED_LIBRARY" not in shown
    assert len(shown) < 1_000_000


def test_stores_data_codes_and_histories_have_tables_and_pictures(run: vs.Run) -> None:
    store = vs.Store(run.path.parent)._repr_html_()
    assert store is not None
    assert run.id in store
    assert "<svg" in store
    assert "0 runs in" in (vs.Store(run.path / "nothing")._repr_html_() or "")
    data = vs.open_dataset("digits")
    shown = data._repr_html_() or ""
    assert "items: 1,797; shape: 1 x 8 x 8" in shown
    assert shown.count("<img") == 10
    assert (data.draw(4)._repr_html_() or "").count("<img") == 4
    codes = vs.encode(run, data)
    shown = codes._repr_html_() or ""
    assert "1,797 items, 3 latents" in shown
    assert shown.count('class="picture histogram"') == 3
    history = run.history._repr_html_() or ""
    assert "vaescope-figure" in history
    assert f"History of {len(run.history)} rows" in history
    assert run.history == list(run.history)


def test_codes_that_cannot_be_diagnosed_say_why() -> None:
    mean = torch.zeros(5, 2)
    shown = vs.Representation(mean, mean - 1, mean)._repr_html_() or ""
    assert "5 items, 2 latents" in shown
    assert "variance" in shown


def test_metrics_name_the_factors_of_codes(tmp_path: Path) -> None:
    factors = np.stack([np.arange(60) % 3, np.arange(60) % 4], 1)
    mean = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    codes = vs.Representation(
        mean, torch.full_like(mean, 0.1), mean, torch.from_numpy(factors), factor_names=("a", "b")
    )
    assert vs.metrics.mig(codes).factors == ("a", "b")
    assert vs.metrics.mig(codes, names=["c", "d"]).factors == ("c", "d")
    codes.save(tmp_path / "codes.npz")
    assert vs.Representation.load(tmp_path / "codes.npz").factor_names == ("a", "b")
    assert read_codes(tmp_path / "codes.npz").factor_names == ("a", "b")
    data = from_array(np.random.default_rng(0).random((60, 5)), factors=factors, factor_names=("a", "b"))
    encoded = vs.encode(lambda x: (x[:, :2], torch.ones_like(x[:, :2])), data)
    assert encoded.factor_names == ("a", "b")


def test_a_diagnosis_shows_its_cards_and_its_latents(run: vs.Run) -> None:
    found = vs.diagnose(run)
    shown = found._repr_html_()
    assert found.summary() in shown
    assert shown.count('class="card ') == len(found.cards)
    assert "<style>" in shown
    assert "body {" not in shown


def test_a_card_escapes_its_text() -> None:
    shown = Card("<b>", "note", "1 < 2", "", [{"<i>": "&"}])._repr_html_()
    assert "<h3>&lt;b&gt;</h3>" in shown
    assert '<th scope="col">&lt;i&gt;</th>' in shown


def test_types_show_their_table(run: vs.Run) -> None:
    types = vs.variable_types(vs.encode(run.model, "digits"))
    shown = types._repr_html_()
    assert types.summary() in shown
    assert shown.count("<tr>") == 1 + 3


def test_a_heatmap_of_layers_is_drawn(run: vs.Run) -> None:
    data = vs.open_dataset("digits").draw(50)
    assert "heatmap" in vs.encoding.layer_similarity(run.model, run.model, data)._repr_html_()


def test_a_table_has_all_columns_and_says_how_many_rows_it_shows() -> None:
    rows: list[dict[str, Any]] = [{"a_b": 1.23456789, "c": None}, {"d": "x"}]
    shown = table(rows, "Rows")
    assert shown.count("<th ") == 3
    assert "<td>1.2346</td><td></td><td></td>" in shown
    assert f"the first {MAX_HTML_ROWS} of 300" in table([{"a": place} for place in range(300)], "Many")


def test_cells_and_columns() -> None:
    assert [text(value) for value in (None, 1, 0.123456789, "a")] == ["", "1", "0.12346", "a"]
    assert columns_of([{"b": 1}, {"a": 2, "b": 3}]) == ["b", "a"]


def test_a_result_without_a_view_has_none() -> None:
    assert render_view(np.zeros(3)) is None


def test_a_registered_view_applies_only_to_its_class() -> None:
    class Mine: ...

    class Other(Mine): ...

    @register_view(Mine)
    def show(result: Mine) -> Markup:
        return Markup("<i>mine</i>")

    assert (render_view(Mine()), render_view(Other())) == ("<i>mine</i>", None)
