"""Frames in a browser: a slider shows what the model decodes, for decoders that the page cannot run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from browser import chromium, opened
from foreign import Convolutional, digits, unchanged
from frame_pages import FRAME_DATA, PAINTED, after, drawn, move

import vaescope as vs
from vaescope.reporting.frames import FRAMES


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


def decoded(model: Convolutional, code: torch.Tensor) -> np.ndarray:
    with torch.no_grad():
        found: np.ndarray = model.decode(code[None].float())[0].numpy()
    return found


def places(model: Any, items: torch.Tensor) -> list[int]:
    """The items that frames start from."""
    found = vs.diagnose(model, items).reconstruction
    return [row["item"] for row in found.rows()]


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("spatial", [False, True], ids=["vectors", "spatial"])
def test_a_slider_shows_what_the_model_decodes(browser: Any, spatial: bool, channels: int, tmp_path: Path) -> None:
    model = Convolutional(spatial=spatial, channels=channels)
    items = digits().repeat(1, channels, 1, 1)
    with unchanged(model):
        file = vs.report(model, tmp_path / "report.html", items)
    model.eval()
    codes = vs.encode(model, items)
    with opened(browser, file) as page:
        strips = page.evaluate(FRAME_DATA)["strips"]
        # From the best to the worst reconstruction.
        starts = places(model, items)
        for number, latent, place in ((0, 0, 0), (0, 2, FRAMES - 1), (3, 1, 5)):
            if number:
                after(page, page.locator("button.start").nth(number).click)
            move(page, latent, place)
            code = codes.code(int(starts[number])).clone()
            value = strips[number][str(latent)]["values"][place]
            if spatial:
                code[latent] += value - code[latent].mean()
            else:
                code[latent] = value
            np.testing.assert_allclose(drawn(page, channels), decoded(model, code) * 255, atol=0.6)
            shown = page.locator(f"#latent-{latent}").evaluate("one => one.nextElementSibling.textContent")
            assert shown == f"{value:.2f}".replace("-0.00", "0.00") or float(shown) == pytest.approx(value, abs=0.006)


def test_keys_move_one_latent_and_put_the_others_back(browser: Any, tmp_path: Path) -> None:
    file = vs.report(Convolutional(), tmp_path / "report.html", digits())
    with opened(browser, file) as page:
        strips = page.evaluate(FRAME_DATA)["strips"]
        own = strips[0]["0"]["own"]
        first = drawn(page)
        page.locator("#latent-0").focus()
        key = "ArrowRight" if own < FRAMES // 2 else "ArrowLeft"
        for _ in range(4):
            after(page, lambda: page.keyboard.press(key))
        assert abs(int(page.locator("#latent-0").input_value()) - own) == 4
        assert not np.array_equal(drawn(page), first)
        move(page, 1, 0)
        assert int(page.locator("#latent-0").input_value()) == own
        after(page, page.locator("#frames button.reset").click)
        assert np.array_equal(drawn(page), first)


def test_vectors_are_drawn_and_their_numbers_are_close(browser: Any, tmp_path: Path) -> None:
    table = torch.randn(60, 6, generator=torch.Generator().manual_seed(0))
    mixing = torch.randn(2, 6, generator=torch.Generator().manual_seed(1))
    model = vs.wrap(lambda x: (x[:, :2], torch.full_like(x[:, :2], 0.01)), decode=lambda z: z @ mixing)
    with opened(browser, vs.report(model, tmp_path / "report.html", table)) as page:
        page.wait_for_function("() => vaescope.frames.painted > 0")
        before = page.evaluate(PAINTED)
        move(page, 1, 0)
        assert page.evaluate(PAINTED) != before
        value = page.evaluate(FRAME_DATA)["strips"][0]["1"]["values"][0]
        wanted = torch.stack([table[places(model, table)[0], 0], torch.tensor(value)]) @ mixing
        np.testing.assert_allclose(page.evaluate("() => vaescope.frames.values"), wanted, atol=1e-3)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_its_window(browser: Any, tmp_path: Path, width: int) -> None:
    file = vs.report(Convolutional(spatial=True), tmp_path / "report.html", digits())
    with opened(browser, file, width=width) as page:
        assert page.evaluate("() => document.documentElement.scrollWidth") == width
