"""A browser for tests of pages: chromium, opened once, and pages without script errors or network requests.

A module of tests keeps one open:

    @pytest.fixture(scope="module")
    def browser() -> Iterator[Any]:
        with chromium() as started:
            yield started
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
LOCAL = ("file:", "data:", "blob:", "about:")  # addresses that a page which opens from disk may use


@contextmanager
def chromium() -> Iterator[Any]:
    """A started browser; where there is none the test is skipped."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright, which drives the browser, is absent")
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("chromium, in which pages are tested, is absent")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(browser: Any, file: Path, *, width: int = 1200, height: int = 900, colours: str = "light") -> Iterator[Any]:
    """A page opened from disk; an error in its scripts, or a request that leaves the disk, fails the test."""
    problems: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=colours)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("request", lambda sent: None if sent.url.startswith(LOCAL) else problems.append(f"asked for {sent.url}"))
    try:
        page.goto(file.as_uri())
        # The decoder is unpacked after the page is loaded.
        page.wait_for_function("() => !document.getElementById('live') || Boolean(vaescope.live)")
        yield page
        assert not problems
    finally:
        page.close()
