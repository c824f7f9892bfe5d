# SPDX-License-Identifier: GPL-3.0-or-later
"""PoseSet: the poses of one character and their npz file, ``training_data.npz``."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np

from ..core import skeleton as skeletons
from ..core.files import may_expand, read_archive, whole_file
from ..core.messages import short
from ..core.skeleton import FARTHEST, MOST_TURNED, Skeleton
from .tasks import TASKS, guess_task

SCHEMA = 1
MOST_NAMES = 100_000
"""Bones, or clips, in one file."""
FASTEST = 1e6  # [frames/s] larger numbers are not frame rates
_BLOCK = 4096  # frames checked at once


@dataclass(frozen=True)
class PoseSet:
    """Raw poses of one Skeleton, from which every layout and split can be made."""

    skeleton: Skeleton
    rot: np.ndarray
    """(F, J, 3) rot_local [rad], float32."""
    root_pos: np.ndarray
    """(F, 3) head of the root [m, armature space], float32."""
    clip: np.ndarray
    """(F) int, the clip of each frame; the frames of a clip are together and in order."""
    clip_names: tuple[str, ...]
    clip_tasks: tuple[str, ...]
    clip_fps: np.ndarray
    """(C) frames a second."""
    ground: np.ndarray | None = None
    """(C) height of the floor under each clip [m, armature space]; found from the feet if absent."""

    @property
    def frames(self) -> int:
        """Number of poses."""
        return len(self.rot)

    def rows(self, clip: int) -> slice:
        """The frames of one clip."""
        start, stop = np.searchsorted(self.clip, [clip, clip + 1])
        return slice(int(start), int(stop))

    def clip_hash(self, clip: int) -> str:
        """Content hash of one clip's poses, whatever its name, file or position."""
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
    """A checked PoseSet; arguments are its fields. Tasks are guessed from the names if not given.

    Rotations beyond half a turn become the same rotation the short way round. Raises ValueError if something does not fit.
    """
    with np.errstate(over="ignore"):  # numbers too large for float32 become infinity and are refused
        rot, root_pos = np.asarray(rot, np.float32), np.asarray(root_pos, np.float32)
    _check_motion(skeleton, rot, root_pos)
    clip, names = np.asarray(clip), tuple(str(n) for n in clip_names)
    _check_clip_numbers(clip, len(rot), len(names))
    tasks, fps, ground = _checked_clips(names, clip_tasks, clip_fps, ground)
    return PoseSet(skeleton, _short_way_round(rot), root_pos, clip.astype(np.int32), names, tasks, fps, ground)


def _check_motion(skeleton: Skeleton, rot: np.ndarray, root_pos: np.ndarray) -> None:
    frames = len(rot) if rot.ndim else 0
    if rot.shape != (frames, skeleton.count, 3):
        raise ValueError(f"rot: expected (frames, {skeleton.count}, 3) for this rig, got {rot.shape}")
    if frames == 0:
        raise ValueError("no frames: expected at least one pose; extract or import some motion first")
    if root_pos.shape != (frames, 3):
        raise ValueError(f"root_pos: expected ({frames}, 3), got {root_pos.shape}")
    for what, array in (("rot", rot), ("root_pos", root_pos)):
        finite = [np.isfinite(block.reshape(len(block), -1)).all(axis=1) for block in _blocks(array)]
        bad = np.flatnonzero(~np.concatenate(finite))
        if len(bad):
            raise ValueError(
                f"{what}: expected finite numbers, got NaN or infinity in {len(bad)} frames, the first is row {bad[0]}"
            )
    farthest = float(max(root_pos.max(), -root_pos.min()))
    if farthest > FARTHEST:
        raise ValueError(f"root_pos: expected metres, got a position {farthest:.3g} away")
    widest = max(float(_angles(block).max()) for block in _blocks(rot))
    if widest > MOST_TURNED:
        raise ValueError(f"rot: expected radians, got a rotation of {widest:.3g}")


def _blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Views of some frames of ``array`` (F, ...) at a time, so that working with them takes little memory."""
    return (array[at : at + _BLOCK] for at in range(0, len(array), _BLOCK))


def _angles(rot: np.ndarray) -> np.ndarray:
    """(..., J, 1) angles [rad] of axis-angles."""
    return np.linalg.norm(rot.astype(np.float64), axis=-1, keepdims=True)


def _check_clip_numbers(clip: np.ndarray, frames: int, clips: int) -> None:
    if clip.shape != (frames,) or not np.issubdtype(clip.dtype, np.integer):
        raise ValueError(f"clip: expected ({frames},) integers, got {clip.shape} {clip.dtype}")
    if clips == 0 or clip.min() < 0 or clip.max() >= clips:
        raise ValueError(
            f"clip: expected numbers from 0 to {clips - 1} ({clips} clip names), got {clip.min()} to {clip.max()}"
        )
    if np.any(np.diff(clip) < 0):
        raise ValueError("clip: expected the frames of each clip together and in the order of clip_names")


def _checked_clips(
    names: Sequence[str], clip_tasks: Sequence[str] | None, clip_fps: np.ndarray | float, ground: np.ndarray | None
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray | None]:
    """Tasks, frame rates (C) and floor heights (C) of the clips called ``names``, checked."""
    clips = len(names)
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
    return tasks, fps, ground


def _short_way_round(rot: np.ndarray) -> np.ndarray:
    """Axis-angles (F, J, 3) of at most half a turn, float32."""
    if all(_angles(block).max() <= np.pi for block in _blocks(rot)):
        return rot
    out = np.empty(rot.shape, np.float32)
    for block, into in zip(_blocks(rot), _blocks(out), strict=True):
        angle = _angles(block)
        turns = np.round(angle / (2 * np.pi))
        shorter = block * (1 - 2 * np.pi * turns / np.maximum(angle, 1e-9))
        into[...] = np.where(angle > np.pi, shorter, block)
    return out


def save(path: str | os.PathLike[str], poses: PoseSet, extra: Mapping[str, np.ndarray] | None = None) -> None:
    """Write ``training_data.npz`` whole or not at all. The same poses give the same bytes.

    ``extra`` are further arrays that belong to a clip, such as ``contact`` (F, feet).
    """
    lengths = np.bincount(poses.clip, minlength=len(poses.clip_names))
    motion = [(poses.rot, poses.root_pos)]
    about = (poses.clip_names, poses.clip_tasks, poses.clip_fps, poses.ground)
    save_blocks(path, poses.skeleton, lambda: motion, lengths, *about, extra=extra)


def save_blocks(
    path: str | os.PathLike[str],
    skeleton: Skeleton,
    blocks: Callable[[], Iterable[tuple[np.ndarray, np.ndarray]]],
    lengths: Sequence[int] | np.ndarray,
    clip_names: Sequence[str],
    clip_tasks: Sequence[str] | None,
    clip_fps: np.ndarray | float,
    ground: np.ndarray | None = None,
    folder: Path | None = None,
    extra: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Write the file that :func:`save` writes, with one block of poses in memory at a time.

    ``blocks`` gives the motion in order, as often as it is called: rot (n, J, 3) and root_pos (n, 3) of a whole PoseSet,
    of each clip, or of any other portion. ``lengths`` (C) are the clips' numbers of frames; the other arguments are as
    in :func:`make`. Until the file is whole it stands in ``folder``, or beside ``path``. Raises ValueError where the
    blocks do not have as many frames as the clips or belong to another rig.
    """
    if len(lengths) != len(clip_names):
        raise ValueError(
            f"lengths: expected {len(clip_names)} numbers of frames for {len(clip_names)} clips, got {len(lengths)}"
        )
    frames = int(np.sum(lengths))
    tasks, fps, ground = _checked_clips(clip_names, clip_tasks, clip_fps, ground)
    fields: dict[str, np.ndarray | None] = {
        "schema": np.array(SCHEMA),
        "bone_names": np.array(skeleton.names),
        "parents": skeleton.parents.astype(np.int32),
        "rest_arm": skeleton.rest_arm,
        "rot": None,
        "root_pos": None,
        "clip": np.repeat(np.arange(len(clip_names), dtype=np.int32), lengths),
        "clip_names": np.array(clip_names),
        "clip_tasks": np.array(tasks),
        "clip_fps": fps,
        "effectors": np.array([skeleton.names[e] for e in skeleton.effectors]),
        "feet": np.array([skeleton.names[f] for f in skeleton.feet], dtype=f"U{max(1, max(map(len, skeleton.names)))}"),
        "t_pose": skeleton.t_pose,
    }
    if skeleton.limits is not None:
        fields["limits"] = skeleton.limits
    if ground is not None:
        fields["ground"] = ground
    fields |= extra or {}
    with whole_file(path, folder) as file:
        _write_fields(file, fields, blocks, (frames, skeleton.count, 3), zipfile.ZIP_DEFLATED)
        if not may_expand(
            file.tell(), frames * (12 * skeleton.count + 16)
        ):  # hours without motion, which load() would refuse
            file.seek(0)
            file.truncate()
            _write_fields(file, fields, blocks, (frames, skeleton.count, 3), zipfile.ZIP_STORED)


def _write_fields(
    file: BinaryIO,
    fields: dict[str, np.ndarray | None],
    blocks: Callable[[], Iterable[tuple[np.ndarray, np.ndarray]]],
    shape: tuple[int, int, int],
    compression: int,
) -> None:
    """An npz of ``fields``; "rot", of ``shape``, and "root_pos", which are None, come from ``blocks``."""
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, array in fields.items():
            with archive.open(
                f"{name}.npy", "w", force_zip64=True
            ) as out:  # dated 1980: the same poses, the same bytes
                if array is not None:
                    np.lib.format.write_array(out, array, allow_pickle=False)
                elif name == "rot":
                    _write_blocks(out, name, (rot for rot, _ in blocks()), shape)
                else:
                    _write_blocks(out, name, (root_pos for _, root_pos in blocks()), (shape[0], 3))


def _write_blocks(out: IO[bytes], name: str, blocks: Iterable[np.ndarray], shape: tuple[int, ...]) -> None:
    """One float32 array of ``shape``, block by block."""
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(out, header)
    written = 0
    for block in blocks:
        if block.shape[1:] != shape[1:]:
            raise ValueError(f"{name}: expected {shape}, got a block of {block.shape}")
        out.write(np.ascontiguousarray(block, "<f4").tobytes())
        written += len(block)
    if written != shape[0]:
        raise ValueError(f"{name}: expected {shape[0]} frames, got {written}")


_NAME_LISTS = ("bone_names", "clip_names", "clip_tasks", "effectors", "feet")
_NUMBERS = ("rest_arm", "rot", "root_pos", "clip_fps", "t_pose", "limits", "ground")
_OPTIONAL = ("t_pose", "limits", "ground")
_NEEDED = ("schema", "parents", "clip", *_NAME_LISTS, *(name for name in _NUMBERS if name not in _OPTIONAL))


def load(path: str | os.PathLike[str]) -> PoseSet:
    """Read ``training_data.npz``. Nothing in it is unpickled.

    Raises ValueError with the reason if it is not a valid pose file, FileNotFoundError if there is none.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"no training data at {path}: extract it in Blender, or import motion files")
    found = read_archive(path, "training data", (*_NEEDED, *_OPTIONAL))
    missing = [name for name in _NEEDED if name not in found]
    if missing:
        raise ValueError(f"{path.name}: expected the fields of training data, missing {', '.join(missing)}")
    schema = found["schema"]
    if schema.shape != () or not np.issubdtype(schema.dtype, np.integer) or int(schema) != SCHEMA:
        got = short(str(schema)) if schema.shape == () else f"an array of shape {schema.shape}"
        raise ValueError(
            f"{path.name}: expected schema {SCHEMA}, got {got}; extract or import the motion again with this version"
        )
    try:
        for name in _NUMBERS:
            if name in found and not np.can_cast(found[name].dtype, np.float64, "same_kind"):
                raise ValueError(f"{name}: expected numbers, got {found[name].dtype}")
        if not np.issubdtype(found["parents"].dtype, np.integer):
            raise ValueError(f"parents: expected integers, got {found['parents'].dtype}")
        for name in _NAME_LISTS:
            if found[name].ndim != 1 or (found[name].dtype.kind != "U" and found[name].size):
                raise ValueError(f"{name}: expected a list of names, got {found[name].dtype} {found[name].shape}")
            if len(found[name]) > MOST_NAMES:
                raise ValueError(f"{name}: expected at most {MOST_NAMES:,} names, got {len(found[name]):,}")
        names = {name: [str(n) for n in found[name]] for name in _NAME_LISTS}
        rig = skeletons.make(
            names["bone_names"],
            found["parents"],
            found["rest_arm"],
            names["effectors"],
            names["feet"],
            found.get("t_pose"),
            found.get("limits"),
        )
        motion = (found["rot"], found["root_pos"], found["clip"])
        return make(rig, *motion, names["clip_names"], names["clip_tasks"], found["clip_fps"], found.get("ground"))
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


def join(sets: list[PoseSet]) -> PoseSet:
    """Several PoseSets of one Skeleton as one. Raises SkeletonMismatch for different skeletons."""
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


def choose(poses: PoseSet, clips: Sequence[int]) -> PoseSet:
    """The given ``clips`` as a PoseSet of their own; numbers of clips, rising."""
    rows = np.concatenate([np.arange(poses.frames)[poses.rows(c)] for c in clips])
    keep = np.asarray(clips)
    return replace(
        poses,
        rot=poses.rot[rows],
        root_pos=poses.root_pos[rows],
        clip=np.searchsorted(keep, poses.clip[rows]).astype(np.int32),
        clip_names=tuple(poses.clip_names[c] for c in clips),
        clip_tasks=tuple(poses.clip_tasks[c] for c in clips),
        clip_fps=poses.clip_fps[keep],
        ground=None if poses.ground is None else poses.ground[keep],
    )


def first(poses: PoseSet, frames: int) -> PoseSet:
    """The first ``frames`` frames as a PoseSet of their own; they must end where a clip ends."""
    return choose(poses, range(int(poses.clip[frames - 1]) + 1))


def on_body(poses: PoseSet, skeleton: Skeleton) -> PoseSet:
    """The same motion on another body of the same topology: same rotations, strides scaled with the leg.

    Raises SkeletonMismatch for another topology. The floor is found anew from the feet.
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
    """The clips of ``others`` that share no pose with ``own``, on the same bones; None if there are none.

    Otherwise frames held out of ``own`` could be learned from copies in ``others``.
    """
    known = {row.tobytes() for row in _keys(own)}
    seen = np.array([row.tobytes() in known for row in _keys(others)])
    keep = [c for c in range(len(others.clip_names)) if not seen[others.rows(c)].any()]
    return choose(others, keep) if keep else None


def _keys(poses: PoseSet) -> np.ndarray:
    """(F, ...) rounded rotations of all bones but the root: equal for equal poses, wherever the body is."""
    return np.ascontiguousarray(np.round(poses.skeleton.to_core(poses.rot)[:, 1:].astype(np.float64), 3) + 0.0)
