"""The report in a browser: sliders, sorting, narrow screens, accessibility."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from browser import chromium, opened

import vaescope as vs
from vaescope.data.arrays import from_array
from vaescope.reporting.style import DARK_COLOURS, TEXT

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

NET = {"name": "mlp", "encoder_widths": [32], "decoder_widths": [32]}
AXE = Path(os.environ.get("VAESCOPE_AXE", Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"))
MAX_BYTES = 2_500_000
WICKED = "<script>document.title = 'gone'</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def sprites(folder: Path) -> tuple[vs.Run, Path]:
    """A convolutional model with 10 latents on sprites, and its page."""
    run = vs.fit("dsprites-small", latents=10, steps=60, learning_rate=1e-3, runs=folder / "runs", batch=32)
    return run, vs.report(run, folder / "sprites.html")


@pytest.fixture(scope="module")
def conditional_run(folder: Path) -> tuple[vs.Run, Path]:
    """A conditional model on digits, and its page."""
    options: dict[str, Any] = {"model": "conditional", "net": NET, "steps": 300, "learning_rate": 3e-3}
    run = vs.fit("digits", latents=4, runs=folder / "runs", **options)
    return run, vs.report(run, folder / "digits.html")


def state(page: Any) -> dict[str, Any]:
    return page.evaluate(
        "() => ({code: vaescope.live.code, condition: vaescope.live.condition, decoded: [...vaescope.live.decoded]})"
    )


def decoded(run: vs.Run, found: dict[str, Any]) -> np.ndarray:
    """The item that PyTorch decodes from the current code of the page."""
    condition = torch.tensor([found["condition"]]) if found["condition"] else None
    with torch.no_grad():
        return run.model.decode(torch.tensor([found["code"]]), condition).mean.flatten().numpy()


def painted(page: Any) -> list[int]:
    """The bytes of the canvas."""
    text = page.evaluate(
        "() => { const c = document.querySelector('canvas.decoded');"
        " return c.getContext('2d').getImageData(0, 0, c.width, c.height).data.join() }"
    )
    return [int(level) for level in text.split(",")]


def move(page: Any, latent: int, value: float) -> None:
    page.evaluate(
        "([latent, value]) => { const s = document.getElementById(`latent-${latent}`); s.value = value;"
        " s.dispatchEvent(new Event('input')) }",
        [latent, value],
    )


def test_a_slider_shows_what_pytorch_decodes(browser: Any, sprites: tuple[vs.Run, Path]) -> None:
    run, file = sprites
    with opened(browser, file) as page:
        before, first = state(page), painted(page)
        np.testing.assert_allclose(before["decoded"], decoded(run, before), atol=1e-4)
        for latent in range(10):
            move(page, latent, 2.0)
        after = state(page)
        assert np.allclose(after["code"], 2.0, atol=0.05)
        np.testing.assert_allclose(after["decoded"], decoded(run, after), atol=1e-4)
        assert painted(page) != first
        grey = np.array(painted(page)).reshape(-1, 4)
        np.testing.assert_allclose(grey[:, 0], np.array(after["decoded"]) * 255, atol=0.51)
        assert (grey[:, 3] == 255).all()


def test_keys_move_a_slider_and_its_number(browser: Any, sprites: tuple[vs.Run, Path]) -> None:
    with opened(browser, sprites[1]) as page:
        page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true })")
        slider = page.locator("#latent-3")
        before = state(page)["code"][3]
        slider.focus()
        for _ in range(10):
            page.keyboard.press("ArrowRight")
        after = state(page)["code"][3]
        assert after > before
        assert slider.evaluate("one => one.nextElementSibling.textContent") == f"{after:.2f}"


def test_reset_examples_and_prior_draws_set_the_code(browser: Any, conditional_run: tuple[vs.Run, Path]) -> None:
    run, file = conditional_run
    with opened(browser, file) as page:
        begun = state(page)["code"]
        move(page, 0, 2.5)
        page.get_by_role("button", name="Reset").click()
        assert state(page)["code"] == begun
        page.locator("button.start").nth(2).click()
        example = state(page)
        assert example["code"] != begun
        assert page.locator("button.start[aria-pressed=true]").count() == 1
        codes = vs.encode(run.model, "digits").mean.numpy()
        assert np.isclose(codes, example["code"], atol=1e-5).all(1).sum() == 1
        draw = page.get_by_role("button", name="Sample from the prior")
        draw.click()
        one = state(page)
        draw.click()
        assert state(page)["code"] != one["code"]
        np.testing.assert_allclose(one["decoded"], decoded(run, one), atol=1e-4)


def test_a_label_can_be_chosen_for_a_conditional_model(browser: Any, conditional_run: tuple[vs.Run, Path]) -> None:
    run, file = conditional_run
    with opened(browser, file) as page:
        seen = []
        for label in range(10):
            page.locator("select.label").select_option(str(label))
            found = state(page)
            assert found["condition"] == [float(place == label) for place in range(10)]
            np.testing.assert_allclose(found["decoded"], decoded(run, found), atol=1e-4)
            seen.append(tuple(painted(page)))
        assert len(set(seen)) == 10


def test_the_code_can_be_copied(browser: Any, conditional_run: tuple[vs.Run, Path]) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(conditional_run[1].as_uri())
    page.get_by_role("button", name="Copy latent values").click()
    page.wait_for_function("() => document.querySelector('.said').textContent === 'Copied.'")
    copied = json.loads(page.evaluate("() => navigator.clipboard.readText()"))
    np.testing.assert_allclose(copied, state(page)["code"], atol=1e-6)
    context.close()


def test_vectors_are_plotted(browser: Any, folder: Path) -> None:
    options: dict[str, Any] = {"net": NET, "likelihood": "gaussian", "steps": 200, "learning_rate": 3e-3}
    run = vs.fit("synthetic-nonlinear", latents=3, runs=folder / "runs", **options)
    with opened(browser, vs.report(run, folder / "vectors.html", metrics=())) as page:
        before = painted(page)
        move(page, 0, 2.0)
        found = state(page)
        np.testing.assert_allclose(found["decoded"], decoded(run, found), atol=1e-4)
        assert painted(page) != before


@pytest.mark.parametrize("width", [390, 1400])
def test_the_page_fits_its_window(browser: Any, sprites: tuple[vs.Run, Path], width: int) -> None:
    with opened(browser, sprites[1], width=width) as page:
        draw_all(page)
        assert page.evaluate("() => document.documentElement.scrollWidth") == width


def draw_all(page: Any) -> None:
    """Scroll down the page, so that every plot is drawn."""
    page.evaluate("() => document.querySelectorAll('.plot-body').forEach((one) => { one.open = true })")
    count = page.locator("[data-figure]").count()
    assert count >= 6
    for number in range(count):
        page.locator("[data-figure]").nth(number).scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelectorAll('.js-plotly-plot .main-svg').length >= " + str(count))


def test_the_table_of_latents_sorts_by_mouse_and_by_keys(browser: Any, sprites: tuple[vs.Run, Path]) -> None:
    def order(page: Any) -> list[int]:
        cells = page.locator("#latent-rows tbody th").all()
        return [int(cell.get_attribute("data-sort")) for cell in cells]

    run, file = sprites
    with opened(browser, file, width=1400) as page:
        rates = {row["latent"]: row["kl"] for row in vs.diagnose(run).rows() if row["type"] != "passive"}
        assert order(page) == sorted(rates, key=lambda latent: -rates[latent])
        page.locator("table.sortable thead button").nth(0).click()
        assert order(page) == sorted(rates)
        page.locator("table.sortable thead button").nth(0).focus()
        page.keyboard.press("Enter")
        assert order(page) == sorted(rates, reverse=True)


def test_numbers_of_a_plot_can_be_downloaded(browser: Any, sprites: tuple[vs.Run, Path]) -> None:
    run, file = sprites
    with opened(browser, file) as page:
        with page.expect_download() as waiting:
            page.locator("button[data-csv]").first.click()
        text = Path(waiting.value.path()).read_text()
    assert "step" in text.splitlines()[0]
    assert f"{run.history[0]['loss']:.3f}"[:5] in text


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.skipif(not AXE.is_file(), reason="axe-core is absent; `npm install --no-save axe-core` brings it")
def test_axe_finds_nothing_serious(
    browser: Any, conditional_run: tuple[vs.Run, Path], width: int, colours: str
) -> None:
    with opened(browser, conditional_run[1], width=width, colours=colours) as page:
        draw_all(page)
        page.evaluate("() => document.querySelectorAll('details').forEach((one) => { one.open = true })")
        # The page's content security policy blocks other scripts, hence an expression.
        page.evaluate(AXE.read_text())
        found = page.evaluate("() => axe.run()")["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"][:200]) for one in serious] == []


def test_colours_are_those_of_the_system_until_the_reader_chooses(browser: Any, sprites: tuple[vs.Run, Path]) -> None:
    paper = "() => getComputedStyle(document.body).backgroundColor"
    drawn = "() => document.querySelector('.js-plotly-plot').layout.font.color"
    with opened(browser, sprites[1], width=1400, colours="dark") as page:
        assert page.evaluate(paper) == "rgb(21, 24, 27)"
        draw_all(page)
        assert page.evaluate(drawn) == DARK_COLOURS[TEXT]
        page.get_by_role("button", name="Dark").click()
        assert page.evaluate(paper) == "rgb(255, 255, 255)"
        draw_all(page)
        assert page.evaluate(drawn) == TEXT
    with opened(browser, sprites[1], width=1400) as page:
        assert page.evaluate(paper) == "rgb(255, 255, 255)"


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_page_prints_in_light_colours_on_at_most_six_sheets(
    browser: Any, sprites: tuple[vs.Run, Path], colours: str
) -> None:
    with opened(browser, sprites[1], width=1400, colours=colours) as page:
        page.wait_for_function("() => Boolean(window.Plotly)")
        printed = page.pdf(format="A4", print_background=True)
        assert page.evaluate("() => document.documentElement.dataset.theme") == colours
    # Sheets are the pages of the PDF file, which it counts.
    assert 2 <= max(map(int, re.findall(rb"/Count (\d+)", printed))) <= 6
    with opened(browser, sprites[1], width=1400, colours=colours) as page:
        page.wait_for_function("() => Boolean(window.Plotly)")
        page.evaluate("() => window.dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate("() => document.documentElement.dataset.theme") == "light"
        drawn = "() => [...document.querySelectorAll('[data-figure]')].every((one) => one.querySelector('.main-svg'))"
        assert page.evaluate(drawn)


def test_a_phone_shows_less_than_eight_screens(browser: Any, sprites: tuple[vs.Run, Path]) -> None:
    with opened(browser, sprites[1], width=390, height=844) as page:
        assert page.evaluate("() => document.documentElement.scrollHeight") < 8 * 844


def test_the_picture_stays_in_view_of_a_phone_while_sliders_are_moved(
    browser: Any, conditional_run: tuple[vs.Run, Path]
) -> None:
    with opened(browser, conditional_run[1], width=390, height=500) as page:
        page.locator(".controls .sliders input").last.scroll_into_view_if_needed()
        assert page.evaluate("() => window.scrollY") > 200
        box = page.locator("canvas.decoded").bounding_box()
        assert box["y"] >= 0
        assert box["y"] + box["height"] < 300


def test_the_first_screen_has_verdict_strip_reconstructions_and_decoder(
    browser: Any, sprites: tuple[vs.Run, Path]
) -> None:
    with opened(browser, sprites[1], width=1280, height=800) as page:
        for part in (".verdict", ".strip li", ".starts button >> nth=2", "canvas.decoded", ".pairs"):
            box = page.locator(part).first.bounding_box()
            assert box["y"] + box["height"] <= 800, part


def test_a_draw_from_the_prior_shows_no_unrelated_item(browser: Any, sprites: tuple[vs.Run, Path]) -> None:
    with opened(browser, sprites[1]) as page:
        page.get_by_role("button", name="Sample from the prior").click()
        assert not page.locator(".example").is_visible()
        assert page.locator("button.start[aria-pressed=true]").count() == 0
        assert page.locator(".said").inner_text() == "Draw 1 from the prior."
        page.locator("button.start").nth(1).click()
        assert page.locator(".example img").is_visible()


def test_a_page_is_small_and_draws_plots_only_when_they_come_into_view(
    browser: Any, sprites: tuple[vs.Run, Path]
) -> None:
    _, file = sprites
    assert file.stat().st_size < MAX_BYTES
    with opened(browser, file, width=1400) as page:
        assert page.evaluate("() => Boolean(vaescope.live)")
        assert page.locator(".js-plotly-plot").count() < page.locator("[data-figure]").count()


def test_text_from_data_is_escaped(browser: Any, folder: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (60, 1, 8, 8), dtype=np.uint8)
    factors = np.stack([np.arange(60) % 3, np.arange(60) % 4], 1)
    data = from_array(images, name=WICKED, factors=factors, factor_names=(WICKED, "</style><b>bold</b>"))
    run = vs.fit(data, latents=2, net=NET, steps=20, runs=folder / "runs")
    file = vs.report(run, folder / "wicked.html", data)
    with opened(browser, file) as page:
        draw_all(page)
        assert "vaescope" in page.title() or page.title().startswith(run.id)
        assert page.title() != "gone"
        assert WICKED in page.locator("body").inner_text()
        assert page.locator("main b", has_text=re.compile("^bold$")).count() == 0


def test_several_runs_are_compared(browser: Any, conditional_run: tuple[vs.Run, Path], folder: Path) -> None:
    members = [vs.Member(3, vs.objectives.Beta(beta), 3e-3, seed) for beta in (1.0, 8.0) for seed in (0, 1)]
    runs = vs.fit_many("digits", members, vs.FitOptions(net=NET, steps=150, runs=folder / "runs"))
    with opened(browser, vs.report(runs, folder / "several.html"), width=390) as page:
        assert page.evaluate("() => document.documentElement.scrollWidth") == 390
        words = page.locator("body").inner_text()
        assert all(run.id[:8] in words for run in runs)
        assert "Over seeds" in words
        page.evaluate("() => document.querySelectorAll('.plot-body').forEach((one) => { one.open = true })")
        count = page.locator("[data-figure]").count()
        assert count >= 5
        for number in range(count):
            page.locator("[data-figure]").nth(number).scroll_into_view_if_needed()
        page.wait_for_function(f"() => document.querySelectorAll('.js-plotly-plot .main-svg').length >= {count}")
