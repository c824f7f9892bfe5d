# SPDX-License-Identifier: GPL-3.0-or-later
"""Feet that stand where they are said to stand: any motion whose contacts are known becomes one whose feet do not slide.

While a foot stands, whichever of its heel, ball and tip moves least is kept where it is, one after the other as the foot rolls
over them, and its lowest point is on the floor. The foot keeps its own turns. What that moves it by fades away before and after;
everything else stays as it was. The Hips give way where a leg would not reach. Core axes, metres; frames on the first axis.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.contacts import foot_points, runs
from ..core.skeleton import Skeleton
from . import foot_pins
from .foot_pins import Ground, eased, flat_ground

BLEND = 0.2  # [s] over which a foot gets to where it stands, and back
SLACK = 0.02  # [m/s] that a standing foot may move: captured feet that stand are not quieter
LOW = 0.25  # [m per m] a point that is higher than another counts as moving by this share of its height more in every frame
QUIET = 0.001  # [m a frame] a foot that moves less stands still
GIVES = 0.1  # [s] over which the Hips give way
SHORT = 0.006  # [m] by which a leg may miss before the Hips give way: captured feet float by more where they strike and leave
SPARE = 0.9995  # share of a leg's length within which the Hips give way
LEAST = 1e-9  # [m] a foot that would move less stays


@dataclass(frozen=True)
class Held:
    """Motion whose feet stand."""

    turns: np.ndarray
    """(F, J, 3, 3) local core rotations."""
    root: np.ndarray
    """(F, 3) [m] the Hips' head."""
    moved: np.ndarray
    """(F, feet, 3) [m] how far each foot was moved."""
    missing: np.ndarray
    """(F, feet) [m] by how much a leg does not reach, after the Hips gave way; 6 mm at most unless it is far too short."""


def hold(
    skeleton: Skeleton,
    turns: np.ndarray,
    root: np.ndarray,
    contact: np.ndarray,
    fps: float,
    ground: Ground = flat_ground,
    slack: float = SLACK,
    fixed: np.ndarray | None = None,
    lift: bool = True,
) -> Held:
    """The motion with feet that stand wherever ``contact`` says so; frames that are farther from a contact than 0.2 s stay.

    A foot is never below the floor, standing or not, unless ``lift`` is false.

    Args:
        skeleton: with legs of thigh, shin, foot and toe.
        turns: (F, J, 3, 3) local core rotations.
        root: (F, 3) [m] the Hips' head.
        contact: (F, feet) bool.
        fps: frames a second.
        ground: heights of the floor.
        slack: [m/s] that a standing foot may go on moving.
        fixed: (F) bool, frames that stay as they are whatever their contacts say; a foot that stands in one of them stands
            there, and what it would have been moved by is taken out of the frames between two of them evenly.
        lift: raise feet that are below the floor wherever they are; False: only near contacts.

    Raises:
        ValueError: where ``contact`` has another shape, or the skeleton no such legs.
    """
    contact = np.asarray(contact, bool)
    if contact.shape != (len(root), len(skeleton.feet)):
        raise ValueError(f"contacts: expected {len(root)} frames of {len(skeleton.feet)} feet, got {contact.shape}")
    foot_pins.soles(skeleton)
    turned, heads = foot_pins.forward(skeleton, turns, root)
    points = foot_points(skeleton, turned, heads)
    moved = np.stack(
        [_moves(points[:, k], contact[:, k], fps, ground, slack, lift) for k in range(len(skeleton.feet))], axis=1
    )
    feet = list(skeleton.feet)
    if fixed is not None:
        moved = without_moving(moved, fixed)
    ankles = heads[:, feet] + moved
    out_root = _giving_way(skeleton, heads, root, ankles, fps)
    if fixed is not None:
        out_root = root + without_moving(out_root - root, fixed)
    active = np.flatnonzero((np.abs(moved).max(axis=(1, 2)) > LEAST) | (out_root[:, 2] != root[:, 2]))
    out, missing = turns.copy(), np.zeros(contact.shape)
    if len(active):
        out[active], missing[active] = foot_pins.legs_to(
            skeleton, turns[active], out_root[active], ankles[active], turned[active][:, feet], own_knees=True
        )
    return Held(out, out_root, moved, missing)


def without_moving(moves: np.ndarray, fixed: np.ndarray) -> np.ndarray:
    """``moves`` (F, ...) less what moves the frames ``fixed`` (F) bool, interpolated between them; all of it where none is fixed."""
    rows = np.flatnonzero(fixed)
    if not len(rows):
        return moves
    flat = moves.reshape(len(moves), -1)
    every = np.arange(len(moves))
    taken = np.stack([np.interp(every, rows, column[rows]) for column in flat.T], axis=1)
    return moves - taken.reshape(moves.shape)


def _moves(points: np.ndarray, contact: np.ndarray, fps: float, ground: Ground, slack: float, lift: bool) -> np.ndarray:
    """(F, 3) [m] by how much a foot with ``points`` (F, 3, 3) has to move."""
    moved = np.zeros((len(points), 3))
    above = points[..., 2] - ground(points[..., :2])
    stands = runs(contact)
    for first, last in stands:
        moved[first:last, :2] = _still(points[first:last], above[first:last], slack / fps)
        for _ in range(3 if np.ptp(above - points[..., 2]) else 1):  # the floor may be another one there
            there = points[first:last] + moved[first:last, None]
            moved[first:last, 2] -= (there[..., 2] - ground(there[..., :2])).min(axis=1)
    width = max(1, round(BLEND * fps))
    fading, near = moved.copy(), np.full(len(points), float(lift))
    for (_, begin), (end, _) in zip([(0, 0), *stands], [*stands, (len(points), 0)], strict=True):
        rows = np.arange(begin, end)
        before, after = begin > 0, end < len(points)
        reach = min(width, end - begin + 1) if before and after else width
        if before:
            share = 1 - eased((rows - begin + 1) / reach)
            near[rows] = np.maximum(near[rows], share)
            fading[rows] += share[:, None] * moved[begin - 1]
        if after:
            share = 1 - eased((end - rows) / reach)
            near[rows] = np.maximum(near[rows], share)
            fading[rows] += share[:, None] * moved[end]
    there = points + fading[:, None]
    fading[:, 2] += np.maximum(-(there[..., 2] - ground(there[..., :2])).min(axis=1), 0) * ~contact * near
    return fading


def _still(points: np.ndarray, above: np.ndarray, slack: float) -> np.ndarray:
    """(n, 2) [m] moves along the floor after which the slowest of the points (n, 3, 3) moves at most ``slack`` a frame.

    They are 0 where the foot is quietest: it stands where it stood.
    """
    ways = np.diff(points[..., :2], axis=0)
    height = above - above.min(axis=1, keepdims=True)
    cost = np.linalg.norm(ways, axis=-1) + LOW * np.maximum(height[1:], height[:-1])
    chosen = np.take_along_axis(ways, cost.argmin(axis=1)[:, None, None], axis=1)[:, 0]
    size = np.linalg.norm(chosen, axis=1, keepdims=True)
    removed = chosen * (1 - np.minimum(1, slack / np.maximum(size, 1e-12)))
    moves = -np.concatenate([np.zeros((1, 2)), np.cumsum(removed, axis=0)])
    sizes = np.concatenate([size[:1], size, size[-1:]])[:, 0] if len(size) else np.zeros(2)
    quiet = (np.maximum(sizes[1:], sizes[:-1]) + QUIET) ** -2
    return np.asarray(moves - quiet @ moves / quiet.sum())


def _giving_way(skeleton: Skeleton, heads: np.ndarray, root: np.ndarray, ankles: np.ndarray, fps: float) -> np.ndarray:
    """The Hips' heads (F, 3), lower where a leg would not reach its ankle (F, feet, 3), smoothly.

    A leg that was straight, or longer than itself, may stay so.
    """
    thighs = [leg[0] for leg in skeleton.legs]
    before = np.linalg.norm(heads[:, thighs] - heads[:, list(skeleton.feet)], axis=-1)
    reach = np.maximum(foot_pins.soles(skeleton).reach * SPARE, before)
    out = root.copy()
    half = max(1, round(GIVES * fps))
    kernel = np.hanning(2 * half + 3)[1:-1]
    for _ in range(2):
        way = heads[:, thighs] + (out - root)[:, None] - ankles
        level = np.hypot(way[..., 0], way[..., 1])
        highest = np.sqrt(np.maximum(reach**2 - level**2, 0.05 * reach**2))
        over = np.maximum(way[..., 2] - highest, 0).max(axis=1)
        over = np.maximum(over - SHORT, 0)
        over[over < LEAST] = 0
        if not over.any():
            break
        padded = np.pad(over, 2 * half, mode="edge")
        widest = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1).max(axis=1)
        out[:, 2] -= np.convolve(widest, kernel / kernel.sum(), "valid")
    return out
