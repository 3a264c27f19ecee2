"""What torch data sets and loaders give, taken apart into items and labels: pairs, tables, pictures and batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import Literal, Protocol, TypeGuard, runtime_checkable

import numpy as np
from PIL import Image
from torch import Tensor

from vaescope.codes.arrays import as_numpy
from vaescope.data.images import GREY_MODES, open_image, pixels_of
from vaescope.errors import DataError, quoted

ITEM_KEYS = ("image", "images", "img", "pixel_values", "x", "data", "item", "png", "jpg", "jpeg")
LABEL_KEYS = ("label", "labels", "y", "target", "targets", "class", "cls")


@runtime_checkable
class NamedTuple(Protocol):
    """A tuple whose entries have names."""

    def _asdict(self) -> Mapping[str, object]:
        """The entries by name."""


@dataclass
class EntryReader:
    """Reads entries one after another as items of one shape and type, and collects their labels.

    An entry is an item, a pair (item, label), a named tuple, or a table such as {"image": ..., "label": ...}. Items are
    arrays, tensors, pictures of Pillow, or the bytes of PNG and JPEG files.

    Attributes:
        name: The name of the source in error messages.
        key, label_key: The names of the item and of the label in a table. Default: the only usual name; `label_key`
            False for no labels.
        batched: Whether an entry holds several items, stacked or in a list.
        labels: The labels so far; empty if there are none.
        count: The number of items so far.
    """

    name: str
    key: str | None = None
    label_key: str | Literal[False] | None = None
    batched: bool = False
    labels: list[int | str] = field(default_factory=list)
    count: int = 0

    def items(self, entries: Iterable[object]) -> Iterator[np.ndarray]:
        """All items, as arrays of the shape and type of the first."""
        first: np.ndarray | None = None
        for given, label in (pair for entry in entries for pair in self._pairs(entry)):
            item = self._array(given)
            first = item if first is None else first
            if (item.shape, item.dtype) != (first.shape, first.dtype):
                raise DataError(
                    f"{self.name}: all items must have the shape and type of the first, {first.shape} {first.dtype}; "
                    f"item {self.count} has {item.shape} {item.dtype}. Convert them to one shape and type."
                )
            if label is not None and len(self.labels) < self.count:
                raise DataError(
                    f"{self.name}: all items must have a label or none, but item {self.count} is the first with one. "
                    "Pass label_key=False to read no labels."
                )
            if label is not None or self.labels:
                self.labels.append(self._class(label))
            self.count += 1
            yield item

    def _pairs(self, entry: object) -> Iterator[tuple[object, object]]:
        """The items of an entry, each with its label or None."""
        if not self.batched:
            yield self._pair(entry)
            return
        if isinstance(entry, list | tuple) and entry and isinstance(entry[0], Mapping | tuple | Image.Image):
            yield from map(self._pair, entry)
            return
        items, labels = self._pair(entry)
        if not (_is_batch(items) and (labels is None or (_is_batch(labels) and len(labels) == len(items)))):
            raise DataError(
                f"{self.name} must give batches: items, and one label for each, but it gives {quoted(entry)}. Pass "
                "batched=False if each is one item."
            )
        yield from zip(items, repeat(None) if labels is None else labels, strict=False)

    def _pair(self, entry: object) -> tuple[object, object]:
        """The item of one entry, or the items of a batch, and the label or labels or None."""
        table = entry._asdict() if isinstance(entry, NamedTuple) else entry
        if isinstance(table, Mapping) and (table is entry or self.key or any(key in table for key in ITEM_KEYS)):
            label = self._label_key(table)
            return table[self._item_key(table, label)], None if label is None else table[label]
        if self.key is not None or self.label_key:
            raise DataError(
                f"{self.name}: key and label_key name entries of tables (dict), but it gives {type(entry).__name__}. "
                "Leave them out."
            )
        if isinstance(entry, tuple | list) and entry:
            return entry[0], entry[1] if len(entry) > 1 and self.label_key is not False else None
        return entry, None

    def _label_key(self, table: Mapping[str, object]) -> str | None:
        if self.label_key is False:
            return None
        usual = LABEL_KEYS if self.label_key is None else (self.label_key,)
        found = [name for name in table if name in usual and name != self.key]
        if len(found) > 1 or (self.label_key is not None and not found):
            raise self._unclear("label", "label_key", table, ", or label_key=False for none")
        return found[0] if found else None

    def _item_key(self, table: Mapping[str, object], label: str | None) -> str:
        free = [name for name in table if name != label and self.key in (None, name)]
        for candidates in (free, [name for name in free if name in ITEM_KEYS]):
            if len(candidates) == 1:
                return candidates[0]
        raise self._unclear("item", "key", table)

    def _unclear(self, what: str, option: str, table: Mapping[str, object], rest: str = "") -> DataError:
        return DataError(
            f"{self.name}: one entry of {', '.join(map(repr, table)) or 'an empty table'} must be the {what}. Pass "
            f"{option}=NAME to name it{rest}."
        )

    def _array(self, item: object) -> np.ndarray:
        if isinstance(item, Mapping) and isinstance(item.get("bytes"), bytes):  # as the library datasets stores images
            item = item["bytes"]
        if isinstance(item, bytes):
            with open_image(Path(f"{self.name}, item {self.count}"), item) as image:
                image.load()
                return pixels_of(image, colour=image.mode not in GREY_MODES)
        if isinstance(item, Image.Image):
            return pixels_of(item, colour=item.mode not in GREY_MODES)
        return as_numpy(item, f"{self.name}, item {self.count}")

    def _class(self, label: object) -> int | str:
        if isinstance(label, str):
            return label
        number = np.asarray(label)
        if number.size != 1 or not np.issubdtype(number.dtype, np.integer):
            raise DataError(
                f"{self.name}: a label must be an integer or a word, got {label!r} for item {self.count}. Return "
                "(item, label), or the item alone, or pass label_key=False."
            )
        return int(number.reshape(()))


def _is_batch(values: object) -> TypeGuard[Tensor | np.ndarray | list[object] | tuple[object, ...]]:
    return isinstance(values, list | tuple) or (isinstance(values, Tensor | np.ndarray) and values.ndim > 0)
