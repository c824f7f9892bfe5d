# SPDX-License-Identifier: GPL-3.0-or-later
"""PoseSet: the poses of one character, their npz file, and how they are split into train, validation and test."""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..core import skeleton as skeletons
from ..core.files import read_archive, write_whole
from ..core.skeleton import FARTHEST, MOST_TURNED, Skeleton
from .tasks import TASKS, guess_task

SCHEMA = 1
FASTEST = 1e6  # [frames/s] beyond it these are no frame rates


@dataclass(frozen=True)
class PoseSet:
    """Raw poses of one Skeleton: no features, so that every layout and split can be made from them."""

    skeleton: Skeleton
    rot: np.ndarray
    """(F, J, 3) rot_local [rad], float32."""
    root_pos: np.ndarray
    """(F, 3) head of the root [m, armature space], float32."""
    clip: np.ndarray
    """(F) int, which clip a frame belongs to; the frames of a clip stand together, in order."""
    clip_names: tuple[str, ...]
    clip_tasks: tuple[str, ...]
    clip_fps: np.ndarray
    """(C) frames a second."""
    ground: np.ndarray | None = None
    """(C) height of the floor under each clip [m, armature space]; found from the feet where absent."""

    @property
    def frames(self) -> int:
        """Number of poses."""
        return len(self.rot)

    def rows(self, clip: int) -> slice:
        """The frames of one clip."""
        start, stop = np.searchsorted(self.clip, [clip, clip + 1])
        return slice(int(start), int(stop))

    def clip_hash(self, clip: int) -> str:
        """Content hash of one clip's poses, whatever file or place it stands in."""
        rows = self.rows(clip)
        digest = hashlib.sha256(self.skeleton.fingerprint.encode())
        for array in (self.rot[rows], self.root_pos[rows]):
            digest.update(np.ascontiguousarray(array, "<f4").tobytes())
        return digest.hexdigest()[:16]

    def content_hash(self) -> str:
        """Content hash of all clips in order."""
        return hashlib.sha256("".join(self.clip_hash(c) for c in range(len(self.clip_names))).encode()).hexdigest()[:16]


def make(
    skeleton: Skeleton,
    rot: np.ndarray,
    root_pos: np.ndarray,
    clip: np.ndarray,
    clip_names: tuple[str, ...] | list[str],
    clip_tasks: tuple[str, ...] | list[str] | None = None,
    clip_fps: np.ndarray | float = 30.0,
    ground: np.ndarray | None = None,
) -> PoseSet:
    """A checked PoseSet; arguments as its fields, tasks guessed from the names where not given.

    Rotations beyond half a turn come in as the same rotation the short way round. Raises ValueError saying what does not fit.
    """
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinity, and is refused as such
        rot, root_pos = np.asarray(rot, np.float32), np.asarray(root_pos, np.float32)
    clip, names = np.asarray(clip), tuple(str(n) for n in clip_names)
    clips, frames = len(names), len(rot) if rot.ndim else 0
    if rot.shape != (frames, skeleton.count, 3):
        raise ValueError(f"rot: expected (frames, {skeleton.count}, 3) for this rig, got {rot.shape}")
    if frames == 0:
        raise ValueError("no frames: expected at least one pose; extract or import some motion first")
    if root_pos.shape != (frames, 3):
        raise ValueError(f"root_pos: expected ({frames}, 3), got {root_pos.shape}")
    for what, array in (("rot", rot), ("root_pos", root_pos)):
        bad = np.flatnonzero(~np.isfinite(array.reshape(frames, -1)).all(axis=1))
        if len(bad):
            raise ValueError(
                f"{what}: expected finite numbers, got NaN or infinity in {len(bad)} frames, the first is row {bad[0]}"
            )
    if clip.shape != (frames,) or not np.issubdtype(clip.dtype, np.integer):
        raise ValueError(f"clip: expected ({frames},) integers, got {clip.shape} {clip.dtype}")
    if clips == 0 or clip.min() < 0 or clip.max() >= clips:
        raise ValueError(
            f"clip: expected numbers from 0 to {clips - 1} ({clips} clip names), got {clip.min()} to {clip.max()}"
        )
    if np.any(np.diff(clip) < 0):
        raise ValueError("clip: expected the frames of each clip together and in the order of clip_names")
    tasks = tuple(guess_task(n) for n in names) if clip_tasks is None else tuple(str(t) for t in clip_tasks)
    if len(tasks) != clips or set(tasks) - set(TASKS):
        raise ValueError(f"clip_tasks: expected {clips} of {', '.join(TASKS)}, got {', '.join(tasks[:9]) or 'none'}")
    fps = np.asarray(clip_fps, np.float64)
    if fps.shape not in ((), (clips,)):
        raise ValueError(f"clip_fps: expected ({clips},) frame rates, got {fps.shape}")
    fps = np.broadcast_to(fps, (clips,)).copy()
    if not ((fps > 0) & (fps <= FASTEST)).all():
        raise ValueError(
            f"clip_fps: expected positive frame rates, got {fps.min():g} to {fps.max():g} (at most {FASTEST:g})"
        )
    if ground is not None:
        ground = np.asarray(ground, np.float64)
        if ground.shape != (clips,) or not (np.abs(ground) <= FARTHEST).all():
            raise ValueError(f"ground: expected ({clips},) finite heights in metres, got {ground.shape}")
    farthest = float(np.abs(root_pos).max())
    if farthest > FARTHEST:
        raise ValueError(f"root_pos: expected metres, got a place {farthest:.3g} away")
    angle = np.linalg.norm(rot.astype(np.float64), axis=-1, keepdims=True)
    if angle.max() > MOST_TURNED:
        raise ValueError(f"rot: expected radians, got a rotation of {angle.max():.3g}")
    if angle.max() > np.pi:
        turns = np.round(angle / (2 * np.pi))
        rot = np.where(angle > np.pi, rot * (1 - 2 * np.pi * turns / np.maximum(angle, 1e-9)), rot).astype(np.float32)
    return PoseSet(skeleton, rot, root_pos, clip.astype(np.int32), names, tasks, fps, ground)


def save(path: str | os.PathLike[str], poses: PoseSet) -> None:
    """Write ``training_data.npz``: whole or not at all, and the same bytes for the same poses."""
    rig = poses.skeleton
    fields = {
        "schema": np.array(SCHEMA),
        "bone_names": np.array(rig.names),
        "parents": rig.parents.astype(np.int32),
        "rest_arm": rig.rest_arm,
        "rot": poses.rot,
        "root_pos": poses.root_pos,
        "clip": poses.clip,
        "clip_names": np.array(poses.clip_names),
        "clip_tasks": np.array(poses.clip_tasks),
        "clip_fps": poses.clip_fps,
        "effectors": np.array([rig.names[e] for e in rig.effectors]),
        "feet": np.array([rig.names[f] for f in rig.feet], dtype=f"U{max(1, max(map(len, rig.names)))}"),
        "t_pose": rig.t_pose,
    }
    if rig.limits is not None:
        fields["limits"] = rig.limits
    if poses.ground is not None:
        fields["ground"] = poses.ground
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **fields)  # type: ignore[arg-type]  # the stubs take names for its own flags
    write_whole(path, buffer.getvalue())


def load(path: str | os.PathLike[str]) -> PoseSet:
    """Read ``training_data.npz``; nothing in it is ever unpickled.

    Raises ValueError with the reason for anything that is not a sound pose file, FileNotFoundError with what to do.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no training data at {path}: extract it in Blender, or import motion files")
    found = read_archive(path, "training data")
    needed = (
        "schema",
        "bone_names",
        "parents",
        "rest_arm",
        "rot",
        "root_pos",
        "clip",
        "clip_names",
        "clip_tasks",
        "clip_fps",
    )
    missing = [name for name in (*needed, "effectors", "feet") if name not in found]
    if missing:
        raise ValueError(f"{path.name}: expected the fields of training data, missing {', '.join(missing)}")
    schema = found["schema"]
    if schema.shape != () or not np.issubdtype(schema.dtype, np.integer) or int(schema) != SCHEMA:
        raise ValueError(
            f"{path.name}: expected schema {SCHEMA}, got {schema}; extract or import the motion again with this version"
        )
    try:
        for name in ("rest_arm", "rot", "root_pos", "clip_fps", "t_pose", "limits", "ground"):
            if name in found and not np.can_cast(found[name].dtype, np.float64, "same_kind"):
                raise ValueError(f"{name}: expected numbers, got {found[name].dtype}")
        if not np.issubdtype(found["parents"].dtype, np.integer):
            raise ValueError(f"parents: expected integers, got {found['parents'].dtype}")
        for name in ("bone_names", "clip_names", "clip_tasks", "effectors", "feet"):
            if found[name].ndim != 1 or (found[name].dtype.kind != "U" and found[name].size):
                raise ValueError(f"{name}: expected a list of names, got {found[name].dtype} {found[name].shape}")
        rig = skeletons.make(
            [str(n) for n in found["bone_names"]],
            found["parents"],
            found["rest_arm"],
            [str(n) for n in found["effectors"]],
            [str(n) for n in found["feet"]],
            found.get("t_pose"),
            found.get("limits"),
        )
        return make(
            rig,
            found["rot"],
            found["root_pos"],
            found["clip"],
            [str(n) for n in found["clip_names"]],
            [str(t) for t in found["clip_tasks"]],
            found["clip_fps"],
            found.get("ground"),
        )
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def join(sets: list[PoseSet]) -> PoseSet:
    """Several PoseSets of one Skeleton as one; another skeleton raises SkeletonMismatch."""
    first = sets[0]
    for other in sets[1:]:
        first.skeleton.require_same(other.skeleton, "one of the pose sets")
    shift = np.cumsum([0, *(len(s.clip_names) for s in sets[:-1])])
    grounds = [s.ground if s.ground is not None else np.full(len(s.clip_names), np.nan) for s in sets]
    return replace(
        first,
        rot=np.concatenate([s.rot for s in sets]),
        root_pos=np.concatenate([s.root_pos for s in sets]),
        clip=np.concatenate([s.clip + n for s, n in zip(sets, shift, strict=True)]).astype(np.int32),
        clip_names=tuple(n for s in sets for n in s.clip_names),
        clip_tasks=tuple(t for s in sets for t in s.clip_tasks),
        clip_fps=np.concatenate([s.clip_fps for s in sets]),
        ground=None if any(s.ground is None for s in sets) else np.concatenate(grounds),
    )


def first(poses: PoseSet, frames: int) -> PoseSet:
    """The first ``frames`` frames as a PoseSet of their own; they must end where a clip ends."""
    clips = int(poses.clip[frames - 1]) + 1
    return replace(
        poses,
        rot=poses.rot[:frames],
        root_pos=poses.root_pos[:frames],
        clip=poses.clip[:frames],
        clip_names=poses.clip_names[:clips],
        clip_tasks=poses.clip_tasks[:clips],
        clip_fps=poses.clip_fps[:clips],
        ground=None if poses.ground is None else poses.ground[:clips],
    )


def on_body(poses: PoseSet, skeleton: Skeleton) -> PoseSet:
    """The same motion on another body of the same tree: every bone turns as it did, strides grow with the leg.

    Another skeleton raises SkeletonMismatch. The floor is found anew from the feet.
    """
    skeleton.require_same(poses.skeleton, "the other poses")
    scale = skeleton.leg_length / poses.skeleton.leg_length
    root_pos = poses.root_pos @ poses.skeleton.axes.T @ skeleton.axes * scale
    rot = skeleton.from_core(poses.skeleton.to_core(poses.rot))
    return replace(
        poses,
        skeleton=skeleton,
        rot=rot.astype(np.float32),
        root_pos=root_pos.astype(np.float32),
        ground=None,
    )


def without_overlap(others: PoseSet, own: PoseSet) -> PoseSet | None:
    """The clips of ``others`` that share no pose with ``own``, of the same bones; None where there is none.

    What is held out of ``own`` must not be learned from a copy of it.
    """
    known = {row.tobytes() for row in _keys(own)}
    seen = np.array([row.tobytes() in known for row in _keys(others)])
    keep = [c for c in range(len(others.clip_names)) if not seen[others.rows(c)].any()]
    if not keep:
        return None
    rows = np.concatenate([np.arange(len(others.rot))[others.rows(c)] for c in keep])
    return replace(
        others,
        rot=others.rot[rows],
        root_pos=others.root_pos[rows],
        clip=np.searchsorted(keep, others.clip[rows]).astype(np.int32),
        clip_names=tuple(others.clip_names[c] for c in keep),
        clip_tasks=tuple(others.clip_tasks[c] for c in keep),
        clip_fps=others.clip_fps[keep],
        ground=None if others.ground is None else others.ground[keep],
    )


def _keys(poses: PoseSet) -> np.ndarray:
    """(F, ...) rounded turns of all bones but the root's: a pose, wherever the body stands; float32 noise left out."""
    return np.ascontiguousarray(np.round(poses.skeleton.to_core(poses.rot)[:, 1:].astype(np.float64), 3) + 0.0)
