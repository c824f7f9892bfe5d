# SPDX-License-Identifier: GPL-3.0-or-later
"""Acclaim skeletons (.asf)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from ..core.files import read_bytes
from ..core.messages import short
from ..core.rotations import matrix_from_euler
from .clip_limits import MAX_JOINTS, MAX_VALUE
from .text import Notes, decode, normalized_bytes, parse_number

_MAX_WORDS = 256  # of one line
_BONE_KEYS = ("name", "direction", "length", "axis", "dof")
_DEGREES_OF_FREEDOM = ("tx", "ty", "tz", "rx", "ry", "rz", "l")


@dataclass(frozen=True)
class AsfSkeleton:
    """The contents of an .asf file. Joints are in file order with parents before children; joint 0 is the root."""

    names: tuple[str, ...]
    parents: np.ndarray
    """(J) int, -1 for the root."""
    offsets: np.ndarray
    """(J, 3) joint relative to its parent's joint [file units]."""
    ends: np.ndarray
    """(J, 3) far end of each bone relative to its joint [file units]; zero for the root."""
    axes: np.ndarray
    """(J, 3, 3) the axes C that a bone rotates about, in world directions."""
    dof: tuple[tuple[str, ...], ...]
    """Per joint, the values that an .amc lists for it, in order: of tx ty tz rx ry rz l."""
    length: float
    """The file's ``length``: in the CMU files, a value divided by it is in inches."""
    degrees: bool
    """Whether the file's angles are in degrees."""
    warnings: tuple[str, ...] = ()


@dataclass
class _AsfText:
    """An .asf file split into its sections. Every entry is a list of words that starts with its line number."""

    length: float = 1.0
    degrees: bool = True
    root: dict[str, list[str]] = field(default_factory=dict)
    bones: list[dict[str, list[str]]] = field(default_factory=list)
    links: list[tuple[int, str, list[str]]] = field(default_factory=list)
    """Lines of the hierarchy: line number, parent, children."""


def read_skeleton(asf: str | Path) -> AsfSkeleton:
    """Read an .asf file. Raises ValueError with file, line and bone if it cannot be understood."""
    asf = Path(asf)
    return parse_skeleton(read_bytes(asf, "a skeleton (.asf)"), asf.name)


def parse_skeleton(data: bytes, source: str = "skeleton.asf") -> AsfSkeleton:
    """Read an .asf from bytes; messages call the file ``source``. Otherwise the same as ``read_skeleton``."""
    notes = Notes(source)
    text = decode(normalized_bytes(data, source, notes, "an ASF file with :bonedata"))
    if not re.search(r"^[ \t]*:[ \t]*(root|bonedata|hierarchy)", text, re.I | re.M):
        raise ValueError(f"{source}: not an ASF file; expected the sections :root, :bonedata and :hierarchy")
    return _skeleton(source, _split_sections(text, source, notes), notes)


def euler_matrices(angles: np.ndarray, order: str) -> np.ndarray:
    """Matrices of angles (..., n) [rad] about the axes ``order``, the first one applied first: R = R(last) ... R(first)."""
    return matrix_from_euler(angles[..., ::-1], order[::-1])


# ---------------------------------------------------------------- sections


def _split_sections(text: str, source: str, notes: Notes) -> _AsfText:
    out = _AsfText()
    section = ""
    bone: dict[str, list[str]] | None = None
    for line, words in _lines(text):
        key = words[0].lower()
        if key.startswith(":"):
            section = key[1:] or (words[1].lower() if len(words) > 1 else "")
            bone = None
        key = key.rstrip(":")
        if section == "units":
            _read_units(out, line, words, notes)
        elif words[0].startswith(":"):
            continue
        elif section == "root":
            out.root[key] = [str(line), *_values(words[1:])]
        elif section == "bonedata":
            bone = _read_bone_line(out, bone, key, line, words, notes)
            if len(out.bones) > MAX_JOINTS:
                raise ValueError(f"{source}, line {line}: expected at most {MAX_JOINTS} bones; the file is damaged")
        elif section == "hierarchy" and key not in ("begin", "end"):
            parent, *children = [name for word in words for name in word.split(",") if name] or [""]
            out.links.append((line, parent, children))
            if len(out.links) > MAX_JOINTS:
                raise ValueError(f"{source}, line {line}: expected at most {MAX_JOINTS} parents; the file is damaged")
    return out


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Number and first words of every non-empty line, without comments."""
    for number, found in enumerate(re.finditer(r"[^\n]*\n|[^\n]+", text), 1):
        words = found.group().split("#", 1)[0].split(None, _MAX_WORDS)[:_MAX_WORDS]
        if words:
            yield number, words


def _read_units(out: _AsfText, line: int, words: Sequence[str], notes: Notes) -> None:
    for what, word in pairwise(words):  # sometimes all on one line
        if what.lower().rstrip(":") == "angle":
            out.degrees = not word.lower().startswith("rad")
        elif what.lower().rstrip(":") == "length":
            value = parse_number(word.replace(",", "."))
            if value is None or not 0 < value < MAX_VALUE:
                notes.add(f"unit length {short(word, 20)!r} is not a positive number; 1 was used", f"line {line}")
            else:
                out.length = value


def _read_bone_line(
    out: _AsfText, bone: dict[str, list[str]] | None, key: str, line: int, words: Sequence[str], notes: Notes
) -> dict[str, list[str]] | None:
    """Add a line of the section :bonedata to ``bone``; returns the bone that the next line belongs to, None between bones."""
    if key in ("begin", "end"):
        if bone is not None and "name" in bone:
            out.bones.append(bone)
        elif bone is not None:
            notes.add("a bone without a name was skipped", f"line {bone['line'][0]}")
        return {"line": [str(line)]} if key == "begin" else None
    if bone is not None:
        if key == "name":
            bone["name"] = [" ".join(words[1:])]
        elif key in _BONE_KEYS and key not in bone:
            bone[key] = [str(line), *_values(words[1:])]
    return bone


def _values(words: Sequence[str]) -> list[str]:
    """The words after a bone's key, without brackets and commas; decimal commas become dots."""
    text = " ".join(words)
    if "," in text and "." not in text and not re.search(r",\s|,$", text):
        text = text.replace(",", ".")
    text = re.sub(r"(?<=[\d.])(?=[XYZ]{1,3}$)", " ", re.sub(r"[,;()]", " ", text), flags=re.I)
    return text.split()


# ---------------------------------------------------------------- bones


def _skeleton(source: str, text: _AsfText, notes: Notes) -> AsfSkeleton:
    factor = np.pi / 180 if text.degrees else 1.0
    names, ends, axes = ["root"], [np.zeros(3)], [np.eye(3)]
    dof: list[tuple[str, ...]] = [("tx", "ty", "tz", "rx", "ry", "rz")]
    if "order" in text.root:
        dof[0] = _dof(text.root["order"][0], "root", text.root["order"][1:], notes)
    position = _three(source, text.root["position"], "position") if "position" in text.root else np.zeros(3)
    if "orientation" in text.root:
        angles = _three(source, text.root["orientation"], "orientation") * factor
        axes[0] = euler_matrices(angles, _axis_order(text.root.get("axis", ["", "XYZ"])[1:]))
    empty = sum("direction" not in bone and "length" not in bone for bone in text.bones)
    if empty > max(200, 0.5 * len(text.bones)):
        raise ValueError(
            f"{source}: {empty} of {len(text.bones)} bones have no direction and no length; the file is damaged"
        )
    known = set(names)
    for bone in text.bones:
        line, name = bone["line"][0], bone["name"][0]
        if name in known:
            notes.add(f"bone {short(name)!r} is defined twice; the first one was used", f"line {line}")
            continue
        known.add(name)
        axis = bone.get("axis", [line, "0", "0", "0", "XYZ"])
        names.append(name)
        ends.append(_bone_end(source, bone, notes))
        axes.append(euler_matrices(_three(source, axis, f"axis of {name}") * factor, _axis_order(axis[4:])))
        dof.append(_dof(bone.get("dof", [line])[0], name, bone.get("dof", [line])[1:], notes))
    parents = _parents(source, names, text.links, notes)
    order = _parents_first(names, parents, notes)
    place = {old: new for new, old in enumerate(order)}
    above = np.array([-1 if old == 0 else place[parents[old]] for old in order])
    far_ends = np.array(ends)[order]
    return AsfSkeleton(
        names=tuple(names[i] for i in order),
        parents=above,
        offsets=np.where((above < 0)[:, None], position, far_ends[np.maximum(above, 0)]),
        ends=far_ends,
        axes=np.array(axes)[order],
        dof=tuple(dof[i] for i in order),
        length=text.length,
        degrees=text.degrees,
        warnings=notes.sentences(),
    )


def _bone_end(source: str, bone: dict[str, list[str]], notes: Notes) -> np.ndarray:
    """(3) far end of a bone relative to its joint [file units]; zero without a direction or a length."""
    name = bone["name"][0]
    place = f"line {bone['line'][0]}, bone {short(name)}"
    direction = _three(source, bone["direction"], f"direction of {name}") if "direction" in bone else np.zeros(3)
    size = np.linalg.norm(direction)
    if "direction" not in bone or size < 1e-9:
        notes.add("no direction; the bone was read with length 0", place)
    elif abs(size - 1) > 0.01:
        notes.add(f"the direction has length {size:.4g}; it was scaled to unit length", place)
        direction = direction / size
    length = parse_number(bone["length"][1]) if len(bone.get("length", [])) > 1 else None
    if length is None or not abs(length) < MAX_VALUE:
        notes.add("no length; the bone was read with length 0", place)
        length = 0.0
    return direction * length


def _three(source: str, entry: Sequence[str], what: str) -> np.ndarray:
    numbers = [parse_number(word) for word in entry[1:4]]
    if len(numbers) < 3 or any(n is None or not abs(n) < MAX_VALUE for n in numbers):
        raise ValueError(
            f"{source}, line {entry[0]}: expected {what} with three numbers, got {short(' '.join(entry[1:]), 40)!r}"
        )
    return np.array(numbers, dtype=np.float64)


def _axis_order(words: Sequence[str]) -> str:
    """Three axes in the order in which they are listed; XYZ if the words are not axes."""
    order = "".join(words[:3]).upper() or "XYZ"
    order = order if re.fullmatch(r"[XYZ]{1,3}", order) else "XYZ"
    return order.ljust(3, "X")[:3]


def _dof(line: str, bone: str, words: Sequence[str], notes: Notes) -> tuple[str, ...]:
    found = []
    for word in words:
        if word.lower() in _DEGREES_OF_FREEDOM:
            found.append(word.lower())
        else:
            what = f"degree of freedom {short(word, 20)!r} is unknown; its values are ignored"
            notes.add(what, f"line {line}, bone {bone}")
            found.append("?")
    return tuple(found)


# ---------------------------------------------------------------- hierarchy


def _parents(source: str, names: Sequence[str], links: Sequence[tuple[int, str, list[str]]], notes: Notes) -> list[int]:
    """Parent index of each bone; -2 for a bone without a parent."""
    index = {name: i for i, name in enumerate(names)}
    lower = {name.lower(): i for i, name in enumerate(names)}
    parents = [-1] + [-2] * (len(names) - 1)
    for line, above, below in links:
        parent = index.get(above, lower.get(above.lower()))
        if parent is None:
            raise ValueError(
                f"{source}, line {line}: :hierarchy names the bone {short(above)!r}, which is not in :bonedata"
            )
        for name in below:
            child = index.get(name, lower.get(name.lower()))
            if child is None:
                what = f":hierarchy names the bone {short(name)!r}, which is not in :bonedata; it was ignored"
                notes.add(what, f"line {line}")
            elif child == 0:
                notes.add("the root cannot have a parent; this was ignored", f"line {line}")
            elif parents[child] != -2:
                notes.add(f"a second parent, {short(above)!r}, was ignored", f"line {line}, bone {short(name)}")
            else:
                parents[child] = parent
    return parents


def _parents_first(names: Sequence[str], parents: Sequence[int], notes: Notes) -> list[int]:
    """Indices of the bones in file order, except that parents come first; bones without a way to the root are left out."""
    children: dict[int, list[int]] = {}
    for i, parent in enumerate(parents):
        children.setdefault(parent, []).append(i)
    passes = {0: 0}  # how often the file has to be read until the parent of a bone is known
    todo = [0]
    while todo:
        above = todo.pop()
        for i in children.get(above, ()):
            passes[i] = passes[above] + (i < above)
            todo.append(i)
    loose = [i for i in range(len(names)) if i not in passes]
    if loose:
        listed = ", ".join(short(names[i]) for i in loose[:6])
        notes.add(f"bones {listed} are not connected to the root and were left out")
    return sorted(passes, key=lambda i: (passes[i], i))
