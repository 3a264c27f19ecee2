"""HTML as values: elements that escape what they are given, so that words from data stay words."""

from __future__ import annotations

import html
import json
from typing import Any

from vaescope.checks import without_infinities

VOID = frozenset({"br", "img", "input", "meta"})  # elements that have no end


class Markup(str):
    """Finished HTML, which is not escaped again."""

    def __html__(self) -> str:  # by which templates recognise it
        return self


def element(kind: str, /, *content: Any, **attributes: Any) -> Markup:
    """An element with escaped text and attributes; finished elements inside stay as they are.

    Content and attributes that are None are left out; an attribute that is True stands without a value. `class_` is the
    attribute class, `data_latent` data-latent.
    """
    given = [
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    ]
    start = f"<{kind}{''.join(given)}>"
    return Markup(start) if kind in VOID else Markup(f"{start}{join(*content)}</{kind}>")


def join(*content: Any) -> Markup:
    """Pieces one after the other, each escaped unless it is finished; lists are opened."""
    return Markup("".join(_piece(one) for one in content if one is not None))


def island(identity: str, value: Any) -> Markup:
    """Data for the page's scripts, as JSON that cannot end its element."""
    text = value if isinstance(value, Json) else json.dumps(without_infinities(value), allow_nan=False)
    safe = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return Markup(f'<script type="application/json" id="{html.escape(identity)}">{safe}</script>')


class Json(str):
    """A value that is JSON already."""


def _piece(content: Any) -> str:
    if isinstance(content, Markup):
        return content
    return join(*content) if isinstance(content, list | tuple) else html.escape(str(content))
