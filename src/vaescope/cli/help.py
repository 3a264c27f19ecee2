"""Commands whose help shows brackets as they are written; Typer would read `[grid]` as markup and drop it."""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand, TyperGroup

MARKUP = re.compile(r"(\[[a-z#/@])")  # what rich reads as the start of markup


class PlainCommand(TyperCommand):
    """A command whose help, epilog and options contain no markup."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        _escape(self)


class PlainGroup(TyperGroup):
    """A group of commands whose help, epilog and options contain no markup."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        _escape(self)


def _escape(command: TyperCommand | TyperGroup) -> None:
    command.help, command.epilog = _escaped(command.help), _escaped(command.epilog)
    for parameter in command.params:
        if isinstance(text := getattr(parameter, "help", None), str):
            vars(parameter)["help"] = _escaped(text)


def _escaped(text: str | None) -> str | None:
    return None if text is None else MARKUP.sub(r"\\\1", text)
