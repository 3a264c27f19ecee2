"""The styles, scripts and templates of the page, as files."""

from __future__ import annotations

import base64
import gzip
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined

from vaescope.markup import Markup


def asset(name: str) -> str:
    """The text of a style or script."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def compressed_text(content: bytes) -> str:
    """Bytes as compressed text, which `inflate.js` unpacks; the same text for the same bytes."""
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode("ascii")


def render(template: str, **values: object) -> Markup:
    """Fill a template; values are escaped unless they are `Markup`."""
    return Markup(_environment().get_template(template).render(**values))


@cache
def _environment() -> Environment:
    loader = PackageLoader("vaescope.reporting", "assets")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
