# SPDX-License-Identifier: GPL-3.0-or-later
"""Splits: which frames are for training, validation and test."""

from __future__ import annotations

import numpy as np

from ..core.messages import counted
from .pose_set import PoseSet

UNUSED, TRAIN, VALIDATION, TEST = range(4)
PART_NAMES = ("unused", "train", "validation", "test")
SPLITS = ("block", "clip", "frame")
SPLIT_SHARE = 0.11  # of the frames (or clips) held out for test, and as many for validation
SPLIT_LEAST = 3  # minimum frames in a test or validation block
SPLIT_GAP = 0.1  # [s] unused on each side of a held-out block: neighbouring frames are near-copies


def split(poses: PoseSet, kind: str = "block", share: float = SPLIT_SHARE, seed: int = 0) -> np.ndarray:
    """(F) int8, the part (UNUSED, TRAIN, VALIDATION, TEST) of every frame.

    ``block``: in each clip the last ``share`` of frames (at least 3) is test, the same before it validation, and 0.1 s
    (at least one frame) on each side stays unused; a clip too short for that is all training. ``clip``: whole clips, permuted by ``seed``.
    ``frame``: random frames; this leaks, since neighbouring frames are near-copies. Raises ValueError if nothing can be held out.
    """
    if kind not in SPLITS:
        raise ValueError(f"split: expected one of {', '.join(SPLITS)}, got {kind!r}")
    if not 0 < share < 0.5:
        raise ValueError(f"share held out: expected a number between 0 and 0.5, got {share}")
    parts = np.full(poses.frames, TRAIN, np.int8)
    rng = np.random.default_rng(seed)
    if kind == "block":
        for c in range(len(poses.clip_names)):
            rows = poses.rows(c)
            count = rows.stop - rows.start
            held = max(SPLIT_LEAST, round(share * count))
            gap = max(1, round(SPLIT_GAP * poses.clip_fps[c]))
            kept = count - 2 * (held + gap)
            if kept < SPLIT_LEAST:
                continue
            own = np.repeat([TRAIN, UNUSED, VALIDATION, UNUSED, TEST], [kept, gap, held, gap, held])
            parts[rows] = own.astype(np.int8)
    elif kind == "clip":
        order = rng.permutation(len(poses.clip_names))
        held = max(1, round(share * len(order)))
        if len(order) >= 3:
            parts = _clip_parts(poses, order[:held], order[held : 2 * held])
    else:
        order = rng.permutation(poses.frames)
        held = max(SPLIT_LEAST, round(share * poses.frames))
        if poses.frames >= 3 * SPLIT_LEAST:
            parts[order[:held]] = TEST
            parts[order[held : 2 * held]] = VALIDATION
    if not all(np.any(parts == part) for part in (TRAIN, VALIDATION, TEST)):
        raise ValueError(
            f"nothing left to hold out: the split {kind!r} needs "
            + ("at least 3 clips" if kind == "clip" else "longer clips (about 20 frames each)")
            + f", got {counted(len(poses.clip_names), 'clip')} with {counted(poses.frames, 'frame')}; add motion or choose another --split"
        )
    return parts


def folds(poses: PoseSet, count: int, share: float = SPLIT_SHARE, seed: int = 0) -> list[np.ndarray]:
    """``count`` splits by whole clips: clips are permuted by ``seed`` and dealt round-robin, and each is in the test part of one fold.

    Validation clips are the first of the next fold's, as many as ``share`` of the rest (at least one).
    """
    clips = len(poses.clip_names)
    if not 0 < share < 0.5:
        raise ValueError(f"share held out: expected a number between 0 and 0.5, got {share}")
    if not 2 <= count <= clips - 1:
        raise ValueError(f"folds: expected 2 to {clips - 1} folds for {clips} clips, got {count}")
    order = np.random.default_rng(seed).permutation(clips)
    hands = [order[i::count] for i in range(count)]
    out = []
    for i in range(count):
        rest = np.concatenate([hands[(i + 1 + k) % count] for k in range(count - 1)])
        out.append(_clip_parts(poses, hands[i], rest[: max(1, round(share * len(rest)))]))
    return out


def _clip_parts(poses: PoseSet, test: np.ndarray, validation: np.ndarray) -> np.ndarray:
    of_clip = np.full(len(poses.clip_names), TRAIN, np.int8)
    of_clip[test], of_clip[validation] = TEST, VALIDATION
    return of_clip[poses.clip]


def thin(parts: np.ndarray, most: int) -> np.ndarray:
    """``parts`` with at most ``most`` evenly spaced training frames; the others become unused. 0 keeps all."""
    rows = np.flatnonzero(parts == TRAIN)
    if not most or len(rows) <= most:
        return parts
    out = parts.copy()
    out[rows] = UNUSED
    out[rows[np.linspace(0, len(rows) - 1, most).round().astype(int)]] = TRAIN
    return out
