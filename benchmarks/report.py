"""The report of a convolutional model on 10,000 dSprites images: seconds to build, size, speed in a browser.

Needs playwright and Debian's chromium for the last.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")

import torch

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


def in_browser(file: Path) -> tuple[float, float]:
    """Milliseconds until the page can be used, and for one move of a slider (the median)."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        arguments = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        page: Any = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto(file.as_uri())
        ready = page.evaluate("() => performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
        moves = page.evaluate(MOVES)
        browser.close()
    return ready, statistics.median(moves)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = vs.fit("dsprites", latents=10, steps=options.steps, learning_rate=1e-3, runs=folder, device="cpu")
        file, times = Path(folder) / "report.html", []
        for _ in range(options.repeats):
            began = time.perf_counter()
            vs.report(run, file, progress=False)
            times.append(time.perf_counter() - began)
        print(f"{torch.get_num_threads()} threads; built in {', '.join(f'{one:.1f}' for one in times)} s")
        print(f"{file.stat().st_size / 1e6:.2f} MB")
        if shutil.which("chromium"):
            ready, move = in_browser(file)
            print(f"can be used after {ready:.0f} ms; a move of a slider takes {move:.1f} ms")


if __name__ == "__main__":
    main()
