"""Checks of the built site in a browser, wide and narrow, light and dark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
# One page of each kind that is written by a tool, and every other page.
LEFT_OUT = ("reference/api/", "studies/", "assets/", "404.html", "-output-", "-report.html", "-comparison.html")
KEPT = ("reference/api/vaescope-metrics.html", "studies/index.html", "studies/bonheme-table8.1.html")
VIEWS = ((1280, 900, "light"), (390, 844, "dark"))
AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
# Contents of frames are outputs of the library, whose pages have tests of their own.
LOCAL = ("file:", "data:", "blob:")
SETTLED = 600  # milliseconds until the scripts of a page are done
RULES = "{runOnly: ['wcag2a', 'wcag2aa'], iframes: false}"


def pages(site: Path) -> list[Path]:
    """The pages to open."""
    found = [page for page in sorted(site.rglob("*.html")) if not any(part in str(page) for part in LEFT_OUT)]
    return found + [site / name for name in KEPT]


def faults_in_browser(site: Path) -> list[str]:
    """What axe finds, what is fetched from elsewhere, and what is wider than its window."""
    return list(_faults(site))


def _faults(site: Path) -> Iterator[str]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        for width, height, scheme in VIEWS:
            context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
            fetched: list[str] = []
            context.on("request", lambda request, fetched=fetched: fetched.append(request.url))
            for file in pages(site):
                view, page = f"{file.relative_to(site)} ({width} pixels, {scheme})", context.new_page()
                page.goto(file.as_uri())
                page.wait_for_timeout(SETTLED)
                page.add_script_tag(path=AXE)
                for one in page.evaluate(f"async () => (await axe.run({RULES})).violations"):
                    yield f"{view}: {one['id']}: {one['nodes'][0]['html'][:120]}"
                if page.evaluate("() => document.documentElement.scrollWidth") > width:
                    yield f"{view} is wider than its window"
                page.close()
            yield from (
                f"{address} was fetched" for address in fetched if not address.startswith(("file:", "data:", "blob:"))
            )
            context.close()
        browser.close()
