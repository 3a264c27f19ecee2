"""How results show themselves in notebooks: by a registry of views that other packages fill."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol, TypeVar

from vaescope.markup import Markup, element
from vaescope.tables import table

ENTRY_POINTS = "vaescope.views"  # modules that register views when they are imported

Result = TypeVar("Result")
View = Callable[[Result], Markup | None]
_VIEWS: dict[type, Callable[[Any], Markup | None]] = {}


def view(kind: type[Result]) -> Callable[[View[Result]], View[Result]]:
    """Register a function that draws results of a class; None from it means that there is nothing to draw."""

    def register(function: View[Result]) -> View[Result]:
        _VIEWS[kind] = function
        return function

    return register


def drawn(result: object) -> Markup | None:
    """The view of a result; None where its class has none."""
    _load_views()
    function = _VIEWS.get(type(result))
    return None if function is None else function(result)


class Described(Protocol):
    """A result that says what it is: one sentence, and one row for each of its parts."""

    def summary(self) -> str: ...

    def rows(self) -> list[dict[str, Any]]: ...


class Shown:
    """A described result that shows its sentence, its table and its view in a notebook."""

    def _repr_html_(self: Described) -> str:
        words = element("p", element("strong", self.summary()))
        return element("div", words, table(self.rows(), type(self).__name__), drawn(self))


@cache
def _load_views() -> None:
    for point in entry_points(group=ENTRY_POINTS):
        point.load()
