"""How results are displayed in notebooks, through a registry of views that other packages fill."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Protocol, TypeVar

from vaescope.markup import Markup, element
from vaescope.tables import table

ENTRY_POINTS = "vaescope.views"  # modules that register views when they are imported

Result = TypeVar("Result")
View = Callable[[Result], Markup | None]
_VIEWS: dict[type, View[Any]] = {}


def register_view(kind: type[Result]) -> Callable[[View[Result]], View[Result]]:
    """Decorate a function that draws results of class `kind`; it may return None if there is nothing to draw."""

    def register(function: View[Result]) -> View[Result]:
        _VIEWS[kind] = function
        return function

    return register


def render_view(result: object, kind: type[Any] | None = None) -> Markup | None:
    """The view of a result, which is that of its class or of `kind`, a base of it; None if there is none."""
    _load_views()
    function = _VIEWS.get(type(result) if kind is None else kind)
    return None if function is None else function(result)


class Describable(Protocol):
    """A result with a sentence and a table."""

    def summary(self) -> str:
        """The result in one sentence."""

    def rows(self) -> Sequence[Mapping[str, object]]:
        """The result as a table: one row for each of its parts."""


class NotebookResult:
    """Base of results that are displayed in notebooks: their sentence, their table and their view."""

    def _repr_html_(self: Describable) -> str:
        sentence = element("p", element("strong", self.summary()))
        return element("div", sentence, table(self.rows(), type(self).__name__), render_view(self))


@cache
def _load_views() -> None:
    for point in entry_points(group=ENTRY_POINTS):
        point.load()
