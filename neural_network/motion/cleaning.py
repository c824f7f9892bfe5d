# SPDX-License-Identifier: GPL-3.0-or-later
"""Cleaning captured motion before it is used for training: faults are found, counted and removed.

Everything is measured in body heights and seconds, so that units and frame rates do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ..core import rotations
from ..core.files import megabytes
from ..core.skeleton import Skeleton
from .clip import Clip, body_height, body_joints, body_top, clip_tremble, global_pose, joint_motion, level_axis
from .pose_set import PoseSet

JUMP = 0.05  # [body heights] mean movement of all joints in one frame above which it may be a jump
JUMP_RATIO = 8.0  # and this many times the movement of the frames around it: real motion builds up over frames
JUMP_SPEED = 5.0  # [body heights/s] and faster than a whole body ever moves
T_POSE_ANGLE = np.radians(9)  # mean rotation of the joints below which a pose is the rest pose
T_POSE_LONGEST = 0.5  # [s] an inserted pose at the start or end is not held longer
GLITCH_LONGEST = 0.1  # [s] a shorter run of frames between two jumps is not motion
RAMP_LONGEST = 0.1  # [s] some converters blend from the inserted T-pose into the motion
RAMP_BEND = 4.0  # times the usual acceleration of the joints: a blend into a fast motion
RAMP_FEWEST = 3  # frames of such a blend
AROUND = 0.25  # [s] to each side: the frames around a frame
STILL = 1e-6  # [body heights] a joint that moves less counts as still
FROZEN_LEAST = 0.1  # [s] and at least 3 frames: a body never stands exactly still for that long
HELD_FEWEST = 12  # different poses from which it shows that each is held
HELD_LEAST = 1.15  # frames a pose, on average
HELD_SHARE = 0.9  # of the poses that last as long as the others, to a frame
HELD_RATE = 0.02  # of a rate: this near to a whole number it is one
HELD_SAME = 1e-7  # change of the numbers of a pose below which it is the same
HELD_LONGEST = 0.25  # [s] longer gaps are not filled in; the clip is cut there
FASTEST = 12.0  # [m/s] 99th percentile of the joints' speed; sprinters' feet reach it, above it a rate or unit is wrong
LARGEST_CLIP = 256 << 20
"""[bytes] of rotations to which a clip is resampled, however small it is; four times its own are always allowed."""
_CORRECTION = (np.sqrt(2) - 1) ** 0.25  # a second-order Butterworth applied twice is 3 dB down here, not at its cutoff


@dataclass(frozen=True)
class Findings:
    """What was found in one clip, in frames, and figures that show a wrong rate, unit or axis."""

    t_poses: int = 0
    """Frames of an inserted T-pose or rest pose at the start or end, with the blend out of it; removed."""
    teleports: int = 0
    """Jumps of the whole body."""
    glitches: int = 0
    """Frames between two jumps that are not motion; filled in from their neighbours or removed."""
    frozen: int = 0
    """Frames at the start or end that repeat the first or last pose exactly; removed."""
    held: int = 0
    """Frames that only repeat the one before, in motion whose true rate is lower than that of the file; removed."""
    repaired: int = 0
    """Frames with values that are not finite; filled in or, if many in a row, removed."""
    frames: int = 0
    """Frames kept."""
    parts: int = 0
    """Resulting clips: a clip is cut where it jumps and does not jump back."""
    seconds: float = 0.0
    """Duration of the frames kept."""
    fps: float = 0.0
    height: float = 0.0
    """[m] height of the figure, spanned by its joints."""
    speed: float = 0.0
    """[m/s] median speed of the root, or of the hips below a still one, along the ground."""
    fastest: float = 0.0
    """[m/s] 99th percentile of the joints' speed."""
    doubts: tuple[str, ...] = ()
    """What the user should check, one sentence each."""

    @property
    def left_out(self) -> int:
        """Frames removed at the start and end."""
        return self.t_poses + self.frozen


def clean(clip: Clip) -> tuple[list[Clip], Findings]:
    """Remove held frames, inserted poses, glitches, frozen ends and long gaps; returns the remaining parts and what was found.

    The frames of each part follow each other as captured; short glitches inside are blended from their neighbours.
    A clip of fewer than 2 frames is returned unchanged. Where frames are held, the parts have the true, lower rate.
    """
    stored = clip
    clip = without_held(stored)
    held = stored.frames - clip.frames
    height = body_height(clip)
    if clip.frames < 2 or not height > 0:
        return [clip] if clip.frames else [], measured(clip, [clip] if clip.frames else [], height, Findings(held=held))
    moves = movement(clip, height)
    jumps = find_jumps(moves, clip.fps)
    start, stop, inserted = 0, clip.frames, 0
    first = _inserted_pose(clip, moves, jumps)
    if first:
        start = inserted = first
    tail = _inserted_pose(_backwards(clip), moves[::-1], (len(moves) - 1 - jumps)[::-1])
    if tail and stop - tail - start >= 2:
        stop, inserted = stop - tail, inserted + tail
    while len(jumps) and jumps[0] < start:
        jumps = jumps[1:]
    jumps = jumps[jumps + 1 < stop]
    still = moves <= STILL
    before, after = _frozen(still[start : stop - 1]), _frozen(still[start : stop - 1][::-1])
    least = max(3, round(FROZEN_LEAST * clip.fps))
    frozen = 0
    if before >= least and before < stop - start - 1:
        start, frozen = start + before, before
    if after >= least and after < stop - start - 1:
        stop, frozen = stop - after, frozen + after
    jumps = jumps[(jumps >= start) & (jumps + 1 < stop)]
    parts, glitches = _parts(clip, start, stop, jumps, moves, height)
    found = Findings(
        t_poses=inserted, teleports=len(jumps), glitches=glitches, frozen=frozen, held=held, repaired=len(clip.repaired)
    )
    found = measured(clip, parts, height, found)
    if held:
        doubt = f"{held_note(stored)}: those {held} were left out, and the rate is {clip.fps:.4g}; --fps blends frames between"
        found = replace(found, doubts=(*found.doubts, doubt))
    return parts, found


def frames_held(clip: Clip) -> float:
    """For how many frames the clip holds each pose on average, such as 2.0 for 30 frames a second stored as 60; else 1.0.

    Poses last equally long, to a frame (24 frames a second stored as 60 last 2 and 3); where most last a single frame, those
    that last two come at regular intervals. So a body that stands still now and then is not taken for one that is held.
    """
    lasts = np.diff(_pose_edges(clip))[1:-1]  # the first and the last pose may be cut
    if len(lasts) < HELD_FEWEST:
        return 1.0
    usual = float(np.median(lasts))
    if np.mean(lasts == usual) < HELD_SHARE:
        usual = float(lasts[lasts <= 2 * usual].mean())  # where the body stands still, several poses are one
    if usual < HELD_LEAST:
        return 1.0
    like = np.abs(lasts - usual) < 1
    if usual < 2:
        twice = np.diff(np.flatnonzero(lasts == 2))
        like = np.abs(twice - twice.mean()) <= 1 if len(twice) > 2 else np.zeros(1, bool)
    return usual if like.mean() >= HELD_SHARE else 1.0


def held_note(clip: Clip) -> str:
    """That the poses of a clip are held, in words; empty where they are not."""
    held = frames_held(clip)
    if held == 1:
        return ""
    return f"each pose lasts {held:.3g} frames, so that frames at {clip.fps:.4g} a second only repeat the one before"


def without_held(clip: Clip) -> Clip:
    """The clip with each pose once and at its true rate, where :func:`frames_held` finds that poses are held; else unchanged."""
    held = frames_held(clip)
    if held == 1:
        return clip
    edges = _pose_edges(clip)
    lasts = np.diff(edges)
    times = np.where(lasts <= np.ceil(held), 1, np.round(lasts / held)).astype(int)
    rate = clip.fps / held
    if held % 1 and abs(rate - round(rate)) < HELD_RATE * rate:
        rate = float(round(rate))  # the mean of few poses is not exact
    return replace(_at_frames(clip, np.repeat(edges[:-1], times)), fps=rate)


def _pose_edges(clip: Clip) -> np.ndarray:
    """First frames of the poses of a clip that differ from the one before, and the number of frames after them."""
    same = np.ones(max(clip.frames - 1, 0), bool)
    for values in (clip.rotations, clip.root_pos, *clip.translations.values()):
        scale = max(1.0, float(np.abs(values).max(initial=0.0)))
        axes = tuple(range(1, values.ndim))
        same &= np.abs(np.diff(values, axis=0)).max(axis=axes, initial=0.0) <= HELD_SAME * scale
    return np.concatenate([[0], np.flatnonzero(~same) + 1, [clip.frames]])


def movement(clip: Clip, height: float) -> np.ndarray:
    """Mean distance (F - 1) that the body's joints move from each frame to the next [body heights]."""
    mask = body_joints(clip)
    moves = np.empty(max(clip.frames - 1, 0))
    for begin in range(0, len(moves), 256):  # in pieces, to bound the memory for long clips
        _, placed = global_pose(clip, slice(begin, min(begin + 257, clip.frames)))
        moves[begin : begin + 256] = np.linalg.norm(np.diff(placed[:, mask], axis=0), axis=-1).mean(axis=1) / height
    return moves


def find_jumps(moves: np.ndarray, fps: float) -> np.ndarray:
    """Frames f after which the body jumps, from its ``moves`` (F - 1) [body heights]: far, fast and unlike its neighbours."""
    reach = max(3, round(AROUND * fps))
    candidates = np.flatnonzero((moves > JUMP) & (moves * fps > JUMP_SPEED))
    found = []
    for f in candidates:
        around = np.concatenate([moves[max(0, f - reach) : f], moves[f + 1 : f + 1 + reach]])
        if len(around) >= 2 and moves[f] > JUMP_RATIO * np.median(around):
            found.append(f)
    return np.array(found, dtype=int)


def _inserted_pose(clip: Clip, moves: np.ndarray, jumps: np.ndarray) -> int:
    """Number of frames at the start that are an inserted pose and the blend out of it."""
    fps = clip.fps
    longest = max(3, round(T_POSE_LONGEST * fps))
    end = 0
    resting = _rest_like(clip, longest + 1)
    settle = max(3, round(RAMP_LONGEST * fps))
    for f in range(min(longest, len(moves) - 1)):
        later = moves[f + 1 : f + 1 + 2 * settle]
        jumps_here = f in jumps
        if resting[f] and moves[f] > 0.6 * JUMP and moves[f] > JUMP_RATIO / 2 * np.median(later):
            jumps_here = True
        if jumps_here and (resting[: f + 1].any() or f + 1 <= GLITCH_LONGEST * fps):
            end = f + 1
        elif not jumps_here and not resting[f] and not end:
            break
    if not end or not resting[: end + 1].any():
        return end if end and end <= GLITCH_LONGEST * fps else 0
    later = moves[end + settle : end + settle + max(4, round(AROUND * fps))]
    if len(later) >= 4:
        ramp = np.flatnonzero(moves[end : end + settle] > 5 * np.median(later) + 100 * STILL)
        peak = moves[end : end + settle].max(initial=0.0)
        if len(ramp) and ramp[0] == 0 and (peak > 0.2 * moves[end - 1] or peak * fps > JUMP_SPEED):
            end += int(ramp[-1]) + 1
            end += _fast_ramp(clip, end, settle, len(later))
    return min(end, clip.frames)


def _fast_ramp(clip: Clip, end: int, settle: int, later: int) -> int:
    """Frames from ``end`` on that belong to a blend out of a T-pose, into a motion so fast that the blend's end is no faster.

    Its joints are accelerated as those of no motion are; at most ``settle`` frames, compared with ``later`` ones after them.
    """
    _, placed = global_pose(clip, slice(end - 1, end + settle + later + 2))
    bends = np.linalg.norm(np.diff(placed[:, body_joints(clip)], n=2, axis=0), axis=-1).mean(axis=1)
    usual = float(np.median(bends[settle:])) if len(bends) > settle else np.inf
    blended = bends[:settle] > RAMP_BEND * usual + 100 * STILL
    count = int(np.argmin(blended)) if not blended.all() else len(blended)
    return count + 1 if count >= RAMP_FEWEST else 0


def _rest_like(clip: Clip, frames: int) -> np.ndarray:
    """Whether each of the first ``frames`` is the rest pose: its joints are hardly turned; mask (frames)."""
    below = clip.parents >= 0
    quaternion = clip.rotations[:frames, below]
    angle = 2 * np.arctan2(np.linalg.norm(quaternion[..., 1:], axis=-1), np.abs(quaternion[..., 0]))
    return np.mean(angle, axis=1) < T_POSE_ANGLE if below.any() else np.zeros(len(quaternion), bool)


def _backwards(clip: Clip) -> Clip:
    return replace(
        clip,
        rotations=clip.rotations[::-1],
        root_pos=clip.root_pos[::-1],
        translations={i: moved[::-1] for i, moved in clip.translations.items()},
    )


def _frozen(still: np.ndarray) -> int:
    moving = np.flatnonzero(~still)
    return int(moving[0]) if len(moving) else len(still)


def _parts(
    clip: Clip, start: int, stop: int, jumps: np.ndarray, moves: np.ndarray, height: float
) -> tuple[list[Clip], int]:
    """The clip between ``start`` and ``stop`` without glitches, cut at jumps that do not jump back and at long gaps."""
    shortest = max(1, round(GLITCH_LONGEST * clip.fps))
    edges = [start, *(int(f) + 1 for f in jumps), stop]
    runs = [(a, b) for a, b in pairwise(edges) if b > a]
    kept = [run for run in runs if run[1] - run[0] > shortest] or [max(runs, key=lambda run: run[1] - run[0])]
    glitches = sum(b - a for a, b in runs if (a, b) not in kept)
    joined = [[kept[0]]]
    for run in kept[1:]:
        last = joined[-1][-1][1] - 1
        gap = run[0] - last
        near = _distance(clip, last, run[0], height) < max(JUMP, 2 * gap * np.median(moves))
        if gap - 1 <= shortest and near:
            joined[-1].append(run)
        else:
            joined.append([run])
    parts = []
    for group in joined:
        good = np.concatenate([np.arange(a, b) for a, b in group])
        parts += _without_gaps(clip, good)
    names = [clip.name if len(parts) == 1 else f"{clip.name}.{n + 1}" for n in range(len(parts))]
    return [replace(part, name=name) for part, name in zip(parts, names, strict=True)], glitches


def _distance(clip: Clip, a: int, b: int, height: float) -> float:
    _, placed = global_pose(clip, np.array([a, b]))
    return float(np.linalg.norm(placed[1] - placed[0], axis=-1)[body_joints(clip)].mean() / height)


def _without_gaps(clip: Clip, good: np.ndarray) -> list[Clip]:
    """Frames ``good`` of a clip with the frames between them blended in; cut at long gaps."""
    missing = np.zeros(clip.frames, bool)
    missing[list(clip.repaired)] = True
    longest = max(1, round(HELD_LONGEST * clip.fps))
    drop = np.zeros(clip.frames, bool)
    run_edges = np.flatnonzero(np.diff(np.concatenate([[False], missing, [False]]).astype(int)))
    for a, b in zip(run_edges[::2], run_edges[1::2], strict=True):
        drop[a:b] = b - a > longest
    keep = good[~drop[good]]
    if not len(keep):
        return []
    cuts = np.flatnonzero(np.diff(keep) > longest)
    out = []
    for piece in np.split(keep, cuts + 1):
        every = np.arange(piece[0], piece[-1] + 1)
        part = cut(clip, int(piece[0]), int(piece[-1]) + 1)
        holes = ~np.isin(every, piece)
        out.append(_blend(part, holes) if holes.any() else part)
    return out


def without_frames(clip: Clip, bad: np.ndarray) -> list[Clip]:
    """What is left of a clip without the frames in a mask (F); gaps of up to 0.25 s are filled in, at others it is cut.

    Parts of fewer than 2 frames are dropped. The parts are called NAME.1, NAME.2 ... if there are several.
    """
    parts = [part for part in _without_gaps(clip, np.flatnonzero(~bad)) if part.frames > 1]
    return [replace(p, name=clip.name if len(parts) == 1 else f"{clip.name}.{n + 1}") for n, p in enumerate(parts)]


def _blend(clip: Clip, holes: np.ndarray) -> Clip:
    good, every = np.flatnonzero(~holes), np.arange(clip.frames)
    after = np.clip(np.searchsorted(good, every), 1, len(good) - 1) if len(good) > 1 else np.zeros(len(every), int)
    a, b = good[np.maximum(after - 1, 0)], good[after]
    share = np.where(holes, (every - a) / np.maximum(b - a, 1), np.where(every == b, 1.0, 0.0))
    return _sampled(clip, a, b, share)


def _sampled(clip: Clip, a: np.ndarray, b: np.ndarray, share: np.ndarray) -> Clip:
    """New frames, each ``share`` of the way from frame ``a`` to frame ``b`` (arrays of one length)."""
    turned = rotations.quaternion_slerp(clip.rotations[a], clip.rotations[b], share[:, None, None])

    def line(values: np.ndarray) -> np.ndarray:
        return np.where(share[:, None] == 1, values[b], values[a] + share[:, None] * (values[b] - values[a]))

    return replace(
        clip,
        rotations=turned,
        root_pos=line(clip.root_pos),
        translations={i: line(moved) for i, moved in clip.translations.items()},
        repaired=(),
    )


def cut(clip: Clip, start: int, stop: int) -> Clip:
    """Frames ``start`` up to but not including ``stop`` of a clip."""
    return _at_frames(clip, slice(start, stop))


def _at_frames(clip: Clip, frames: slice | np.ndarray) -> Clip:
    """The clip with only those frames, in this order."""
    repaired = np.isin(np.arange(clip.frames)[frames], clip.repaired)
    return replace(
        clip,
        rotations=clip.rotations[frames],
        root_pos=clip.root_pos[frames],
        translations={i: moved[frames] for i, moved in clip.translations.items()},
        repaired=tuple(np.flatnonzero(repaired).tolist()),
    )


def resample(clip: Clip, fps: float) -> Clip:
    """The clip at ``fps`` frames a second, from its first frame on; frames between frames are blended.

    Where the new rate divides the old one, frames are picked and none is changed. Clips of fewer than 2 frames only get
    the new rate. ValueError for a rate that is not positive, and where the clip would grow beyond :data:`LARGEST_CLIP`.
    """
    if not (np.isfinite(fps) and fps > 0):
        raise ValueError(f"frame rate: expected a positive number of frames a second, got {fps}")
    if clip.frames < 2 or abs(clip.fps - fps) < 1e-9 * fps:
        return replace(clip, fps=float(fps))
    count = int(np.floor((clip.frames - 1) * fps / clip.fps + 1e-6)) + 1
    size, most = count * len(clip.names) * 32, max(LARGEST_CLIP, 4 * clip.rotations.nbytes)
    if size > most:
        raise ValueError(
            f"resampling from {clip.fps:.4g} to {fps:.4g} frames a second: {clip.frames:,} frames would become {count:,} "
            f"({megabytes(size)}), expected at most {megabytes(most)}; check the frame rates, or resample to a lower one"
        )
    at = np.minimum(np.arange(count) * (clip.fps / fps), clip.frames - 1)
    whole = np.round(at)
    at = np.where(np.abs(at - whole) < 1e-6 * clip.frames, whole, at)
    a = np.floor(at).astype(int)
    sampled = _sampled(clip, a, np.minimum(a + 1, clip.frames - 1), at - a)
    return replace(sampled, fps=float(fps), tremble=clip_tremble(clip))


def measured(clip: Clip, parts: Sequence[Clip], height: float | None = None, found: Findings = Findings()) -> Findings:
    """``found`` with the figures of ``parts``, which were kept of ``clip``, and what looks wrong."""
    height = body_height(clip) if height is None else height
    frames = sum(part.frames for part in parts)
    flat = [axis for axis in range(3) if axis != level_axis(clip.up_axis)]
    mover = body_top(clip)
    speeds, joints = [np.zeros(0)], [np.zeros(0)]
    for part in parts:
        if part.frames > 1:
            way = part.root_pos if mover == 0 else joint_motion(part, mover)[1]
            speeds.append(np.linalg.norm(np.diff(way[:, flat], axis=0), axis=-1) * part.fps * part.unit)
            some = np.unique(np.linspace(0, part.frames - 2, min(part.frames - 1, 100)).astype(int))
            _, a = global_pose(part, some)
            _, b = global_pose(part, some + 1)
            joints.append((np.linalg.norm(b - a, axis=-1)[:, body_joints(part)] * part.fps * part.unit).ravel())
    speed, fastest = np.concatenate(speeds), np.concatenate(joints)
    doubts = []
    top = float(np.percentile(fastest, 99)) if len(fastest) else 0.0
    if top > FASTEST:
        doubts.append(f"joints move at {top:.1f} m/s; the frame rate or the unit is probably wrong")
    if frames > 1 and len(fastest) and fastest.max() <= STILL * height * clip.unit * clip.fps:
        doubts.append("nothing moves in this clip")
    return replace(
        found,
        frames=frames,
        parts=len(parts),
        seconds=sum(max(part.frames - 1, 0) / part.fps for part in parts),
        fps=clip.fps,
        height=height * clip.unit,
        speed=float(np.median(speed)) if len(speed) else 0.0,
        fastest=top,
        doubts=tuple(doubts),
    )


# ---------------------------------------------------------------- low-pass


def butterworth(values: np.ndarray, fps: float, cutoff: float) -> np.ndarray:
    """Low-pass ``values`` (F, ...) along the first axis: a fourth-order Butterworth of zero phase, ``cutoff`` in Hz.

    A second-order filter is run forward and backward, its own cutoff raised so that both passes together lie 3 dB
    down where they should (Winter, Biomechanics and Motor Control of Human Movement, on filtering). The ends are
    continued by their mirror image through the end point. ValueError for a cutoff that is not between 0 and half the
    frame rate; fewer than 4 frames come back unchanged.
    """
    if not 0 < cutoff < fps / 2:
        raise ValueError(
            f"low-pass: expected a cutoff between 0 and half the frame rate ({fps / 2:g} Hz), got {cutoff:g}"
        )
    values = np.asarray(values, dtype=np.float64)
    frames = len(values)
    if frames < 4:
        return values
    warped = np.tan(np.pi * min(cutoff / _CORRECTION / fps, 0.499))
    scale = 1 / (1 + np.sqrt(2) * warped + warped**2)
    b = np.array([1.0, 2.0, 1.0]) * warped**2 * scale
    a1, a2 = 2 * (warped**2 - 1) * scale, (1 - np.sqrt(2) * warped + warped**2) * scale
    edge = min(frames - 1, max(9, round(5 * fps / cutoff)))  # after 5 periods the filter has forgotten 12 digits
    before, after = 2 * values[:1] - values[edge:0:-1], 2 * values[-1:] - values[-2 : -edge - 2 : -1]
    signal = np.concatenate([before, values, after]).reshape(frames + 2 * edge, -1)
    for _ in range(2):
        signal = _second_order(signal, b, a1, a2)[::-1]
    return signal[edge : edge + frames].reshape(values.shape)


def _second_order(signal: np.ndarray, b: np.ndarray, a1: float, a2: float) -> np.ndarray:
    """One pass over (F, n), begun in the state in which a constant first value stays what it is."""
    out = np.empty_like(signal)
    state_2 = (b[2] - a2) * signal[0]
    state_1 = (b[1] - a1) * signal[0] + state_2
    for f, value in enumerate(signal):
        out[f] = b[0] * value + state_1
        state_1 = b[1] * value - a1 * out[f] + state_2
        state_2 = b[2] * value - a2 * out[f]
    return out


def low_pass(clip: Clip, cutoff: float) -> Clip:
    """The clip with positions and rotations low-passed at ``cutoff`` [Hz]; see ``butterworth``. 6 to 10 Hz are usual.

    Foot strikes and blows are softened, because they contain the frequencies above it. What is left of a tremble is slower
    but no smaller at the feet, so the clip remembers that it trembled.
    """
    turned = butterworth(rotations.continuous_quaternions(clip.rotations), clip.fps, cutoff)
    turned /= np.maximum(np.linalg.norm(turned, axis=-1, keepdims=True), 1e-12)
    return replace(
        clip,
        rotations=turned,
        root_pos=butterworth(clip.root_pos, clip.fps, cutoff),
        translations={i: butterworth(moved, clip.fps, cutoff) for i, moved in clip.translations.items()},
        tremble=clip_tremble(clip),
    )


# ---------------------------------------------------------------- mirrored copies


def mirror(
    skeleton: Skeleton, rot: np.ndarray, root_pos: np.ndarray, partners: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mirrored poses: rot_local (F, J, 3) [rad] and root head (F, 3) [m], left and right exchanged.

    ``partners`` (J) is each bone's opposite, or the bone itself if it has none. Works in core axes from the T-pose, so rest
    poses and bone rolls need not be symmetric; the rig keeps its proportions.
    """
    core = skeleton.to_core(rot)[..., partners, :] * np.array([1.0, -1.0, -1.0])
    flip = skeleton.axes.T @ np.diag([-1.0, 1.0, 1.0]) @ skeleton.axes
    return skeleton.from_core(core), root_pos @ flip.T


def with_mirrored(poses: PoseSet, partners: np.ndarray) -> PoseSet:
    """A PoseSet followed by its mirrored copy, whose clips are called "... mirrored"; see ``mirror``."""
    rot, root_pos = mirror(poses.skeleton, poses.rot, poses.root_pos, partners)
    clips = len(poses.clip_names)
    return replace(
        poses,
        rot=np.concatenate([poses.rot, rot.astype(np.float32)]),
        root_pos=np.concatenate([poses.root_pos, root_pos.astype(np.float32)]),
        clip=np.concatenate([poses.clip, poses.clip + clips]).astype(np.int32),
        clip_names=(*poses.clip_names, *(f"{name} mirrored" for name in poses.clip_names)),
        clip_tasks=(*poses.clip_tasks, *poses.clip_tasks),
        clip_fps=np.concatenate([poses.clip_fps, poses.clip_fps]),
        ground=None if poses.ground is None else np.concatenate([poses.ground, poses.ground]),
    )
