"""One file that needs nothing else: styles, scripts, data and text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vaescope.errors import ConfigurationError
from vaescope.markup import Markup, element, join
from vaescope.reporting import sections
from vaescope.reporting.assets import asset
from vaescope.reporting.plots import Plot

# Nothing may be fetched, whatever a page holds.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'"
)
STYLES = ("cards.css", "page.css", "latents.css")
SCRIPTS = ("page.js", "latents.js", "decoder.js", "live.js")


def page(title: str, *content: Any, navigation: Sequence[tuple[str, str]] = (), plotly: bool = True) -> str:
    """The whole document; `navigation` is pairs of a heading's id and its name."""
    links = [element("li", element("a", name, href=f"#{identity}")) for identity, name in navigation]
    head = join(
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("title", title),
        *[_raw("style", asset(name)) for name in STYLES],
        _raw("script", _plotly()) if plotly else None,
        *[_raw("script", asset(name)) for name in SCRIPTS],
    )
    body = join(
        element("nav", element("ul", *links), aria_label="Parts of this page") if links else None,
        element("main", *content),
        element("footer", _made_by()),
    )
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body class="vaescope">{body}</body>\n</html>\n'


def write_plots(plots: Sequence[Plot], path: str | Path, title: str) -> Path:
    """A page of plots alone."""
    return write_page(path, page(title, element("h1", title), sections.plots(plots)))


def write_page(path: str | Path, text: str) -> Path:
    """Write the document, or say why it cannot be."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{path} must be a file that can be written, but it cannot: {error.strerror}. Make its folder first, or "
            "give another path."
        ) from error
    return Path(path)


def _raw(name: str, text: str) -> Markup:
    """A style or script that comes with us, unescaped; its end must not be in it."""
    assert f"</{name}" not in text.lower(), name
    return Markup(f"<{name}>{text}</{name}>")


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def _made_by() -> str:
    from vaescope import __version__

    return f"Made by vaescope {__version__}. This page holds all it shows: it can be moved, mailed and printed."
