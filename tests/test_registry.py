"""Variants by name: built from names and tables, converted back, and errors that list the known names."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from vaescope.errors import ConfigurationError, UnknownNameError
from vaescope.registry import PartRegistry, lookup


@dataclass(frozen=True)
class Circle:
    radius: float = 1.0
    corners: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Dot:
    pass


class Rounder(Circle):
    pass


SHAPES: PartRegistry[Any] = PartRegistry("shape", "vaescope.shapes")
SHAPES.register("circle", summary="round", source="Euclid")(Circle)
SHAPES.register("dot", summary="a point")(Dot)


def test_a_known_name_is_found() -> None:
    assert SHAPES["dot"] is Dot


def test_an_unknown_name_lists_the_known_ones_and_the_nearest() -> None:
    words = r"^shape must be one of circle, dot; got 'cirlce'\. Did you mean 'circle'\?$"
    with pytest.raises(UnknownNameError, match=words):
        SHAPES["cirlce"]


def test_a_name_unlike_all_others_has_no_suggestion() -> None:
    with pytest.raises(UnknownNameError, match=r"got 'zzz'\.$"):
        lookup({"circle": 1}, "zzz", "shape")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("circle", Circle()),
        ({"name": "circle"}, Circle()),
        ({"name": "circle", "radius": 2.0}, Circle(2.0)),
        ({"name": "circle", "corners": [1, [2, 3]]}, Circle(1.0, (1, (2, 3)))),
        (Circle(3.0), Circle(3.0)),
        ({"name": "dot"}, Dot()),
    ],
)
def test_a_name_a_table_and_an_instance_are_resolved(value: Any, expected: Any) -> None:
    assert SHAPES.resolve(value) == expected


def test_an_instance_is_returned_unchanged() -> None:
    circle = Circle()
    assert SHAPES.resolve(circle) is circle


def test_resolving_does_not_change_the_table_it_is_given() -> None:
    value = {"name": "circle", "corners": [1]}
    SHAPES.resolve(value)
    assert value == {"name": "circle", "corners": [1]}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"radius": 1.0}, "shape given as a table must have a 'name', got {'radius': 1.0}"),
        ({"name": "circle", "size": 1}, "shape 'circle' takes the options corners, radius; got 'size'"),
        ({"name": "dot", "size": 1}, "shape 'dot' takes the options none; got 'size'"),
    ],
)
def test_a_bad_table_is_an_error(value: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        SHAPES.resolve(value)
    assert words in str(refusal.value)


@pytest.mark.parametrize("value", [Circle(), Circle(2.5, (1, (2, 3))), Dot()])
def test_a_table_of_an_instance_builds_an_equal_instance(value: Any) -> None:
    written = json.loads(json.dumps(SHAPES.plain(value)))
    assert SHAPES.resolve(written) == value


@pytest.mark.parametrize("value", [3, Rounder(), None])
def test_an_instance_that_no_table_can_describe_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"circle, dot.*{type(value).__name__}"):
        SHAPES.plain(value)


def test_an_entry_has_its_summary_and_source() -> None:
    entry = SHAPES.entry("circle")
    assert (entry.summary, entry.source, entry.variant) == ("round", "Euclid", Circle)


def test_a_name_is_registered_once() -> None:
    with pytest.raises(ConfigurationError, match="circle"):
        SHAPES.register("circle", summary="another")(Rounder)
    assert SHAPES.register("circle", summary="round", source="Euclid")(Circle) is Circle


def test_a_variant_must_inherit_from_the_contract() -> None:
    rounds: PartRegistry[Any] = PartRegistry("round shape", "vaescope.rounds", Circle)
    for other in (Dot, len, 3):
        with pytest.raises(ConfigurationError, match=r"'other'.* Circle"):
            rounds.register("other", summary="not round")(other)
    assert rounds.register("rounder", summary="rounder")(Rounder) is Rounder
