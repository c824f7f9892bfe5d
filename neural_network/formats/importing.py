# SPDX-License-Identifier: GPL-3.0-or-later
"""Files and folders of motion to training data: one file in memory at a time, resumable, never stopped by a bad file.

Each file becomes a part on disk beside the output (poses and a row of what was found). When all parts are there,
those of one skeleton are streamed into one npz. A run that was interrupted finds its parts again by the file's path,
size, time and the options, and ends with the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

from ..core import skeleton as skeletons
from ..core.reference_rig import reference
from ..core.rotations import axis_angle_from_quaternion, quaternion_from_matrix
from ..core.skeleton import Skeleton, mirrored_bones
from ..ik import context
from ..motion import cleaning, pose_set
from ..motion.clip import DOUBTFUL_AXIS, Clip, body_joints, figures, global_pose, rest_positions
from ..motion.pose_set import PoseSet
from ..motion.tasks import guess_task
from ..rigs import retarget
from ..rigs.roles import Roles, named_roles
from . import asf_amc, bvh
from .text import Notes

SUFFIXES = (".bvh", ".amc")
BY_BLENDER = (".fbx", ".glb", ".gltf", ".blend", ".dae", ".usd", ".usda", ".usdc", ".abc")
RIGS = ("own", "reference")
EFFECTORS = ("LeftHand", "RightHand", "LeftFoot", "RightFoot", "Head")
MOST_FPS = 1000  # to resample to; above the fastest motion capture, and a slip of the key fills no memory
_VERSION = 2  # of the parts on disk; raise it when reading or cleaning changes what comes out


@dataclass(frozen=True)
class Options:
    """What to do with every file."""

    rig: str = "own"
    """'own': the file's own skeleton; 'reference': carried onto the built-in rig through roles."""
    fps: float | None = None
    """Frames a second to resample to; None keeps each clip's own."""
    skip: int = 0
    """Frames left out at the start of every file, before cleaning."""
    source_fps: float | None = None
    """Frames a second to trust instead of what the files say."""
    up_axis: str | None = None
    unit: float | None = None
    """Metres in one file unit; None finds it."""
    low_pass: float | None = None
    """Cutoff [Hz] of a Butterworth low-pass; None leaves the motion as captured."""
    strip_prefix: bool = False
    """Leave out what stands before the last colon of a bone's name ("mixamorig:Hips"), where names stay different."""
    mirror: bool = False
    """Add a mirrored copy of every clip."""
    clean: bool = True
    roles: tuple[tuple[str, str], ...] = ()
    """(role, bone name) pairs in place of the roles that would be found."""


@dataclass(frozen=True)
class Row:
    """What became of one file."""

    path: str
    read: bool
    reason: str = ""
    """Why it was refused or gave no clip."""
    clips: tuple[str, ...] = ()
    joints: int = 0
    frames: int = 0
    """Frames in the file."""
    fps: float = 0.0
    kept: int = 0
    """Frames that went into the data, after cleaning and resampling."""
    seconds: float = 0.0
    height: float = 0.0
    """[m]"""
    speed: float = 0.0
    """[m/s] median along the ground."""
    up_axis: str = ""
    unit: float = 0.0
    """Metres in one file unit."""
    t_poses: int = 0
    teleports: int = 0
    glitches: int = 0
    frozen: int = 0
    repaired: int = 0
    contact: tuple[float, ...] = ()
    """Share of frames in which each foot stands on the ground."""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Written:
    """One npz that was written."""

    path: str
    joints: int
    clips: int
    frames: int
    skeleton: str
    """Name of the first clip with this skeleton."""
    outvoted: int = 0
    """Clips that took the up axis of most files with this skeleton in place of the one found in their own."""


@dataclass(frozen=True)
class Progress:
    """One more file is done: ``row`` is its result, ``again`` says that it was found from an earlier run."""

    done: int
    total: int
    row: Row
    again: bool = False


def check(options: Options) -> None:
    """Raise ValueError in words where options make no sense."""
    if options.rig not in RIGS:
        raise ValueError(f"rig: expected one of {', '.join(RIGS)}, got {options.rig!r}")
    for what, value in (("fps", options.fps), ("source fps", options.source_fps), ("unit", options.unit)):
        if value is not None and not (np.isfinite(value) and 0 < value < 1e6):
            raise ValueError(f"{what}: expected a positive number, got {value}")
    if options.fps is not None and options.fps > MOST_FPS:
        raise ValueError(f"fps: expected at most {MOST_FPS} frames a second, got {options.fps:g}")
    if options.skip < 0:
        raise ValueError(f"skip: expected 0 or more frames, got {options.skip}")
    if options.up_axis is not None and options.up_axis.upper() not in ("Y", "Z"):
        raise ValueError(f"up axis: expected Y or Z, got {options.up_axis!r}")
    if options.low_pass is not None and not 0 < options.low_pass < 1000:
        raise ValueError(f"low-pass: expected a cutoff in Hz, got {options.low_pass}")


def find_files(paths: Sequence[str | Path]) -> list[Path]:
    """The motion files among ``paths`` and below the folders among them, sorted, each once.

    From folders come .bvh and .amc files, hidden ones left out; a file that is named comes whatever it is called.
    ValueError for a path that does not exist and where nothing is found.
    """
    found: dict[Path, Path] = {}
    for given in map(Path, paths):
        if given.is_dir():
            inside = sorted(
                Path(folder) / name
                for folder, _, names in os.walk(given)
                for name in names
                if name.lower().endswith(SUFFIXES) and not name.startswith(".")
            )
            for path in filter(Path.is_file, inside):
                found.setdefault(path.resolve(), path)
        elif given.exists():
            found.setdefault(given.resolve(), given)
        else:
            raise ValueError(f"{given}: no such file or folder")
    if not found:
        raise ValueError(f"no .bvh or .amc file in {', '.join(map(str, paths)) or 'nothing'}")
    return sorted(found.values())


def passed_over(folders: Sequence[str | Path]) -> list[Path]:
    """Files below ``folders`` that hold motion only Blender can read, sorted; ``find_files`` leaves them out."""
    return sorted(
        Path(folder) / name
        for given in map(Path, folders)
        for folder, _, names in os.walk(given)
        for name in names
        if name.lower().endswith(BY_BLENDER)
    )


def read_clip(
    path: str | Path, *, up_axis: str | None = None, unit: float | None = None, fps: float | None = None
) -> Clip:
    """Read one motion file of any known format; ValueError says why it cannot be, and what to do instead."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in BY_BLENDER:
        raise ValueError(f"{path.name}: a {suffix} file is imported through Blender, not here")
    if suffix == ".asf":
        raise ValueError(f"{path.name}: a skeleton without motion; give the .amc file, its skeleton is found beside it")
    if suffix == ".amc":
        return asf_amc.read(None, path, up_axis=up_axis, unit=unit, fps=fps)
    return bvh.read(path, up_axis=up_axis, unit=unit, fps=fps)


# ---------------------------------------------------------------- Clip to poses


@dataclass(frozen=True)
class OwnPoses:
    """A clip on its own skeleton, still in file units and file axes, so that its clips can agree on them."""

    names: tuple[str, ...]
    parents: np.ndarray
    heads: np.ndarray
    """(J, 3) rest heads."""
    along: np.ndarray
    """(J, 3) unit directions of the bones at rest."""
    turns: np.ndarray
    """(F, J, 3) axis-angle [rad] since rest, relative to the parent, in file axes; float32."""
    root_pos: np.ndarray
    """(F, 3) the root's head."""
    effectors: tuple[str, ...]
    feet: tuple[str, ...]
    notes: tuple[str, ...] = ()


def clip_to_poses(clip: Clip, name: str | None = None) -> PoseSet:
    """A clip as a PoseSet of its own rig: armature space Z up in metres, bones along Y, effectors by roles.

    ValueError where the clip has no frame or its skeleton cannot be worked with.
    """
    own = own_poses(clip)
    rig = own_skeleton(own, clip.up_axis, clip.unit)
    return _pose_set(rig, own, clip.up_axis, clip.unit, name or clip.name, clip.fps)


def own_skeleton(own: OwnPoses, up_axis: str, unit: float) -> Skeleton:
    """The Skeleton of ``own`` in armature space [m, Z up].

    Roll: a bone's Z is as near as can be to the up or the front axis, whichever the bone stands more at right angles to,
    so that left and right bones mirror each other.
    """
    upright = _upright(up_axis)
    rest = np.tile(np.eye(4), (len(own.names), 1, 1))
    rest[:, :3, 3] = own.heads @ upright.T * unit
    y = own.along @ upright.T
    across = np.eye(3)[1 + np.argmin(np.round(np.abs(y[:, 1:]), 6), axis=1)]
    z = across - np.sum(across * y, axis=1, keepdims=True) * y
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    rest[:, :3, :3] = np.stack([np.cross(y, z), y, z], axis=-1)
    return skeletons.make(own.names, own.parents, rest, own.effectors, own.feet)


def _upright(up_axis: str) -> np.ndarray:
    """(3, 3) file axes to armature axes: Y up turns a quarter about X."""
    return np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]) if up_axis == "Y" else np.eye(3)


def _pose_set(rig: Skeleton, own: OwnPoses, up_axis: str, unit: float, name: str, fps: float) -> PoseSet:
    upright = _upright(up_axis)
    to_bone = np.swapaxes(rig.rest_arm[:, :3, :3], -1, -2) @ upright
    rot = np.einsum("jab,fjb->fja", to_bone, own.turns)
    return pose_set.make(rig, rot, own.root_pos @ upright.T * unit, np.zeros(len(rot), int), [name], clip_fps=fps)


def own_poses(clip: Clip, roles: Roles | None = None) -> OwnPoses:
    """A clip on its own skeleton from the hips down; what stands above or beside them is folded in or left out.

    Joints that carry the hips (a "root" or "Armature") are folded into the hips' motion. Helpers beside them, such as
    the targets of an animator's rig, play no part in a body and are named in the notes. Positions of joints below the
    hips that move are left out, as bones keep their length.
    """
    roles = retarget.clip_roles(clip) if roles is None else roles
    hips = roles.bones.get("Hips")
    top = hips if hips is not None else _first_that_moves(clip)
    keep = np.zeros(len(clip.parents), bool)
    for i, parent in enumerate(clip.parents):
        keep[i] = i == top or (parent >= 0 and keep[parent])
    index = np.flatnonzero(keep)
    place = np.cumsum(keep) - 1
    parents = np.where(index == top, -1, place[np.maximum(clip.parents[index], 0)])
    notes = []
    dropped = [clip.names[i] for i in np.flatnonzero(~keep)]
    if dropped:
        listed = ", ".join(dropped[:5]) + (", ..." if len(dropped) > 5 else "")
        notes.append(f"{len(dropped)} joints above or beside {clip.names[top]!r} are no bones: {listed}")
    offsets, loose = _steady_offsets(clip)
    loose = [i for i in loose if keep[i] and i != top]
    if loose:
        most = max(float(np.linalg.norm(clip.translations[i] - offsets[i], axis=-1).max()) for i in loose)
        notes.append(
            f"{len(loose)} bones change length or place, at most by {most * clip.unit * 1000:.0f} mm "
            f"({clip.names[loose[0]]!r} first); that was left out"
        )
    quaternions = clip.rotations[:, index]
    root_pos = clip.root_pos
    if top != 0:
        chain = skeletons.chain(clip.parents, top)[::-1]
        upper = replace(
            clip,
            names=tuple(clip.names[i] for i in chain),
            parents=np.arange(len(chain)) - 1,
            offsets=clip.offsets[chain],
            rotations=clip.rotations[:, chain],
            root_pos=clip.root_pos
            if chain[0] == 0
            else clip.translations.get(chain[0], np.broadcast_to(clip.offsets[chain[0]], (clip.frames, 3))),
            translations={k: clip.translations[i] for k, i in enumerate(chain) if k and i in clip.translations},
        )
        turned, placed = global_pose(upper)
        quaternions = np.concatenate([quaternion_from_matrix(turned[:, -1:]), quaternions[:, 1:]], axis=1)
        root_pos = placed[:, -1]
    tips = {int(place[i]): tip for i, tip in clip.tips.items() if keep[i]}
    heads = np.array(offsets[index])
    heads[0] = rest_positions(clip)[top]
    for i in range(1, len(index)):
        heads[i] += heads[parents[i]]
    turns = axis_angle_from_quaternion(quaternions).astype(np.float32)
    names = tuple(clip.names[i] for i in index)
    effectors, feet = _effectors(clip, roles, keep, names, parents)
    along = _directions(parents, heads, tips)
    return OwnPoses(names, parents, heads, along, turns, root_pos, effectors, feet, tuple(notes))


def renamed(own: OwnPoses, names: tuple[str, ...]) -> OwnPoses:
    """The same poses with other bone names (J), which must all differ."""
    other = dict(zip(own.names, names, strict=True))
    effectors, feet = tuple(other[name] for name in own.effectors), tuple(other[name] for name in own.feet)
    return replace(own, names=names, effectors=effectors, feet=feet)


def _first_that_moves(clip: Clip) -> int:
    """The first root; or, where it only carries one joint whose position moves, that joint, and so on."""
    top = 0
    while True:
        below = np.flatnonzero(clip.parents == top)
        if len(below) != 1 or int(below[0]) not in clip.translations:
            return top
        top = int(below[0])


def _steady_offsets(clip: Clip) -> tuple[np.ndarray, list[int]]:
    """Offsets (J, 3) of the rig, and the joints whose positions in the frames differ from them.

    OFFSETs count, so that all clips of a rig agree; constant positions take their place where an OFFSET is zero, or
    where most joints have one that differs (then the file means the positions).
    """
    offsets, loose = np.array(clip.offsets, dtype=np.float64), []
    size = float(np.abs(offsets).sum()) or 1.0
    steady = [i for i, moved in clip.translations.items() if np.ptp(moved, axis=0).max() <= 1e-6 * size]
    means_positions = 2 * len(steady) > len(offsets) - 1
    for i, moved in clip.translations.items():
        if np.linalg.norm(offsets[i]) < 1e-6 * size or (means_positions and i in steady):
            offsets[i] = np.median(moved, axis=0)
        if i not in steady or not np.allclose(offsets[i], moved[0]):
            loose.append(i)
    return offsets, loose


def _directions(parents: np.ndarray, heads: np.ndarray, tips: dict[int, np.ndarray]) -> np.ndarray:
    """Unit directions (J, 3) of bones: to the mean of the children, else to the tip, else on from the parent."""
    size = float(np.ptp(heads, axis=0).max()) or 1.0
    count = np.bincount(parents[1:], minlength=len(parents))
    total = np.zeros_like(heads)
    np.add.at(total, parents[1:], heads[1:])
    along = np.where(count[:, None] > 0, total / np.maximum(count, 1)[:, None] - heads, 0.0)
    for i, parent in enumerate(parents):
        if not count[i] and i in tips:
            along[i] = tips[i]
        if np.linalg.norm(along[i]) < 1e-4 * size and parent >= 0:
            along[i] = heads[i] - heads[parent]
        if np.linalg.norm(along[i]) < 1e-4 * size:
            along[i] = along[parent] if parent >= 0 else (0.0, 1.0, 0.0)
        along[i] /= np.linalg.norm(along[i])
    return along


def _effectors(
    clip: Clip, roles: Roles, keep: np.ndarray, names: tuple[str, ...], parents: np.ndarray
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of effectors and feet: by role, else the ends of the longest limbs."""
    found = {role: roles.bones.get(role) for role in EFFECTORS}
    by_role = {role: clip.names[i] for role, i in found.items() if i is not None and keep[i]}
    if len(set(by_role.values())) == len(by_role) and len(by_role) >= 2:
        return tuple(by_role.values()), tuple(by_role[role] for role in by_role if role.endswith("Foot"))
    body = body_joints(clip)[keep]
    leaves = [i for i in range(len(names)) if not np.any(parents == i) and body[i]] or [len(names) - 1]
    leaves.sort(key=lambda i: -len(skeletons.chain(parents, i)))
    return tuple(names[i] for i in sorted(leaves[:5])), ()


# ---------------------------------------------------------------- one file


def import_file(path: Path, options: Options, part: Path) -> Row:
    """Read, clean and convert one file; its poses go to ``part`` (npz, written whole), what was found comes back.

    Nothing that is wrong with a file is raised: the row says why it was refused.
    """
    try:
        clip = read_clip(path, up_axis=options.up_axis, unit=options.unit, fps=options.source_fps)
        row, arrays = _converted(path, clip, options)
    except (ValueError, OSError) as error:
        row, arrays = Row(str(path), False, reason=_one_line(error)), {}
    except MemoryError:
        row, arrays = Row(str(path), False, reason=f"{path.name}: not enough memory for this file"), {}
    except Exception as error:  # a bug, but hours of other files must not be lost to it: the row shows it
        reason = f"{path.name}: {type(error).__name__}: {_one_line(error)} (a fault in this program, please report it)"
        row, arrays = Row(str(path), False, reason=reason), {}
    members: dict[str, Any] = {"row": np.frombuffer(json.dumps(asdict(row)).encode(), np.uint8), **arrays}
    temporary = part.with_suffix(f".{os.getpid()}.new")  # a reader left over from a killed run may still be at it
    try:
        with open(temporary, "wb") as out:
            np.savez(out, **members)
        os.replace(temporary, part)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(f"cannot write {part.parent}: {error.strerror or error}; choose another place") from None
    return row


def pieces_of(path: Path, clip: Clip, options: Options) -> tuple[list[Clip], list[cleaning.Findings], list[str]]:
    """A clip's figures, cleaned and cut where ``options`` say so; what was found in each figure; and warnings."""
    pieces: list[Clip] = []
    found: list[cleaning.Findings] = []
    for figure in figures(cleaning.cut(clip, min(options.skip, clip.frames), clip.frames)):
        if options.clean:
            own, findings = cleaning.clean(figure)
        else:
            own = [figure] if figure.frames else []
            findings = cleaning.measured(figure, own)
        pieces += own
        found.append(findings)
    return pieces, found, [*clip.warnings, *(f"{path.name}: {doubt}" for f in found for doubt in f.doubts)]


def smoothed(path: Path, piece: Clip, options: Options) -> tuple[Clip, list[str]]:
    """A piece low-passed and resampled as ``options`` say, and warnings."""
    warnings = []
    if options.low_pass is not None and piece.frames >= 4:
        if options.low_pass < piece.fps / 2:
            piece = cleaning.low_pass(piece, options.low_pass)
        else:
            warnings.append(f"{path.name}: {piece.fps:g} frames a second are too few to low-pass, left as it is")
    return (piece if options.fps is None else cleaning.resample(piece, options.fps)), warnings


def _converted(path: Path, clip: Clip, options: Options) -> tuple[Row, dict[str, np.ndarray]]:
    """The row of one file, and its clips as the members of a part."""
    pieces, found, warnings = pieces_of(path, clip, options)
    arrays: dict[str, np.ndarray] = {}
    names, contact, kept, joints = [], [], 0, len(clip.names)
    sure = DOUBTFUL_AXIS not in " ".join(clip.warnings)
    notes = Notes(path.name)
    for n, piece in enumerate(pieces):
        piece, doubts = smoothed(path, piece, options)
        warnings += doubts
        if options.rig == "reference":
            rig, rot, root_pos = retarget.to_reference(piece, given_roles(piece, options))
            poses = pose_set.make(rig, rot, root_pos, np.zeros(len(rot), int), [piece.name], clip_fps=piece.fps)
            about: dict[str, Any] = {}
            arrays |= {f"turns{n}": poses.rot, f"root_pos{n}": poses.root_pos}
        else:
            own = own_poses(piece, given_roles(piece, options))
            short = tuple(name.rsplit(":", 1)[-1].strip() for name in own.names)
            if options.strip_prefix and all(short) and len(set(short)) == len(short):
                own = renamed(own, short)
            for note in own.notes:
                notes.add(note, piece.name if len(pieces) > 1 else "")
            poses = _pose_set(
                own_skeleton(own, piece.up_axis, piece.unit), own, piece.up_axis, piece.unit, "", piece.fps
            )
            about = {"names": own.names, "effectors": own.effectors, "feet": own.feet}
            about |= {"up_axis": piece.up_axis, "unit": piece.unit, "sure": sure}
            for what in ("parents", "heads", "along", "turns", "root_pos"):
                arrays[f"{what}{n}"] = getattr(own, what)
        about |= {"clip": piece.name, "fps": piece.fps}
        arrays[f"about{n}"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
        contact.append(context.prepare(poses).grounded.mean(axis=0))
        kept += poses.frames
        joints = poses.skeleton.count
        names.append(piece.name)
    feet = min((len(c) for c in contact), default=0)
    row = Row(
        path=str(path),
        read=True,
        reason="" if kept else "no frames: only a rest pose, nothing to learn from",
        clips=tuple(names),
        joints=joints,
        frames=clip.frames,
        fps=float(clip.fps),
        kept=kept,
        seconds=float(sum(f.seconds for f in found)),
        height=float(found[0].height),
        speed=float(found[0].speed),
        up_axis=clip.up_axis,
        unit=float(clip.unit),
        t_poses=sum(f.t_poses for f in found),
        teleports=sum(f.teleports for f in found),
        glitches=sum(f.glitches for f in found),
        frozen=sum(f.frozen for f in found),
        repaired=len(clip.repaired),
        contact=tuple(round(float(share), 4) for share in np.mean([c[:feet] for c in contact], axis=0)) if feet else (),
        warnings=tuple(dict.fromkeys((*warnings, *notes.sentences()))),
    )
    return row, arrays


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


# ---------------------------------------------------------------- all files


def run(
    files: Sequence[Path], output: str | Path, options: Options = Options(), jobs: int = 1
) -> Iterator[Progress | Written]:
    """Import ``files`` into ``output``: a Progress for each file as it is done, in order, then a Written for each npz.

    One skeleton gives ``output`` itself; several give one file each, named after it and their first clip. Closing the
    generator (or killing the process) at any moment leaves the parts that are done, in a folder beside the output
    called ``.NAME.parts``; the next run with the same files and options goes on from there. ValueError for options
    that make no sense and where no file gave a clip; OSError where the output cannot be written.
    """
    check(options)
    output = Path(output)
    output.parent.mkdir(parents=True, exist_ok=True)
    folder = output.with_name(f".{output.name}.parts")
    folder.mkdir(exist_ok=True)
    parts = [folder / f"{_key(path, options)}.npz" for path in files]
    kept: list[tuple[Path, str, int]] = []
    first = ""
    for n, (row, again) in enumerate(_rows(files, parts, options, jobs)):
        first = first or row.reason
        if row.kept:
            kept.append((parts[n], row.path, len(row.clips)))
        yield Progress(n + 1, len(files), row, again)
    if not kept:
        shutil.rmtree(folder, ignore_errors=True)
        raise ValueError(f"none of {len(files)} files gave a clip; the first reason: {first}")
    yield from _write_all(kept, output, folder, options)
    shutil.rmtree(folder, ignore_errors=True)


def given_roles(clip: Clip, options: Options) -> Roles | None:
    """The roles that ``options`` give, by name; None where they are left to be found."""
    return named_roles(dict(options.roles), clip.names) if options.roles else None


def _key(path: Path, options: Options) -> str:
    """Name of a file's part: other content, another skeleton file or other options have another one."""
    about = path.stat()
    words: list[Any] = [_VERSION, str(path.resolve()), about.st_size, about.st_mtime_ns, asdict(options)]
    if path.suffix.lower() == ".amc":
        words += [[other.name, other.stat().st_size, other.stat().st_mtime_ns] for other in _skeletons_beside(path)]
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()[:24]


def _skeletons_beside(path: Path) -> list[Path]:
    return sorted(other for other in path.parent.iterdir() if other.suffix.lower() == ".asf")


def _load_row(part: Path) -> Row | None:
    """The row in a part from an earlier run, None where there is none or it is not whole."""
    try:
        with np.load(part, allow_pickle=False) as found:
            fields: dict[str, Any] = json.loads(bytes(found["row"]))
            for name in found.files:  # every member is read once: a damaged part must not fail later
                found[name].shape  # noqa: B018
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()}
        return Row(**values)
    except Exception:  # zipfile, zlib and NumPy raise many kinds for damaged files; all mean to read the motion again
        return None


def _rows(files: Sequence[Path], parts: Sequence[Path], options: Options, jobs: int) -> Iterator[tuple[Row, bool]]:
    ready = {n: row for n, part in enumerate(parts) if part.exists() and (row := _load_row(part)) is not None}
    todo = [n for n in range(len(files)) if n not in ready]
    if jobs <= 1 or len(todo) < 2:
        for n, (path, part) in enumerate(zip(files, parts, strict=True)):
            yield (ready[n], True) if n in ready else (import_file(path, options, part), False)
        return
    results = _pool(files, parts, options, todo, min(jobs, len(todo)))
    fresh: dict[int, Row] = {}
    for n in range(len(files)):
        if n in ready:
            yield ready[n], True
            continue
        while n not in fresh:
            number, row = next(results)
            fresh[number] = row
        yield fresh.pop(n), False


def _pool(
    files: Sequence[Path], parts: Sequence[Path], options: Options, todo: Sequence[int], jobs: int
) -> Iterator[tuple[int, Row]]:
    """Worker processes, one file each at a time; one that dies costs its file and is replaced."""
    start = multiprocessing.get_context("spawn")
    waiting = list(todo)[::-1]
    workers: dict[Connection, tuple[Any, int]] = {}

    def begin() -> None:
        ours, theirs = start.Pipe()
        process = start.Process(target=_worker, args=(theirs, options), daemon=True)
        process.start()
        theirs.close()
        hand_over(ours, process)

    def hand_over(line: Connection, process: Any) -> None:
        n = waiting.pop()
        workers[line] = (process, n)
        line.send((n, str(files[n]), str(parts[n])))

    try:
        for _ in range(jobs):
            begin()
        while workers:
            for line in wait(list(workers)):
                assert isinstance(line, Connection)
                process, n = workers.pop(line)
                try:
                    number, row = line.recv()
                except (EOFError, OSError):
                    line.close()
                    process.join()
                    reason = (
                        f"{files[n].name}: the reader ended with code {process.exitcode}, perhaps for lack of memory"
                    )
                    yield n, Row(str(files[n]), False, reason=reason)
                    if waiting:
                        begin()
                    continue
                if waiting:
                    hand_over(line, process)
                else:
                    line.close()
                yield number, row
    finally:
        for line, (process, _) in workers.items():
            line.close()
            process.terminate()


def _worker(line: Connection, options: Options) -> None:
    """Read the files that come down the line until it closes, as it does when the parent ends for whatever reason."""
    try:
        while True:
            number, path, part = line.recv()
            line.send((number, import_file(Path(path), options, Path(part))))
    except (EOFError, OSError, KeyboardInterrupt):
        return


# ---------------------------------------------------------------- writing


@dataclass(frozen=True)
class _Piece:
    """One clip in a part on disk, without its motion."""

    part: Path
    number: int
    source: str
    name: str
    fps: float
    frames: int
    up_axis: str = "Z"
    unit: float = 1.0
    sure: bool = True
    """Whether the file told its up axis clearly, or was told it."""
    outvoted: bool = False
    own: OwnPoses | None = None
    """None on the reference rig."""

    def poses(self, rig: Skeleton) -> PoseSet:
        """The poses from disk, on ``rig``."""
        with np.load(self.part, allow_pickle=False) as found:
            turns, root_pos = found[f"turns{self.number}"], found[f"root_pos{self.number}"]
        if self.own is None:
            return pose_set.make(rig, turns, root_pos, np.zeros(len(turns), int), [self.name], clip_fps=self.fps)
        own = replace(self.own, turns=turns, root_pos=root_pos)
        return _pose_set(rig, own, self.up_axis, self.unit, self.name, self.fps)


def _write_all(
    kept: Sequence[tuple[Path, str, int]], output: Path, folder: Path, options: Options
) -> Iterator[Written]:
    """Write the clips of ``kept``, which are parts with their file's path and number of clips; unfinished files in ``folder``."""
    known: dict[str, OwnPoses] = {}
    pieces = [piece for part, path, clips in kept for piece in _pieces(part, path, clips, known)]
    groups = [pieces] if options.rig == "reference" else _by_skeleton(pieces)
    paths = outputs(output, [group[0].name for group in groups])
    for path, group in zip(paths, groups, strict=True):
        own = group[0].own
        rig = reference() if own is None else own_skeleton(own, group[0].up_axis, group[0].unit)
        frames, clips = _write(path, folder, group, rig, options)
        yield Written(str(path), rig.count, clips, frames, group[0].name, sum(piece.outvoted for piece in group))


def outputs(output: Path, names: Sequence[str]) -> list[Path]:
    """Where several skeletons go, named by their first clips: ``output`` itself for a single one, else one file each beside it."""
    if len(names) == 1:
        return [output]
    out: list[Path] = []
    taken: set[str] = set()
    for name in names:
        safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
        number, label = 1, safe
        while label.lower() in taken:
            number += 1
            label = f"{safe}-{number}"
        taken.add(label.lower())
        out.append(output.with_name(f"{output.stem}-{label}{output.suffix}"))
    return out


def _pieces(part: Path, path: str, clips: int, known: dict[str, OwnPoses]) -> Iterator[_Piece]:
    """The clips of a part; equal skeletons are kept once, in ``known``, as there may be thousands of clips."""
    with np.load(part, allow_pickle=False) as found:
        for n in range(clips):
            about = json.loads(bytes(found[f"about{n}"]))
            frames = len(found[f"root_pos{n}"])
            piece = _Piece(part, n, path, about["clip"], float(about["fps"]), frames)
            if "names" in about:
                shape = [found[f"{what}{n}"].tobytes().hex() for what in ("parents", "heads", "along")]
                words = json.dumps([about["names"], about["effectors"], about["feet"], *shape])
                key = hashlib.sha256(words.encode()).hexdigest()
                own = known.get(key) or OwnPoses(
                    names=tuple(about["names"]),
                    parents=found[f"parents{n}"],
                    heads=found[f"heads{n}"],
                    along=found[f"along{n}"],
                    turns=np.zeros((0, len(about["names"]), 3)),
                    root_pos=np.zeros((0, 3)),
                    effectors=tuple(about["effectors"]),
                    feet=tuple(about["feet"]),
                )
                known[key] = own
                told = {"up_axis": about["up_axis"], "unit": float(about["unit"]), "sure": about["sure"]}
                piece = replace(piece, own=own, **told)
            yield piece


def _by_skeleton(pieces: Sequence[_Piece]) -> list[list[_Piece]]:
    """Clips with the same bones and proportions together, agreed on one up axis and one size.

    One lying clip must not turn its figure round, nor one guessed unit make a second skeleton: among clips whose files
    agree, the up axis of most frames counts, of the sure ones if there are any; among all that then agree in shape, the
    size of most frames.
    """
    agreed: list[_Piece] = []
    for group in _grouped(pieces, lambda piece: _shape(piece, np.eye(3))):
        voters = [piece for piece in group if piece.sure] or group
        up_axis = _most([(piece.up_axis, piece.frames) for piece in voters])
        agreed += [replace(piece, up_axis=up_axis, outvoted=piece.up_axis != up_axis) for piece in group]
    agreed.sort(key=lambda piece: (piece.source, piece.number))
    groups = []
    for group in _grouped(agreed, lambda piece: _shape(piece, _upright(piece.up_axis))):
        size = _most([(round(_size(piece) * piece.unit, 4), piece.frames) for piece in group])
        groups.append([replace(piece, unit=size / _size(piece)) for piece in group])
    return groups


def _grouped(pieces: Sequence[_Piece], shape_of: Callable[[_Piece], tuple[str, np.ndarray]]) -> list[list[_Piece]]:
    """Pieces whose names are equal and whose shapes differ by less than a five-hundredth of their size, in order."""
    groups: list[tuple[str, np.ndarray, list[_Piece]]] = []
    for piece in pieces:
        names, shape = shape_of(piece)
        for known, reference_shape, group in groups:
            if known == names and np.abs(shape - reference_shape).max() < 0.002:
                group.append(piece)
                break
        else:
            groups.append((names, shape, [piece]))
    return [group for _, _, group in groups]


def _shape(piece: _Piece, axes: np.ndarray) -> tuple[str, np.ndarray]:
    assert piece.own is not None
    heads = (piece.own.heads - piece.own.heads[0]) @ axes.T
    return json.dumps([piece.own.names, piece.own.parents.tolist()]), heads / _size(piece)


def _size(piece: _Piece) -> float:
    assert piece.own is not None
    return float(np.linalg.norm(piece.own.heads - piece.own.heads[0], axis=1).max()) or 1.0


def _write(path: Path, folder: Path, pieces: Sequence[_Piece], rig: Skeleton, options: Options) -> tuple[int, int]:
    """Stream the pieces of one skeleton into an npz, whole or not at all; the numbers of frames and clips.

    Until it is whole it stands in ``folder``, so that a killed run leaves nothing beside the output.
    """
    partners = mirrored_bones(rig) if options.mirror else None
    names = unique_names([(piece.name, piece.source) for piece in pieces])
    lengths = [piece.frames for piece in pieces]
    fps = [piece.fps for piece in pieces]
    if partners is not None:
        names = [name for name in names for name in (name, f"{name} mirrored")]
        lengths = [length for length in lengths for _ in range(2)]
        fps = [rate for rate in fps for _ in range(2)]
    tasks = [guess_task(name) for name in names]
    frames = sum(lengths)

    def poses() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for piece in pieces:
            checked = piece.poses(rig)
            yield checked.rot, checked.root_pos
            if partners is not None:
                rot, root = cleaning.mirror(rig, checked.rot, checked.root_pos, partners)
                yield rot.astype(np.float32), root.astype(np.float32)

    longest = f"U{max(1, *(len(name) for name in rig.names))}"
    fixed = {
        "schema": np.array(pose_set.SCHEMA),
        "bone_names": np.array(rig.names),
        "parents": rig.parents.astype(np.int32),
        "rest_arm": rig.rest_arm,
        "clip": np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
        "clip_names": np.array(names),
        "clip_tasks": np.array(tasks),
        "clip_fps": np.array(fps, dtype=np.float64),
        "effectors": np.array([rig.names[e] for e in rig.effectors]),
        "feet": np.array([rig.names[f] for f in rig.feet], dtype=longest),
        "t_pose": rig.t_pose,
        **({} if rig.limits is None else {"limits": rig.limits}),
    }
    temporary = folder / f"{path.name}.{os.getpid()}.new"
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, array in fixed.items():
                with _member(archive, name) as out:
                    np.lib.format.write_array(out, array, allow_pickle=False)
            for name, which, shape in (("rot", 0, (frames, rig.count, 3)), ("root_pos", 1, (frames, 3))):
                with _member(archive, name) as out:
                    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(out, header)
                    for arrays in poses():
                        out.write(np.ascontiguousarray(arrays[which], "<f4").tobytes())
        os.replace(temporary, path)
    except OSError as error:
        raise OSError(f"cannot write {path}: {error.strerror or error}; nothing was changed there") from None
    finally:
        temporary.unlink(missing_ok=True)
    return frames, len(lengths)


def _member(archive: zipfile.ZipFile, name: str) -> Any:
    """A member to write to, with a fixed date, so that the same poses give the same bytes."""
    info = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
    info.compress_type = zipfile.ZIP_DEFLATED
    return archive.open(info, "w", force_zip64=True)


def _most(weighed: Sequence[tuple[Any, int]]) -> Any:
    """The value that stands for most frames; of several, the one that comes first."""
    weight: dict[Any, int] = {}
    for value, frames in weighed:
        weight[value] = weight.get(value, 0) + frames
    return max(weight, key=lambda value: weight[value])


def unique_names(named: Sequence[tuple[str, str]]) -> list[str]:
    """Clip names, with the folder in front where two are equal, and a number where that does not help."""
    names = [name for name, _ in named]
    often = {name for name in names if names.count(name) > 1}
    out: list[str] = []
    taken: set[str] = set()
    for name, source in named:
        best = f"{Path(source).parent.name}/{name}" if name in often else name
        number, chosen = 1, best
        while chosen in taken:
            number += 1
            chosen = f"{best} ({number})"
        taken.add(chosen)
        out.append(chosen)
    return out
