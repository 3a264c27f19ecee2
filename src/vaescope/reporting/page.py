"""A self-contained HTML page: text, data, styles and scripts in one file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from plotly.offline import get_plotlyjs

from vaescope.errors import ConfigurationError
from vaescope.markup import Markup, element, join
from vaescope.reporting import sections
from vaescope.reporting.assets import asset, render
from vaescope.reporting.plots import Plot

# The browser loads nothing from elsewhere, whatever the page contains.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'"
)
STYLES = ("cards.css", "page.css", "latents.css")
SCRIPTS = ("page.js", "latents.js", "decoder.js", "live.js")


def page(title: str, *content: Markup | None, navigation: Sequence[tuple[str, str]] = (), plotly: bool = True) -> str:
    """The whole document.

    Args:
        title: The title of the browser tab.
        content: The parts of the page, in order; None is skipped.
        navigation: Pairs of a heading's id and its text, for the menu.
        plotly: Whether to include plotly, which pages with plots need.
    """
    from vaescope import __version__

    scripts = [get_plotlyjs()] if plotly else []
    return render(
        "page.html",
        title=title,
        policy=POLICY,
        styles=[_unescaped(asset(name), "style") for name in STYLES],
        scripts=[_unescaped(script, "script") for script in [*scripts, *map(asset, SCRIPTS)]],
        navigation=navigation,
        content=join(*content),
        version=__version__,
    )


def write_plots(plots: Sequence[Plot], path: str | Path, title: str) -> Path:
    """Write a page that contains only plots."""
    return write_page(path, page(title, element("h1", title), sections.plots(plots)))


def write_page(path: str | Path, text: str) -> Path:
    """Write the document to a file."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {path}: {error.strerror}. Create its folder, or choose another path."
        ) from error
    return Path(path)


def _unescaped(text: str, tag: str) -> Markup:
    """A style or script of this package; it must not contain the end of its element."""
    assert f"</{tag}" not in text.lower(), tag
    return Markup(text)
