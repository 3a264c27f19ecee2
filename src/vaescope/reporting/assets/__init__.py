"""Styles and scripts of the page, as files."""

from __future__ import annotations

from importlib.resources import files


def asset(name: str) -> str:
    """The text of a style or script."""
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
