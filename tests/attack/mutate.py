"""Seeded mutations of files: of bytes, of text, of JSON, and of what archives and headers hold.

A mutation is a function of the content and of a random generator; the same generator gives the same mutation.
"""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

Mutation = Callable[[bytes, Random], bytes]

MAX_SPAN = 64  # bytes that one edit removes, repeats or fills
DEPTH = 5000  # of nested brackets; deeper than any recursive reader goes
DEEP = "deeply nested"  # stands for nested brackets, which json.dumps cannot write
NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
EDGE_BYTES = (0, 1, 0x1B, 0x7F, 0x80, 0xFE, 0xFF)
EDGE_INTEGERS = (0, 1, 7, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 2**62)
EDGE_NUMBERS = (
    b"0",
    b"-1",
    b"-0",
    b"1e308",
    b"1e400",
    b"nan",
    b"inf",
    b"9" * 30,
    b"9" * 5000,
    b"0.5",
    b"1e15",
    b"1125899906842624",
)
EDGE_VALUES: tuple[Any, ...] = (
    None,
    True,
    "",
    "abc",
    "\ud800",
    "x" * 5000,
    [],
    {},
    [[1]],
    [1.5, 2, 3],
    [1, 10**6, 10**6],
    {"name": "abc"},
    -1,
    0,
    1.5,
    1e308,
    float("nan"),
    float("inf"),
    10**9,
    2**63,
    10**400,
    DEEP,
)


def flip_bit(content: bytes, random: Random) -> bytes:
    """One bit flipped."""
    place = _place(content, random)
    return _replaced(content, place, place + 1, bytes([_byte(content, place) ^ 1 << random.randrange(8)]))


def set_byte(content: bytes, random: Random) -> bytes:
    """One byte set to an extreme value."""
    place = _place(content, random)
    return _replaced(content, place, place + 1, bytes([random.choice(EDGE_BYTES)]))


def cut(content: bytes, random: Random) -> bytes:
    """The beginning only."""
    return content[: random.randrange(len(content) + 1)]


def remove(content: bytes, random: Random) -> bytes:
    """Without some bytes."""
    return _replaced(content, *_span(content, random), b"")


def repeat(content: bytes, random: Random) -> bytes:
    """Some bytes repeated."""
    start, stop = _span(content, random)
    return _replaced(content, start, stop, content[start:stop] * random.choice((2, 3, 50)))


def fill(content: bytes, random: Random) -> bytes:
    """Some bytes set to one value or random, like a lost block of a disk."""
    start, stop = _span(content, random)
    lost = bytes([random.choice(EDGE_BYTES)]) * (stop - start)
    return _replaced(content, start, stop, random.choice((lost, random.randbytes(stop - start))))


def move(content: bytes, random: Random) -> bytes:
    """Some bytes copied to another place."""
    start, stop = _span(content, random)
    place = _place(content, random)
    return _replaced(content, place, place, content[start:stop])


def set_integer(content: bytes, random: Random) -> bytes:
    """A binary integer, such as a length, with another value."""
    code = random.choice(["<B", "<H", ">H", "<I", ">I", "<Q", ">Q"])
    value = random.choice(EDGE_INTEGERS) % 256 ** struct.calcsize(code)
    place = _place(content, random)
    return _replaced(content, place, place + struct.calcsize(code), struct.pack(code, value))


def set_number(content: bytes, random: Random) -> bytes:
    """A number in text with another value, near or far."""
    found = list(NUMBER.finditer(content))
    if not found:
        return flip_bit(content, random)
    one = random.choice(found)
    near = re.sub(rb"\d", lambda digit: bytes([random.choice(b"0123456789")]), one.group())
    return _replaced(content, *one.span(), random.choice((near, near, random.choice(EDGE_NUMBERS))))


def change_lines(content: bytes, random: Random) -> bytes:
    """A line removed, repeated, moved or cut; or only half of the lines."""
    lines = content.splitlines(keepends=True) or [b""]
    place, other = random.randrange(len(lines)), random.randrange(len(lines))
    line = lines.pop(place)
    changed: list[list[bytes]] = [[], [line, line], [line[: len(line) // 2]], [b"\n", line], [b"\xff\x00\n"]]
    if random.random() < 0.5:
        lines[place:place] = random.choice(changed)
    elif random.random() < 0.5:
        lines.insert(other, line)
    else:
        lines = lines[: len(lines) // 2]
    return b"".join(lines)


BYTE_EDITS: tuple[Mutation, ...] = (flip_bit, set_byte, cut, remove, repeat, fill, move, set_integer)
TEXT_EDITS: tuple[Mutation, ...] = (set_number, set_number, change_lines, flip_bit, set_byte, cut, remove, repeat)


def mutate_bytes(content: bytes, random: Random) -> bytes:
    """One edit of bytes, or a few."""
    return _edited(content, random, BYTE_EDITS)


def mutate_text(content: bytes, random: Random) -> bytes:
    """One edit of text, or a few."""
    return _edited(content, random, TEXT_EDITS)


def insert_tokens(*tokens: bytes) -> Mutation:
    """Text edits that also insert one of some words, or replace a word with one."""

    def insert(content: bytes, random: Random) -> bytes:
        start, stop = random.choice([one.span() for one in re.finditer(rb"[^\s,\"']+|$", content)])
        return _replaced(content, random.choice((start, stop)), stop, random.choice(tokens))

    return lambda content, random: _edited(content, random, (*TEXT_EDITS, insert, insert, insert, insert))


def replace_values(*values: bytes) -> Mutation:
    """A value of a TOML file replaced by one of some others, or an edit of the text."""
    edit = insert_tokens(*values)

    def replace(content: bytes, random: Random) -> bytes:
        if random.random() < 0.4:
            return edit(content, random)
        place = random.choice([one.span(1) for one in re.finditer(rb"= ([^\n]+)", content)])
        return _replaced(content, *place, random.choice(values))

    return replace


def mutate_json(content: bytes, random: Random) -> bytes:
    """An entry of a JSON document changed, removed, renamed or given twice; or an edit of its text."""
    if random.random() < 0.3:
        return mutate_text(content, random)
    table = json.loads(content)
    for _ in range(random.choice((1, 1, 1, 2))):
        table = _edited_value(table, random)
    text = json.dumps(table, indent=random.choice((None, 1))).replace(json.dumps(DEEP), "[" * DEPTH + "]" * DEPTH)
    entries = [one.group() for one in re.finditer(r'"\w+": (?:[-\d.e+]+|"[^"\\]*"|null|true|false)', text)]
    if entries and random.random() < 0.15:
        again = random.choice(entries)  # a second value for a key that the document has
        text = text.replace(again, f"{again.partition(': ')[0]}: {random.choice((0, -1, 1e9, 'null'))}, {again}", 1)
    return text.encode("utf-8", "surrogatepass")


def mutate_json_lines(content: bytes, random: Random) -> bytes:
    """An entry of one row changed, or rows removed, repeated and moved."""
    lines = content.splitlines(keepends=True)
    if len(lines) < 2 or random.random() < 0.5:
        return mutate_text(content, random)
    place = random.randrange(len(lines))
    row = mutate_json(lines[place], random).replace(b"\n", b"")
    return b"".join([*lines[:place], row + b"\n", *lines[place + 1 :]])


def mutate_npy(content: bytes, random: Random) -> bytes:
    """An edit of the header's text, of its binary beginning, or of all bytes."""
    if random.random() < 0.3 or len(content) < 12:
        return mutate_bytes(content, random)
    (length,) = struct.unpack_from("<H", content, 8)
    header, rest = content[10 : 10 + length], content[10 + length :]
    header = _npy_header_edit(header, random)
    if random.random() < 0.7:  # a header that ends where its length says
        header = (header.rstrip() + b" " * length)[: max(length, len(header.rstrip())) - 1] + b"\n"
    return content[:8] + struct.pack("<H", len(header) % 2**16) + header + rest


def mutate_npz(content: bytes, random: Random) -> bytes:
    """An edit of the archive, or of an array in it."""
    if random.random() < 0.5:
        return mutate_bytes(content, random)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        arrays = {name: archive.read(name) for name in archive.namelist()}
    name = random.choice(sorted(arrays))
    arrays[name] = mutate_npy(arrays[name], random)
    if random.random() < 0.2:
        arrays[random.choice(("x", "labels", "y", "images.npy", "factors.npy"))] = arrays.pop(name)
    written = io.BytesIO()
    kinds = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2)
    with zipfile.ZipFile(written, "w", random.choice(kinds)) as archive:
        for one, array in arrays.items():
            # Without the current time, which would make the same case differ from one second to the next.
            member = zipfile.ZipInfo(one)
            member.compress_type = archive.compression
            archive.writestr(member, array)
    archived = written.getvalue()
    return mutate_bytes(archived, random) if random.random() < 0.4 else archived


def mutate_png(content: bytes, random: Random) -> bytes:
    """An edit of bytes, or of a chunk, whose checksum is then corrected."""
    if random.random() < 0.4:
        return mutate_bytes(content, random)
    chunks, place = [], 8
    while place + 12 <= len(content):
        (length,) = struct.unpack_from(">I", content, place)
        chunks.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + length]))
        place += length + 12
    one = random.randrange(len(chunks))
    kind, body = chunks[one]
    chunks[one] = random.choice((kind, kind, kind, b"iCCP", b"tRNS", b"PLTE")), mutate_bytes(body, random)
    if random.random() < 0.2:
        chunks.insert(random.randrange(len(chunks)), random.choice(chunks))
    parts = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    ]
    return content[:8] + b"".join(parts)


def mutate_safetensors(content: bytes, random: Random) -> bytes:
    """An edit of bytes, or of the JSON header with a matching length."""
    if random.random() < 0.5:
        return mutate_bytes(content, random)
    (length,) = struct.unpack_from("<Q", content)
    header = mutate_json(content[8 : 8 + length], random)
    return struct.pack("<Q", len(header)) + header + content[8 + length :]


def _npy_header_edit(header: bytes, random: Random) -> bytes:
    shape = re.search(rb"\([^)]*\)", header)
    shapes = (
        b"(True, 3)",
        b"(-1, 3)",
        b"(" + b"9" * 30 + b",)",
        b"(1.5,)",
        b"()",
        b"('a',)",
        b"(2, 10000000000)",
        b"((3,), 3)",
    )
    kinds = (
        b"'|O'",
        b"'<U3'",
        b"'>f8'",
        b"'|b1'",
        b"'<M8[s]'",
        b"'|V8'",
        b"'<c16'",
        b"'<f2'",
        b"[('a', '<f8')]",
        b"3",
        b"'" + b"<" * 99 + b"'",
    )
    tokens = (
        b"{[]:1}",
        b"-" * 3000 + b"1",
        b"(" * 300,
        b"1" * 5000,
        b"'",
        b"#",
        b"\\",
        b"\x00",
        b"lambda: 0",
        b"{**{}}",
        b"1e999",
    )
    choice = random.random()
    if choice < 0.3 and shape is not None:
        return _replaced(header, *shape.span(), random.choice(shapes))
    if choice < 0.5:
        return re.sub(rb"'[<>|]\w+'", lambda _: random.choice(kinds), header, count=1)
    if choice < 0.7:
        return insert_tokens(*tokens)(header, random)
    return mutate_text(header, random)


def _edited_value(value: Any, random: Random) -> Any:
    """One value, at any depth, of nested tables and lists edited."""
    if isinstance(value, dict | list) and value and random.random() < 0.85:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = random.choice(keys)
        edited = value.copy()
        act = random.random()
        if act < 0.12:
            del edited[key]
        elif act < 0.2 and isinstance(edited, dict):
            edited[random.choice((f"{key}_", "", *keys))] = edited.pop(key)
        elif act < 0.25:
            edited[key] = value[random.choice(keys)]
        else:
            edited[key] = _edited_value(value[key], random)
        return edited
    if type(value) in (int, float) and random.random() < 0.5:
        return random.choice((value + 1, value * 2, -value, value // 3, value + 0.5 if abs(value) < 2**53 else 0.5))
    if isinstance(value, str) and value and random.random() < 0.4:
        return flip_bit(value.encode("utf-8", "surrogatepass"), random).decode("latin-1")
    return random.choice(EDGE_VALUES)


def _edited(content: bytes, random: Random, edits: tuple[Mutation, ...]) -> bytes:
    """One edit, or a few, the first of which changes something."""
    edited = content
    for _ in range(100):
        if edited != content:
            break
        edited = random.choice(edits)(content, random)
    for _ in range(random.choice((0, 0, 0, 1, 3))):
        edited = random.choice(edits)(edited, random)
    return edited


def _place(content: bytes, random: Random) -> int:
    """A position; more often in the header, at the beginning."""
    return random.randrange(max(1, min(len(content), random.choice((16, 256, len(content), len(content))))))


def _span(content: bytes, random: Random) -> tuple[int, int]:
    start = _place(content, random)
    return start, min(len(content), start + random.choice((1, 2, 4, 8, MAX_SPAN)))


def _byte(content: bytes, place: int) -> int:
    return content[place] if place < len(content) else 0


def _replaced(content: bytes, start: int, stop: int, by: bytes) -> bytes:
    return content[:start] + by + content[stop:]
