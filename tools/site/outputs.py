"""What examples showed, put into their pages; kept from build to build while page and library are the same."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import shutil
from pathlib import Path

from pages import Output, Part, run_page

SOURCE = Path(__file__).parents[2] / "src"
# An output in HTML is a page of its own in a frame, which tells the page around it how high it is.
FRAME = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">
<style>body{{margin:8px;font:15px/1.45 system-ui,sans-serif}}</style></head>
<body>{html}<script>const tell=()=>parent.postMessage({{height:document.documentElement.scrollHeight}},"*");
addEventListener("load",tell);new ResizeObserver(tell).observe(document.body);</script></body></html>"""


class Outputs:
    """Runs pages and inserts their outputs.

    Attributes:
        root: The folder of the pages of the site.
        kept: Where outputs are kept from build to build.
    """

    def __init__(self, root: Path, kept: Path) -> None:
        self.root, self.kept = root, kept
        self.kept.mkdir(parents=True, exist_ok=True)
        self._library = hashlib.sha256()
        for file in sorted(SOURCE.rglob("*.py")):
            self._library.update(file.read_bytes())

    def insert(self, page: Path) -> list[Part]:
        """Run the examples of a page, or take what they showed before, and write it below each."""
        text = page.read_text(encoding="utf-8")
        parts = self.parts(page, text)
        page.write_text("".join(self._markdown(page, number, part) for number, part in enumerate(parts)), "utf-8")
        return parts

    def parts(self, page: Path, text: str) -> list[Part]:
        """The parts of a page, with what its examples showed."""
        digest = self._library.copy()
        digest.update(text.encode())
        file = self.kept / f"{page.stem}-{digest.hexdigest()[:16]}.json"
        folder = self.kept / page.stem
        if file.is_file() and folder.is_dir():
            found = json.loads(file.read_text(encoding="utf-8"))
            parts = [Part(one["text"], one["language"], Output(**one["output"])) for one in found]
        else:
            shutil.rmtree(folder, ignore_errors=True)
            parts = run_page(page.name, text, folder)
            file.write_text(json.dumps([dataclasses.asdict(part) for part in parts]), encoding="utf-8")
        for written in folder.glob("*.html"):  # reports that a page made, to be opened from it
            shutil.copy(written, page.parent / f"{page.stem}-{written.name}")
        return parts

    def _markdown(self, page: Path, number: int, part: Part) -> str:
        if not part.language:
            return part.text
        shown = [f"```{part.language}\n{part.text}```\n"]
        text = part.output.text + (f"{part.output.value}\n" if part.output.value else "")
        if text.strip():
            shown.append(f'```{{.text .output title="Output"}}\n{text.rstrip()}\n```\n')
        if part.output.html:
            name = f"{page.stem}-output-{number}.html"
            example = re.sub(r"[^A-Za-z0-9_ ]+", " ", part.text.strip().splitlines()[-1]).strip()
            (page.parent / name).write_text(FRAME.format(title=f"Output of {example}", html=part.output.html), "utf-8")
            shown.append(f'<iframe class="output" src="{name}" title="Output of {example}" loading="lazy"></iframe>\n')
        return "\n".join(shown)
