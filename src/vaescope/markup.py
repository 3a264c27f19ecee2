"""HTML elements as values: text and attributes are escaped, finished elements are not."""

from __future__ import annotations

import html
import json

from vaescope.checks import without_infinities

VOID_ELEMENTS = frozenset({"br", "img", "input", "meta"})  # they have no end tag


class Markup(str):
    """Finished HTML, which is not escaped again."""

    def __html__(self) -> str:  # jinja2 recognises it by this method
        return self


class Json(str):
    """Text that is JSON already."""


def element(kind: str, /, *content: object, **attributes: object) -> Markup:
    """An HTML element.

    Args:
        kind: The name of the element.
        content: Text, which is escaped, finished elements, and lists of both; None is skipped.
        attributes: `class_` stands for class, `data_latent` for data-latent. None and False are skipped; True gives an
            attribute without a value.
    """
    given = [
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    ]
    start = f"<{kind}{''.join(given)}>"
    return Markup(start) if kind in VOID_ELEMENTS else Markup(f"{start}{join(*content)}</{kind}>")


def join(*content: object) -> Markup:
    """Pieces one after the other; text is escaped, lists are flattened, None is skipped."""
    return Markup("".join(_piece(one) for one in content if one is not None))


def prose(text: str) -> Markup:
    """Text in which what stands between backticks is code."""
    parts = text.split("`")
    paired = len(parts) % 2 == 1
    return join(*[element("code", part) if place % 2 else part for place, part in enumerate(parts)] if paired else text)


def json_script(identity: str, value: object) -> Markup:
    """A script element with data as JSON, escaped so that the data cannot end the element."""
    text = value if isinstance(value, Json) else json.dumps(without_infinities(value), allow_nan=False)
    safe = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return Markup(f'<script type="application/json" id="{html.escape(identity)}">{safe}</script>')


def _piece(content: object) -> str:
    if isinstance(content, Markup):
        return content
    return join(*content) if isinstance(content, list | tuple) else html.escape(str(content))
