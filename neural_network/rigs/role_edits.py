# SPDX-License-Identifier: GPL-3.0-or-later
"""Editing roles by hand: problems of a table of roles, reasons for a role, and the bone that mirrors another.

A *table* is role -> bone name, as in the JSON files of :mod:`~neural_network.rigs.roles`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache

import numpy as np

from ..core import reference_rig
from .bone_names import read_names
from .bone_tree import ancestors
from .roles import NECK, ROLE_NAMES, TRUNK, Roles

NAMED_TOLERANCE = 0.1  # of the skeleton's size: how far a bone with the mirrored name may be from the mirrored place
UNNAMED_TOLERANCE = 0.03  # of the skeleton's size: how far a bone with any other name may be from it
MIDDLE = 0.01  # of the skeleton's size: a bone this close to the plane of symmetry has no partner
SAME_PLACE = 1e-3  # of the skeleton's size: bones this close together are told apart by their names

SIDE_WORDS = (
    *("left right", "l r", "lft rgt", "lt rt", "lf rt", "izq der", "izquierda derecha"),
    *("gauche droite", "links rechts", "左 右"),
)


def part_of(role: str) -> str:
    """The part without the side: "Hand" for LeftHand; "Trunk" for spine roles, "Neck" for neck roles."""
    part = role.removeprefix("Left").removeprefix("Right")
    return "Trunk" if part in TRUNK else "Neck" if part in NECK else part


def side_of(role: str) -> str:
    """ "Left", "Right", or empty for a role in the middle."""
    return "Left" if role.startswith("Left") else "Right" if role.startswith("Right") else ""


def other_side(role: str) -> str:
    """The role on the other side; empty for a role in the middle."""
    side = side_of(role)
    return {"Left": "Right", "Right": "Left", "": ""}[side] + role.removeprefix(side) if side else ""


def problems(table: Mapping[str, str], names: Sequence[str], parents: np.ndarray) -> dict[str, str]:
    """Problems of a table, role -> sentence: bones that do not exist, have two roles, or are in the wrong order.

    Args:
        table: role -> bone name; an empty name means no bone.
        names: (J) the skeleton's bones.
        parents: (J) int, -1 for roots.
    """
    index = {name: j for j, name in enumerate(names)}
    given = {role: name for role, name in table.items() if name}
    out: dict[str, str] = {}
    for role, name in given.items():
        twice = [other for other, bone in given.items() if bone == name and other != role]
        if name not in index:
            out[role] = f"the skeleton has no bone {name!r}"
        elif twice:
            out[role] = f"{name!r} is also {' and '.join(twice)}; a bone can have only one role"
        else:
            wrong = _order_problem(role, given, index, parents)
            if wrong:
                out[role] = wrong
    return out


def _order_problem(role: str, given: Mapping[str, str], index: Mapping[str, int], parents: np.ndarray) -> str:
    """What is wrong with a bone's place in the tree; empty if it is below the bone of the next role above it."""
    above = next((r for r in roles_above(role) if given.get(r) in index), "")
    if not above or given[above] == given[role]:
        return ""
    own, parent = index[given[role]], index[given[above]]
    if parent in ancestors(parents, own):
        return ""
    if own in ancestors(parents, parent):
        return f"{given[role]!r} is above {given[above]!r} in the skeleton, but {role} belongs below {above}"
    return f"{given[role]!r} is not below {given[above]!r}, which is {above}"


@cache
def roles_above(role: str) -> tuple[str, ...]:
    """The roles above this one, nearest first."""
    rig = reference_rig.reference()
    return tuple(rig.names[j] for j in ancestors(rig.parents, rig.names.index(role)))


def reasons(roles: Roles, names: Sequence[str]) -> dict[str, str]:
    """Why each role has its bone, as a phrase; ``roles`` are the result of ``find_roles`` for a skeleton with ``names``."""
    info = read_names(names)
    by_name = any("from the names alone" in note for note in roles.notes)
    out = {}
    for role, j in roles.bones.items():
        if j is None:
            continue
        if by_name:
            out[role] = "only its name; the structure shows no body"
            continue
        parts, part = info[j].parts, part_of(role)
        words = "its place in the body"
        if part in parts:
            words += " and its name"
        elif parts:
            words += f", although its name suggests {' or '.join(sorted(parts))}"
        else:
            words += "; its name tells nothing"
        if side_of(role) and info[j].side and info[j].side != side_of(role):
            words += f". Its name says {info[j].side.lower()}; geometry was used"
        out[role] = words
    return out


def mirror(
    bone: str,
    table: Mapping[str, str],
    names: Sequence[str],
    parents: np.ndarray,
    heads: np.ndarray,
    tails: np.ndarray,
) -> str | None:
    """The bone that mirrors ``bone`` across the body; None if there is none, as for a bone in the middle.

    A bone with the mirrored name is used if it is about where the mirrored bone would be, or if no other bone is there;
    a bone with another name must be there exactly.

    Args:
        bone: one of ``names``.
        table: role -> bone name; its pairs define the plane of symmetry. Without pairs X points to the side.
        names: (J) the skeleton's bones.
        parents: (J) int, -1 for roots; of several bones at the mirrored place the one with the most similar place in the tree is
            used.
        heads: (J, 3) rest heads, any unit.
        tails: (J, 3) rest tails, same unit.
    """
    own = names.index(bone)
    middle, across = _plane(bone, table, names, heads)
    size = float(np.ptp(np.concatenate([heads, tails]), axis=0).max())
    away = (np.stack([heads[own], tails[own]]) - middle) @ across
    swapped = swap_sides(bone, names)
    named = names.index(swapped) if swapped else None
    if np.abs(away).max() <= MIDDLE * size and named is None:
        return None
    place = np.stack([heads[own], tails[own]]) - 2 * away[:, None] * across
    off = 0.5 * (np.linalg.norm(heads - place[0], axis=1) + np.linalg.norm(tails - place[1], axis=1))
    off[own] = np.inf
    if named is not None and off[named] <= NAMED_TOLERANCE * size:
        return names[named]
    best = float(off.min())
    if best <= UNNAMED_TOLERANCE * size and np.abs(away).max() > MIDDLE * size:
        near = np.flatnonzero(off <= best + SAME_PLACE * size).tolist()
        above = [len(ancestors(parents, k)) for k in range(len(names))]
        below = np.bincount([k for j in range(len(names)) for k in ancestors(parents, j)], minlength=len(names))

        def similarity(k: int) -> tuple[bool, bool, float]:
            same_name = SequenceMatcher(None, bone, names[k]).ratio()
            return bool(below[k] == below[own]), above[k] == above[own], same_name

        return names[max(near, key=similarity)]
    return names[named] if named is not None else None


def swap_sides(name: str, names: Sequence[str]) -> str:
    """The one of ``names`` that is ``name`` with its word for left or right exchanged; empty if there is none.

    The first letter counts as well: lfemur and rfemur.
    """
    pairs = [tuple(pair.split()) for pair in SIDE_WORDS]
    pairs += [(b, a) for a, b in pairs]
    for match in re.finditer(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[左右]", name):
        word = match[0]
        options = [(word, b) for a, b in pairs if a == word.lower()]
        if word[0] in "lrLR":
            options.append((word, "rlRL"["lrLR".index(word[0])] + word[1:]))
        for old, new in options:
            cased = new.upper() if old.isupper() else new.capitalize() if old[0].isupper() else new
            swapped = name[: match.start()] + cased + name[match.end() :]
            if swapped in names and swapped != name:
                return swapped
    return ""


def _plane(
    bone: str, table: Mapping[str, str], names: Sequence[str], heads: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A point (3) in the plane of symmetry, and the unit vector (3) across it."""
    index = {name: j for j, name in enumerate(names)}
    pairs = [
        (index[table[role]], index[table[other_side(role)]])
        for role in ROLE_NAMES
        if side_of(role) == "Left"
        and table.get(role) in index
        and table.get(other_side(role)) in index
        and bone not in (table[role], table[other_side(role)])
    ]
    if pairs:
        left, right = heads[[a for a, _ in pairs]], heads[[b for _, b in pairs]]
        across = np.median((left - right) / np.maximum(np.linalg.norm(left - right, axis=1, keepdims=True), 1e-12), 0)
        length = float(np.linalg.norm(across))
        if length > 0.5:
            return np.median(0.5 * (left + right), axis=0), across / length
    middle = index.get(table.get("Hips", ""))
    return (heads[middle] if middle is not None else np.median(heads, axis=0)), np.array([1.0, 0, 0])
