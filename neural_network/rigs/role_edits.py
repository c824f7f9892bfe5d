# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles edited by hand: what is wrong with a table of them, why a bone was taken, and which bone mirrors another.

A *table* is role -> bone name, as in the JSON files of :mod:`~neural_network.formats.roles`.
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

NAMED_MAY_BE_OFF = 0.1  # of the skeleton's size: a bone of the mirrored name is believed as far from the mirrored place
UNNAMED_MAY_BE_OFF = 0.03  # of the skeleton's size: a bone of any other name is not
IN_THE_MIDDLE = 0.01  # of the skeleton's size: a bone as near to the plane of symmetry has no partner
SAME_PLACE = 1e-3  # of the skeleton's size: bones this near to each other are told apart by their names

SIDE_WORDS = (
    *("left right", "l r", "lft rgt", "lt rt", "lf rt", "izq der", "izquierda derecha"),
    *("gauche droite", "links rechts", "左 右"),
)


def part_of(role: str) -> str:
    """ "Hand" of LeftHand; "Trunk" and "Neck" of those of the spine and the neck."""
    part = role.removeprefix("Left").removeprefix("Right")
    return "Trunk" if part in TRUNK else "Neck" if part in NECK else part


def side_of(role: str) -> str:
    """ "Left", "Right", or nothing for a role in the middle."""
    return "Left" if role.startswith("Left") else "Right" if role.startswith("Right") else ""


def other_side(role: str) -> str:
    """The role on the other side; nothing for a role in the middle."""
    side = side_of(role)
    return {"Left": "Right", "Right": "Left", "": ""}[side] + role.removeprefix(side) if side else ""


def problems(table: Mapping[str, str], names: Sequence[str], parents: np.ndarray) -> dict[str, str]:
    """What is wrong with a table, role -> a sentence: bones that are not there, are given twice, or stand in wrong order.

    Args:
        table: role -> bone name; an empty name is no bone.
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
            out[role] = f"{name!r} is {' and '.join(twice)} too; every bone plays one role at most"
        else:
            wrong = _order(role, given, index, parents)
            if wrong:
                out[role] = wrong
    return out


def _order(role: str, given: Mapping[str, str], index: Mapping[str, int], parents: np.ndarray) -> str:
    """What is wrong with a bone's place in the tree: it should hang below the next bone above it that plays a role."""
    above = next((r for r in roles_above(role) if given.get(r) in index), "")
    if not above or given[above] == given[role]:
        return ""
    own, parent = index[given[role]], index[given[above]]
    if parent in ancestors(parents, own):
        return ""
    if own in ancestors(parents, parent):
        return f"{given[role]!r} is above {given[above]!r} in the skeleton, but {role} belongs below {above}"
    return f"{given[role]!r} does not hang below {given[above]!r}, which is {above}"


@cache
def roles_above(role: str) -> tuple[str, ...]:
    """The roles that this one hangs on, nearest first."""
    rig = reference_rig.reference()
    return tuple(rig.names[j] for j in ancestors(rig.parents, rig.names.index(role)))


def reasons(roles: Roles, names: Sequence[str]) -> dict[str, str]:
    """Why each role was given to its bone, in half a sentence; arguments as ``find_roles`` took and gave them."""
    said = read_names(names)
    by_name = any("from the names alone" in note for note in roles.notes)
    out = {}
    for role, j in roles.bones.items():
        if j is None:
            continue
        if by_name:
            out[role] = "its name alone; the structure shows no body"
            continue
        parts, part = said[j].parts, part_of(role)
        words = "where it stands in the body"
        if part in parts:
            words += ", and its name says so"
        elif parts:
            words += f", though its name speaks of {' or '.join(sorted(parts))}"
        else:
            words += "; its name says nothing"
        if side_of(role) and said[j].side and said[j].side != side_of(role):
            words += f". Its name says {said[j].side.lower()}; geometry was believed"
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
    """The bone that mirrors ``bone`` across the body; None where there is none, as for a bone in the middle.

    A bone of the mirrored name is taken where it stands about where the mirrored bone would, or where nothing does;
    any other has to stand there exactly.

    Args:
        bone: one of ``names``.
        table: role -> bone name: its pairs tell where the middle is. Without pairs X points to the side.
        names: (J) the skeleton's bones.
        parents: (J) int, -1 for roots: of several bones in the mirrored place the one that hangs alike is taken.
        heads: (J, 3) rest heads, any unit.
        tails: (J, 3) rest tails, same unit.
    """
    own = names.index(bone)
    middle, across = _plane(bone, table, names, heads)
    size = float(np.ptp(np.concatenate([heads, tails]), axis=0).max())
    away = (np.stack([heads[own], tails[own]]) - middle) @ across
    swapped = swap_sides(bone, names)
    named = names.index(swapped) if swapped else None
    if np.abs(away).max() <= IN_THE_MIDDLE * size and named is None:
        return None
    place = np.stack([heads[own], tails[own]]) - 2 * away[:, None] * across
    off = 0.5 * (np.linalg.norm(heads - place[0], axis=1) + np.linalg.norm(tails - place[1], axis=1))
    off[own] = np.inf
    if named is not None and off[named] <= NAMED_MAY_BE_OFF * size:
        return names[named]
    best = float(off.min())
    if best <= UNNAMED_MAY_BE_OFF * size and np.abs(away).max() > IN_THE_MIDDLE * size:
        near = np.flatnonzero(off <= best + SAME_PLACE * size).tolist()
        above = [len(ancestors(parents, k)) for k in range(len(names))]
        below = np.bincount([k for j in range(len(names)) for k in ancestors(parents, j)], minlength=len(names))

        def alike(k: int) -> tuple[bool, bool, float]:
            similar = SequenceMatcher(None, bone, names[k]).ratio()
            return bool(below[k] == below[own]), above[k] == above[own], similar

        return names[max(near, key=alike)]
    return names[named] if named is not None else None


def swap_sides(name: str, names: Sequence[str]) -> str:
    """The one of ``names`` that is ``name`` with its word for left or right exchanged; nothing where there is none.

    The first letter counts too: lfemur and rfemur.
    """
    twins = [tuple(pair.split()) for pair in SIDE_WORDS]
    twins += [(b, a) for a, b in twins]
    for match in re.finditer(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[左右]", name):
        word = match[0]
        options = [(word, b) for a, b in twins if a == word.lower()]
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
