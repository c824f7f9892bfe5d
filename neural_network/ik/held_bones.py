# SPDX-License-Identifier: GPL-3.0-or-later
"""Hands, or the ends of any limb of two bones, that stay where they are held; as :mod:`.held_feet` does it with feet.

While an end is held, it is where it was on average of that time; what that moves it by fades away before and after. The limb bends
about the axis about which it is bent, and swings the shortest way; the end keeps its own turn. Core axes, metres.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..core import rotations
from ..core.contacts import runs
from ..core.skeleton import Skeleton
from ..rigs.on_body import HANDS
from .foot_pins import STRETCH, eased, forward
from .held_feet import BLEND, LEAST, without_moving

AGAIN, NEAR = 12, 1e-5  # times at most that a character's own hands are corrected, and [m] how near is enough
FAR = 0.002  # [m] by which a hand may miss without a word
STRAIGHT = 0.03  # sine of the bend below which a limb counts as straight, and bends as it did when it last was not


def hold_ends(
    skeleton: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    ends: Sequence[int],
    held: np.ndarray,
    fps: float,
    places: np.ndarray | None = None,
    fixed: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Local rotations (F, J, 3, 3) of motion whose ends stay, and by how much each does not reach (F, ends) [m].

    Args:
        skeleton: any, in which two bones lead to each end.
        turns: (F, J, 3, 3) local core rotations.
        root: (F, 3) [m] the root's head.
        ends: bones, such as hands.
        held: (F, ends) bool.
        fps: frames a second.
        places: (F, ends, 3) [m] where held ends are wanted; None, or NaN: where each is on average while it is held.
        fixed: (F) bool, frames that stay as they are; see :func:`.held_feet.hold`.

    Raises:
        ValueError: where ``held`` has another shape, or no two bones lead to an end.
    """
    held = np.asarray(held, bool)
    if held.shape != (len(root), len(ends)):
        raise ValueError(f"held: expected {len(root)} frames of {len(ends)} ends, got {held.shape}")
    out, missing = turns.copy(), np.zeros(held.shape)
    for k, end in enumerate(ends):
        middle = int(skeleton.parents[end])
        upper = int(skeleton.parents[middle]) if middle >= 0 else -1
        if upper < 1:
            raise ValueError(f"held: expected two bones between the root and {skeleton.names[end]}, got fewer")
        turned, heads = forward(skeleton, out, root)
        moved = _moves(heads[:, end], held[:, k], None if places is None else places[:, k], fps)
        if fixed is not None:
            moved = without_moving(moved, fixed)
        rows = np.flatnonzero(np.abs(moved).max(axis=1) > LEAST)
        if len(rows):
            bones = (upper, middle, end)
            out[rows], missing[rows, k] = _limb_to(skeleton, out[rows], turned[rows], heads[rows], bones, moved[rows])
    return out, missing


def _moves(heads: np.ndarray, held: np.ndarray, places: np.ndarray | None, fps: float) -> np.ndarray:
    """(F, 3) [m] by how much an end has to move."""
    out, width = np.zeros_like(heads), max(1, round(BLEND * fps))
    found = runs(held)
    for first, last in found:
        asked = None if places is None or np.isnan(places[first:last]).any() else places[first:last]
        wanted = heads[first:last].mean(axis=0) if asked is None else asked
        out[first:last] = wanted - heads[first:last]
    fading = out.copy()
    for (_, begin), (end, _) in zip([(0, 0), *found], [*found, (len(heads), 0)], strict=True):
        rows = np.arange(begin, end)
        between = begin > 0 and end < len(heads)
        reach = min(width, end - begin + 1) if between else width
        if begin > 0:
            fading[rows] += (1 - eased((rows - begin + 1) / reach))[:, None] * out[begin - 1]
        if end < len(heads):
            fading[rows] += (1 - eased((end - rows) / reach))[:, None] * out[end]
    return fading


def _limb_to(
    skeleton: Skeleton,
    turns: np.ndarray,
    turned: np.ndarray,
    heads: np.ndarray,
    bones: tuple[int, int, int],
    moved: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Turns of a limb whose end moves by ``moved`` (N, 3), and what is missing (N)."""
    upper, middle, end = bones
    a, b = heads[:, middle] - heads[:, upper], heads[:, end] - heads[:, middle]
    way = heads[:, end] + moved - heads[:, upper]
    u, v = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    far = np.linalg.norm(way, axis=1)
    reached = np.clip(far, np.abs(u - v) + 1e-6, (u + v) * STRETCH)
    normal = np.cross(a, b)
    sine = np.linalg.norm(normal, axis=1) / (u * v)
    bent = np.flatnonzero(sine > STRAIGHT)
    own = normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-12)
    if len(bent):
        local = np.einsum("nba,nb->na", turned[:, upper], own)
        nearest = bent[np.abs(np.arange(len(own))[:, None] - bent).argmin(axis=1)]
        own = np.einsum("nab,nb->na", turned[:, upper], local[nearest])
    now = np.arctan2(np.einsum("na,na->n", np.cross(a, b), own), np.einsum("na,na->n", a, b))
    wanted = np.arccos(np.clip((reached**2 - u**2 - v**2) / (2 * u * v), -1, 1))
    bend = rotations.matrix_from_axis_angle(own * (wanted - now)[:, None])
    lower = np.einsum("nab,nb->na", bend, b)
    swing = rotations.rotation_between(a + lower, way)
    above = turned[:, int(skeleton.parents[upper])]
    new_upper = swing @ turned[:, upper]
    new_middle = swing @ bend @ turned[:, middle]
    out = turns.copy()
    out[:, upper] = np.swapaxes(above, -1, -2) @ new_upper
    out[:, middle] = np.swapaxes(new_upper, -1, -2) @ new_middle
    out[:, end] = np.swapaxes(new_middle, -1, -2) @ turned[:, end]
    return out, np.maximum(far - reached, 0)


def hold_hands(
    body: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    held: np.ndarray,
    fps: float,
    places: np.ndarray | None = None,
    fixed: np.ndarray | None = None,
    own: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """:func:`hold_ends` for the hands of a body with the reference rig's bones, ``held`` (F, 2) bool, left and right.

    ``own`` tells from turns and root where the character's own hands are, (F, 2, 3) [m], where its body's are a little beside
    them: then these are brought to ``places``. Frames in which a hand cannot reach are as near as it gets.

    Raises ValueError as :func:`hold_ends` does.
    """
    ends = [body.names.index(name) for name in HANDS]
    out, missing = hold_ends(body, turns, root, ends, held, fps, places, fixed)
    if places is None or own is None:
        return out, missing
    wanted = np.array(places, float)
    free = np.zeros(len(root), bool) if fixed is None else np.asarray(fixed, bool)
    for _ in range(AGAIN):
        off = np.nan_to_num(places - own(out, root))
        off[~held | free[:, None] | (missing > LEAST)] = 0
        if np.abs(off).max(initial=0) < NEAR:
            break
        wanted += off
        out, missing = hold_ends(body, turns, root, ends, held, fps, wanted, fixed)
    return out, missing


def too_far(missing: np.ndarray) -> tuple[str, ...]:
    """A sentence for each hand that does not reach, from :func:`hold_hands`' second answer (F, 2) [m]."""
    far = missing.max(axis=0, initial=0)
    return tuple(
        f"the {side} hand does not reach where it is to hold by up to {1000 * most:.0f} mm; pose a key nearer to it"
        for side, most in zip(("left", "right"), far.tolist(), strict=True)
        if most > FAR
    )
