"""Record the animated picture of the README: sliders of a report are moved in a browser.

    python tools/slider_gif.py report.html docs/slider.gif [--browser /usr/bin/chromium]

The report must have a live decoder. Playwright and Pillow are needed.
"""

from __future__ import annotations

import argparse
import io
import math
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

SIZE = {"width": 1100, "height": 520}
FRAMES, MILLISECONDS = 14, 70  # of one slider
SLIDERS = 3
COLOURS = 64
WIDTH = 880
MOVE = "(one, value) => {one.value = value; one.dispatchEvent(new Event('input', {bubbles: true}))}"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu"]


def record(page: Page) -> list[Image.Image]:
    """Pictures of the page while its first sliders go once to both ends and back."""
    frames = []
    for number in range(SLIDERS):
        slider = page.locator("input[type=range]").nth(number)
        start = float(slider.input_value())
        low, high = float(slider.get_attribute("min") or -3), float(slider.get_attribute("max") or 3)
        reach = min(high - start, start - low, 2.5) or 2.0
        for frame in range(FRAMES):
            value = start + reach * math.sin(2 * math.pi * frame / FRAMES)
            slider.evaluate(MOVE, value)
            page.wait_for_timeout(40)
            frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    return frames


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the animated picture of the README.")
    parser.add_argument("report", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--browser", default="/usr/bin/chromium")
    given = parser.parse_args()
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=given.browser, args=FLAGS)
        page = browser.new_page(viewport=SIZE)
        page.goto(given.report.resolve().as_uri())
        page.wait_for_timeout(1500)
        page.locator(".strip").first.evaluate("(one) => scrollTo(0, one.getBoundingClientRect().top - 12)")
        frames = record(page)
        browser.close()
    height = round(WIDTH * SIZE["height"] / SIZE["width"])
    small = [frame.resize((WIDTH, height), Image.Resampling.LANCZOS).quantize(COLOURS) for frame in frames]
    small[0].save(given.picture, save_all=True, append_images=small[1:], duration=MILLISECONDS, loop=0, optimize=True)
    print(f"{given.picture}: {len(small)} frames, {given.picture.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
