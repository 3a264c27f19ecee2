"""The report of a convolutional model on 10,000 dSprites images: seconds to build, size, speed in a browser.

Needs playwright and Debian's chromium for the last.
"""

from __future__ import annotations

import argparse
import re
import shutil
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")

import torch
from recorded import add_json, save

import vaescope as vs

MOVES = """() => {
  const slider = document.querySelector('input[data-latent]');
  const times = [];
  for (let number = 0; number < 40; number += 1) {
    const before = performance.now();
    slider.value = number / 20;
    slider.dispatchEvent(new Event('input'));
    times.push(performance.now() - before);
  }
  return times;
}"""


def parts_of(page: str) -> dict[str, int]:
    """How large the parts of the page are."""
    data = {name: len(text) for name, text in re.findall(r'<script type="[^"]+" id="([\w-]+)">(.*?)</script>', page)}
    plots = sum(size for name, size in data.items() if name.startswith(("figure", "numbers")))
    pictures = sum(map(len, re.findall(r'src="data:image/png;base64,([^"]+)"', page)))
    named = {"plotly": data["plotly-packed"], "decoder": data.get("live-data", 0), "plots": plots, "pictures": pictures}
    return {**named, "rest": len(page) - sum(named.values())}


def in_browser(file: Path) -> dict[str, float]:
    """The time until the page can be used and of one move of a slider (the median), and how long it is."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        page: Any = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(file.as_uri())
        page.wait_for_function("() => Boolean(vaescope.live)")
        ready = page.evaluate("() => performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
        moves = page.evaluate(MOVES)
        page.wait_for_function("() => Boolean(window.Plotly)")
        sheets = max(map(int, re.findall(rb"/Count (\d+)", page.pdf(format="A4"))))
        page.close()
        phone = browser.new_page(viewport={"width": 390, "height": 844})
        phone.goto(file.as_uri())
        screens = phone.evaluate("() => document.documentElement.scrollHeight / window.innerHeight")
        browser.close()
    return {
        "milliseconds_until_it_can_be_used": round(ready),
        "milliseconds_to_move_a_slider": round(statistics.median(moves), 1),
        "sheets_of_a4": sheets,
        "screens_of_a_phone": round(screens, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    add_json(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = vs.fit("dsprites", latents=10, steps=options.steps, learning_rate=1e-3, runs=folder, device="cpu")
        file, times = Path(folder) / "report.html", []
        for _ in range(options.repeats):
            began = time.perf_counter()
            vs.report(run, file, progress=False)
            times.append(time.perf_counter() - began)
        row: dict[str, object] = {"seconds_to_build": times, "megabytes": file.stat().st_size / 1e6}
        parts = parts_of(file.read_text(encoding="utf-8"))
        if shutil.which("chromium"):
            row |= in_browser(file)
    tables = {
        "10 latents, 10,000 codes of dSprites": [row],
        "characters of the page": [{"part": name, "characters": size} for name, size in parts.items()],
    }
    print(f"{torch.get_num_threads()} threads: {tables}")
    save(options, __file__, "Building and opening a report", tables)


if __name__ == "__main__":
    main()
