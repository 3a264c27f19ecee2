"""Checks of the built site: no page may load anything from another host."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

# Element -> its attribute that makes a browser load something.
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}
# Links to other pages of the web may be followed, and a canonical address names the page itself.
NOT_LOADED = {"canonical", "alternate", "next", "prev", "author", "license"}


class _Loaded(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        address = values.get(LOADED.get(tag, "")) or ""
        if tag == "link" and (values.get("rel") or "") in NOT_LOADED:
            return
        if address.startswith(("http:", "https:", "//")):
            self.addresses.append(address)


def external_addresses(site: Path) -> list[str]:
    """What pages of the site would load from other hosts."""
    faults = []
    for page in sorted(site.rglob("*.html")):
        parser = _Loaded()
        parser.feed(page.read_text(encoding="utf-8"))
        faults += [f"{page.relative_to(site)} loads {address}" for address in parser.addresses]
    return faults
