"""Build the documentation site: run its tutorials, write its reference, and render it without a network.

    python tools/site [--no-run] [--notebooks] [--browser]

The site is written to build/site. With `--no-run`, tutorials are rendered without their outputs, in seconds. With
`--notebooks`, the notebooks in examples/ are written from the same outputs, if their tutorials have changed. With
`--browser`, its pages are checked in chromium, which needs playwright and axe-core.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from check import external_addresses
from notebooks import NOTEBOOKS, update_notebook
from outputs import Outputs
from reference_pages import write_reference
from rich.progress import track

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"
RUN_FOLDERS = ("concepts", "tutorials")


def main() -> int:
    arguments = argparse.ArgumentParser(description="Build the documentation site.")
    arguments.add_argument("--no-run", action="store_true", help="render tutorials without running them")
    arguments.add_argument("--notebooks", action="store_true", help="write the notebooks whose tutorial has changed")
    arguments.add_argument("--browser", action="store_true", help="check the pages in chromium")
    options = arguments.parse_args()
    pages = BUILD / "docs"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages)
    shutil.copy(ROOT / "CHANGELOG.md", pages / "changelog.md")
    write_reference(pages / "reference")
    if not options.no_run:
        outputs = Outputs(pages, BUILD / "outputs")
        sources = [page for folder in RUN_FOLDERS for page in sorted((pages / folder).glob("*.md"))]
        for page in track(sources, "Running tutorials"):
            parts = outputs.insert(page)
            if options.notebooks and page.stem in NOTEBOOKS:
                update_notebook(parts, ROOT / "examples" / NOTEBOOKS[page.stem])
    shutil.copy(ROOT / "zensical.toml", BUILD / "zensical.toml")
    shutil.rmtree(BUILD / "site", ignore_errors=True)
    done = subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=BUILD, check=False)
    if done.returncode:
        return done.returncode
    faults = external_addresses(BUILD / "site")
    if options.browser:
        # Playwright is needed for this only.
        from browser import faults_in_browser

        faults += faults_in_browser(BUILD / "site")
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"The site is in {(BUILD / 'site').relative_to(ROOT)}; open index.html in a browser.")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
