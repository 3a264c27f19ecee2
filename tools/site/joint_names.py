"""Docstrings that describe several arguments in one entry (`a, b: text`) are rendered with one row for each."""

from __future__ import annotations

import re

import griffe

ENTRY = re.compile(r"^(?P<indent> +)(?P<names>\w+(?:, \w+)+): (?P<text>.*(?:\n(?P=indent) +.*)*)", re.MULTILINE)


def one_entry_each(docstring: str) -> str:
    """The docstring with an entry for each name."""

    def split(found: re.Match[str]) -> str:
        return "\n".join(f"{found['indent']}{name}: {found['text']}" for name in found["names"].split(", "))

    return ENTRY.sub(split, docstring)


class JointNames(griffe.Extension):
    """Splits joint entries of every docstring."""

    def on_object(self, *, obj: griffe.Object, **kwargs: object) -> None:
        if obj.docstring is not None:
            obj.docstring.value = one_entry_each(obj.docstring.value)
