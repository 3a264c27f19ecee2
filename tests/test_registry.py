"""Variants by name: built from names and tables, written down again, and refused with the known ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from vaescope.errors import ConfigurationError, UnknownNameError
from vaescope.registry import lookup, plain, resolve


@dataclass(frozen=True)
class Circle:
    radius: float = 1.0
    corners: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Dot:
    pass


class Rounder(Circle):
    pass


TABLE: dict[str, type[Any]] = {"circle": Circle, "dot": Dot}


def test_a_known_name_is_found() -> None:
    assert lookup(TABLE, "dot", "shape") is Dot


def test_an_unknown_name_lists_the_known_ones_and_the_nearest() -> None:
    words = r"^shape must be one of circle, dot; got 'cirlce'\. Did you mean 'circle'\?$"
    with pytest.raises(UnknownNameError, match=words):
        lookup(TABLE, "cirlce", "shape")


def test_a_name_far_from_all_has_no_hint() -> None:
    with pytest.raises(UnknownNameError, match=r"got 'zzz'\.$"):
        lookup(TABLE, "zzz", "shape")


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
    assert resolve(TABLE, value, "shape") == expected


def test_an_instance_is_itself() -> None:
    circle = Circle()
    assert resolve(TABLE, circle, "shape") is circle


def test_resolving_does_not_change_the_table_it_is_given() -> None:
    value = {"name": "circle", "corners": [1]}
    resolve(TABLE, value, "shape")
    assert value == {"name": "circle", "corners": [1]}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"radius": 1.0}, "shape given as a table must have a 'name', got {'radius': 1.0}"),
        ({"name": "circle", "size": 1}, "shape 'circle' takes the options corners, radius; got 'size'"),
        ({"name": "dot", "size": 1}, "shape 'dot' takes the options none; got 'size'"),
    ],
)
def test_a_bad_table_is_named(value: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        resolve(TABLE, value, "shape")
    assert words in str(refusal.value)


@pytest.mark.parametrize("value", [Circle(), Circle(2.5, (1, (2, 3))), Dot()])
def test_what_is_written_down_builds_an_equal_instance(value: Any) -> None:
    written = json.loads(json.dumps(plain(TABLE, value, "shape")))
    assert resolve(TABLE, written, "shape") == value


@pytest.mark.parametrize("value", [3, Rounder(), None])
def test_what_no_table_holds_cannot_be_written_down(value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"one of circle, dot.*got {type(value).__name__}. Register it first"):
        plain(TABLE, value, "shape")
