"""The table of latents: its rows, its optional columns, and how it sorts and fits in a browser."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from browser import chromium, opened

from vaescope.codes import Representation
from vaescope.data.arrays import from_array
from vaescope.diagnosis.diagnose import Diagnosis, diagnose
from vaescope.encoding import encode, traversals
from vaescope.errors import DataError
from vaescope.models import Architecture
from vaescope.reporting.assets import asset
from vaescope.reporting.latent_table import MAX_PICTURED, LatentRow, latent_rows, latent_table, pictured_latents

ITEMS = 200
EVIL = "<script>alert(1)</script>"
PAGE = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1"><title>Latents</title>'
    '<style>{style}</style><script>{script}</script></head><body class="vaescope">{body}</body></html>'
)


def some_codes(passive: int = 2) -> Representation:
    """Two active latents that encode a factor each, a mixed one, and passive ones; the first follows latent 0."""
    random = torch.Generator().manual_seed(0)
    noise = torch.randn(ITEMS, 3 + passive, generator=random, dtype=torch.float64)
    factors = torch.stack([torch.arange(ITEMS) % 4, torch.arange(ITEMS) // 4 % 5], dim=1)
    mean = torch.cat([factors - 2 + 0.1 * noise[:, :2], 0.5 * noise[:, 2:3], 0.01 * noise[:, 3:]], dim=1)
    if passive:
        mean[:, 3] += 0.01 * mean[:, 0]
    variance = torch.full_like(mean, 1.0)
    variance[:, :2], variance[:, 2] = 0.01, 0.5
    return Representation(mean, variance, mean, factors)


def some_rows(count: int) -> list[LatentRow]:
    """`count` latents with increasing KL divergence."""
    codes = some_codes()
    row = latent_rows(diagnose(codes), codes)[0]
    return [dataclasses.replace(row, latent=latent, kl=float(latent)) for latent in range(count)]


@pytest.fixture(scope="module")
def codes() -> Representation:
    return some_codes()


@pytest.fixture(scope="module")
def diagnosis(codes: Representation) -> Diagnosis:
    return diagnose(codes)


@pytest.fixture(scope="module")
def rows(diagnosis: Diagnosis, codes: Representation) -> tuple[LatentRow, ...]:
    return latent_rows(diagnosis, codes)


@pytest.fixture(scope="module")
def pictures() -> dict[str, Any]:
    """Items and traversals of an untrained model of five latents."""
    images = np.random.default_rng(0).integers(0, 256, (ITEMS, 1, 16, 16), dtype=np.uint8)
    data = from_array(images)
    net = {"name": "mlp", "encoder_widths": (8,), "decoder_widths": (8,)}
    model = Architecture("vae", net, "diagonal").build((1, 16, 16), 5, seed=0)
    return {"items": data, "traversals": traversals(model, data, encode(model, data))}


def test_rows_agree_with_the_diagnosis(rows: tuple[LatentRow, ...], diagnosis: Diagnosis) -> None:
    for row, expected in zip(rows, diagnosis.rows(), strict=True):
        assert (row.latent, row.type, row.kl, row.share) == (
            expected["latent"],
            expected["type"],
            expected["kl"],
            expected["kl_share"],
        )
    assert [row.type for row in rows] == ["active", "active", "mixed", "passive", "passive"]


def test_means_are_counted_over_one_range_for_all_latents(rows: tuple[LatentRow, ...], codes: Representation) -> None:
    low, high = rows[0].limits
    assert {row.limits for row in rows} == {(low, high)}
    assert (-low, high) == (high, float(codes.mean.abs().max()))
    for row in rows:
        expected = [0] * len(row.means)
        for value in codes.mean[:, row.latent].tolist():
            expected[min(int((value - low) / (high - low) * len(expected)), len(expected) - 1)] += 1
        assert list(row.means) == expected
        assert sum(row.variances) == ITEMS


def test_the_strongest_correlation_is_with_another_passive_latent(
    rows: tuple[LatentRow, ...], codes: Representation
) -> None:
    matrix = np.abs(np.corrcoef(codes.mean.numpy().T))
    for row in rows:
        others = [other for other in (3, 4) if other != row.latent]
        assert row.correlated in others
        assert row.correlation == pytest.approx(max(matrix[row.latent, other] for other in others))


@pytest.mark.parametrize("passive", [0, 1])
def test_without_another_passive_latent_there_is_no_correlation(passive: int) -> None:
    codes = some_codes(passive)
    correlations = [row.correlation for row in latent_rows(diagnose(codes), codes)]
    assert [value is None for value in correlations] == ([True] * 3 if passive == 0 else [False] * 3 + [True])


def test_a_latent_encodes_the_factor_with_the_most_bits(rows: tuple[LatentRow, ...], diagnosis: Diagnosis) -> None:
    meaning = diagnosis.meaning
    assert meaning is not None
    for latent in (0, 1):
        assert rows[latent].factor == meaning.factors[latent]
        assert rows[latent].bits == meaning.bits[latent].max()
    assert (rows[2].factor, rows[2].bits) == (rows[4].factor, rows[4].bits) == (None, 0.0)


def test_without_factors_nothing_is_said_about_encoding(codes: Representation) -> None:
    bare = dataclasses.replace(codes, factors=None)
    rows = latent_rows(diagnose(bare), bare)
    assert {(row.factor, row.bits) for row in rows} == {(None, None)}
    assert "Encodes" not in latent_table(rows)


def test_extreme_items_have_the_smallest_and_largest_means(rows: tuple[LatentRow, ...], codes: Representation) -> None:
    for row in rows:
        means = codes.mean[:, row.latent].tolist()
        assert [means[place] for place in row.smallest] == sorted(means)[:3]
        assert [means[place] for place in row.largest] == sorted(means, reverse=True)[:3]


def test_a_diagnosis_of_other_codes_raises_an_error(diagnosis: Diagnosis) -> None:
    other = some_codes(passive=1)
    with pytest.raises(DataError, match=r"200 items and 5 latents.*200 and 4"):
        latent_rows(diagnosis, other)


def test_columns_without_data_are_omitted(rows: tuple[LatentRow, ...], pictures: dict[str, Any]) -> None:
    bare, full = latent_table(rows), latent_table(rows, **pictures)
    for title in ("Traversal", "Extreme items"):
        assert f">{title}</th>" not in bare
        assert f">{title}</th>" in full
    assert full.count("<img") == 5 * 3
    assert "Extreme items" not in latent_table(rows, traversals=pictures["traversals"])


def test_every_picture_and_histogram_has_a_text(rows: tuple[LatentRow, ...], pictures: dict[str, Any]) -> None:
    table = latent_table(rows, **pictures)
    assert 'alt=""' not in table
    assert table.count("alt=") == table.count("<img")
    assert table.count("<title>") == table.count("<svg") == 10
    assert "9 decoded items with latent 2 from" in table
    assert "<caption>3 latents: 2 active, 1 mixed</caption>" in table
    assert "<caption>2 latents: 2 passive</caption>" in table
    assert table.count('scope="row"') == 5


def test_only_the_latents_with_the_largest_kl_have_pictures(pictures: dict[str, Any]) -> None:
    rows = some_rows(MAX_PICTURED + 6)
    assert pictured_latents(rows) == tuple(range(6, MAX_PICTURED + 6))
    table = latent_table(rows, items=pictures["items"])
    assert table.count("<img") == 2 * MAX_PICTURED
    note = f"Only the {MAX_PICTURED} latents with the largest rates"
    assert note in table
    assert note not in latent_table(rows)


def test_factor_names_are_escaped(rows: tuple[LatentRow, ...]) -> None:
    table = latent_table([dataclasses.replace(row, factor=EVIL) for row in rows])
    assert "<script" not in table
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in table


def test_an_infinite_rate_is_shown(rows: tuple[LatentRow, ...]) -> None:
    table = latent_table([dataclasses.replace(rows[0], kl=math.inf, share=None)])
    assert "∞" in table
    assert 'data-sort="Infinity"' in table


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def file(rows: tuple[LatentRow, ...], pictures: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables: the second without pictures and with markup in the name of a factor."""
    rate = [dataclasses.replace(rows[0], kl=math.inf), *rows[1:]]
    wicked = [dataclasses.replace(row, factor=EVIL if row.latent == 1 else row.factor) for row in rate]
    body = latent_table(rate, **pictures, name="first") + latent_table(wicked, name="second")
    path = tmp_path_factory.mktemp("page") / "latents.html"
    styles = asset("cards.css") + asset("page.css") + asset("latents.css")
    path.write_text(PAGE.format(style=styles, script=asset("latents.js"), body=body), encoding="utf-8")
    return path


def order(page: Any, table: str = "first") -> list[int]:
    return [int(cell.get_attribute("data-sort")) for cell in page.locator(f"#{table} tbody th").all()]


def sorted_by(page: Any) -> list[str]:
    """The sorted columns of the first table, with their directions."""
    headers = page.locator("#first th[aria-sort]").all()
    return [f"{header.inner_text()} {header.get_attribute('aria-sort')}" for header in headers]


def test_a_click_sorts_and_another_reverses(browser: Any, file: Path, rows: tuple[LatentRow, ...]) -> None:
    with opened(browser, file, width=1400) as page:
        used = [row.latent for row in rows if row.type != "passive"]
        by_rate = sorted(used, key=lambda latent: math.inf if latent == 0 else rows[latent].kl)
        assert order(page) == by_rate[::-1]
        assert sorted_by(page) == ["Rate, share descending"]
        button = page.locator("#first thead").get_by_role("button", name="Rate")
        button.click()
        assert order(page) == by_rate
        assert sorted_by(page) == ["Rate, share ascending"]
        assert order(page, "second") == by_rate[::-1]


def test_the_keyboard_sorts_and_keeps_the_focus(browser: Any, file: Path) -> None:
    with opened(browser, file, width=1400) as page:
        page.locator("#first thead").get_by_role("button", name="Latent").focus()
        page.keyboard.press("Enter")
        assert order(page) == [0, 1, 2]
        page.keyboard.press("Enter")
        assert order(page) == [2, 1, 0]
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        assert sorted_by(page) == ["Type ascending"]
        assert order(page)[-1] == 2
        assert page.evaluate("document.activeElement.textContent") == "Type"


def test_missing_values_come_last_in_both_directions_and_equal_ones_keep_their_order(browser: Any, file: Path) -> None:
    with opened(browser, file, width=1400) as page:
        button = page.locator("#second thead").get_by_role("button", name="Encodes")
        button.click()
        assert order(page, "second") == [1, 0, 2]
        button.click()
        assert order(page, "second") == [0, 1, 2]
        assert page.locator("#second td.encodes b").filter(has_text=EVIL).count() == 1


def test_on_a_narrow_screen_a_menu_sorts(browser: Any, file: Path) -> None:
    with opened(browser, file, width=390) as page:
        choice = page.locator('.sort-choice[data-table="first"]')
        assert not page.locator("#first thead").is_visible()
        choice.get_by_label("Sort by").select_option(label="Rate, share")
        first = order(page)
        assert first[0] == 0
        choice.get_by_role("button", name="Reverse").click()
        assert order(page) == first[::-1]
    with opened(browser, file, width=1400) as page:
        assert not page.locator('.sort-choice[data-table="first"]').is_visible()


@pytest.mark.parametrize("width", [390, 800, 1000, 1240, 1400])
def test_the_page_does_not_scroll_sideways(browser: Any, file: Path, width: int) -> None:
    with opened(browser, file, width=width) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        ends = page.evaluate("[...document.querySelectorAll('img')].map(one => one.getBoundingClientRect().right)")
        assert max(ends) <= width


def test_strips_are_at_least_45_pixels_high(browser: Any, file: Path) -> None:
    with opened(browser, file, width=1400) as page:
        heights = page.evaluate("[...document.querySelectorAll('.traversals img')].map(i => i.clientHeight)")
        assert min(heights) >= 45


def test_the_script_defines_one_name(browser: Any, file: Path) -> None:
    with opened(browser, file) as page:
        assert page.evaluate("Object.keys(window.vaescope)") == ["sortTable"]
        page.evaluate("vaescope.sortTable(document.getElementById('second'), 0, 'descending')")
        assert order(page, "second") == [2, 1, 0]
