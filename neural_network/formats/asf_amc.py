# SPDX-License-Identifier: GPL-3.0-or-later
"""Acclaim skeletons (.asf) and motions (.amc) to Clip.

A bone of an ASF stands for a joint at its near end and a stick along its ``direction``. Its motion M turns about axes
C that the file lists in world directions, so relative to its parent it turns by C M C^-1, and a child's joint stands at
the stick's far end: that is a Clip whose rest axes are the world's (source: Acclaim's own description of the format, as
kept with the CMU database).
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..rotations import matrix_from_euler, quaternion_from_matrix
from .bvh import MAX_JOINTS, MAX_VALUE
from .bvh import fill_in as fill_in_joint
from .clip import Clip, body_height, guess_unit, guess_up_axis, helper_notes
from .text import decode, parse_number, plain_bytes

FALLBACK_FPS = 120.0  # [1/s] AMC rarely names its rate; the CMU database, where most such files come from, is at 120
_INCH = 0.0254  # [m]
_BELIEVED = (0.3, 4.0)  # [m] heights for which the unit in the file is believed
_MAX_NOTES = 12
_DEGREES_OF_FREEDOM = ("tx", "ty", "tz", "rx", "ry", "rz", "l")


@dataclass(frozen=True)
class AsfSkeleton:
    """What an .asf file holds, joints in file order with parents before children; joint 0 is the root."""

    names: tuple[str, ...]
    parents: np.ndarray
    """(J) int, -1 for the root."""
    offsets: np.ndarray
    """(J, 3) joint relative to its parent's joint [file units]."""
    ends: np.ndarray
    """(J, 3) far end of each bone's stick relative to its joint [file units]; zero for the root."""
    axes: np.ndarray
    """(J, 3, 3) the axes C about which a bone turns, in world directions."""
    dof: tuple[tuple[str, ...], ...]
    """Per joint, the values an .amc lists for it in order: of tx ty tz rx ry rz l."""
    length: float
    """The file's ``length``: inches are value / length in the CMU files."""
    degrees: bool
    """Whether the file's angles are degrees."""
    warnings: tuple[str, ...] = ()


def read(
    asf: str | Path | None,
    amc: str | Path,
    *,
    up_axis: str | None = None,
    unit: float | None = None,
    fps: float | None = None,
) -> Clip:
    """Read one take: the motion of ``amc`` on the skeleton of ``asf``.

    Args:
        asf: the skeleton's file, or None to find it beside the motion (see ``find_skeleton``).
        amc: the motion's file.
        up_axis: 'Y' or 'Z', or None to find it.
        unit: metres in one file unit, or None for the skeleton's own unit.
        fps: frames a second; AMC files seldom name it, then 120 are assumed with a warning.

    Raises ValueError with file, line and bone where a file cannot be understood.
    """
    amc = Path(amc)
    data = amc.read_bytes()
    if asf is None:
        asf = find_skeleton(amc, data[:400])
    return parse(Path(asf).read_bytes(), data, amc.stem, Path(asf).name, amc.name, up_axis=up_axis, unit=unit, fps=fps)


def read_skeleton(asf: str | Path) -> AsfSkeleton:
    """Read an .asf file; ValueError with file, line and bone where it cannot be understood."""
    asf = Path(asf)
    return parse_skeleton(asf.read_bytes(), asf.name)


def find_skeleton(amc: str | Path, head: bytes = b"") -> Path:
    """The .asf that belongs to an .amc, by the usual ways of naming.

    Tried in turn, whatever the case: the same name (walk.amc, walk.asf); the part before the take (02_01.amc, 02.asf);
    the part before the take with what follows it (07_05-walk.amc, 07-walk.asf); the name that the motion's first line
    mentions (``head``); the longest name with which the motion's begins; the only .asf in the folder. ValueError where
    none fits.
    """
    amc = Path(amc)
    there = {path.stem.lower(): path for path in sorted(amc.parent.iterdir()) if path.suffix.lower() == ".asf"}
    stem = amc.stem.lower()
    wanted = [stem, stem.split("_")[0], re.sub(r"_[^-_]*(?=-|$)", "", stem, count=1)]
    mentioned = re.search(rb"([^\\/:\s][^\\/:\r\n]*)\.asf", head, re.I)
    if mentioned:
        wanted.append(mentioned.group(1).decode("latin-1").lower())
    wanted += sorted((name for name in there if name and stem.startswith(name)), key=len, reverse=True)
    for name in wanted:
        if name in there:
            return there[name]
    if len(there) == 1:
        return next(iter(there.values()))
    found = ", ".join(path.name for path in list(there.values())[:5]) or "none"
    raise ValueError(
        f"{amc.name}: no skeleton file belongs to it; expected {amc.stem}.asf or "
        f"{amc.stem.split('_')[0]}.asf beside it, found {found}"
    )


def parse_skeleton(data: bytes, source: str = "skeleton.asf") -> AsfSkeleton:
    """Read an .asf from bytes; ``source`` is what messages call the file. Otherwise as ``read_skeleton``."""
    notes: list[str] = []
    text = decode(plain_bytes(data, source, notes, "an ASF file with :bonedata"))
    if not re.search(r"^[ \t]*:[ \t]*(root|bonedata|hierarchy)", text, re.I | re.M):
        raise ValueError(f"{source}: not an ASF file; expected the sections :root, :bonedata and :hierarchy")
    length, degrees = 1.0, True
    root: dict[str, list[str]] = {}
    bones: list[dict[str, list[str]]] = []
    links: list[tuple[int, str, list[str]]] = []
    section, bone = "", None
    for line, words in _lines(text):
        key = words[0].lower()
        if key.startswith(":"):
            section = key[1:] or (words[1].lower() if len(words) > 1 else "")
            bone = None
        elif section == "units":
            if key == "length" and len(words) > 1:
                value = parse_number(words[1])
                if value is None or not 0 < value < MAX_VALUE:
                    notes.append(f"{source}, line {line}: unit length {words[1]!r} is no positive number; 1 was taken")
                else:
                    length = value
            elif key == "angle" and len(words) > 1:
                degrees = not words[1].lower().startswith("rad")
        elif section == "root":
            root[key] = [str(line), *words[1:]]
        elif section == "bonedata":
            if key == "begin":
                bone = {"line": [str(line)]}
            elif key == "end":
                if bone is not None:
                    bones.append(bone)
                bone = None
            elif bone is not None:
                if key == "name":
                    bone["name"] = [" ".join(words[1:])]
                elif not key.startswith("(") and key not in bone:
                    bone[key] = [str(line), *words[1:]]
            if len(bones) > MAX_JOINTS:
                raise ValueError(f"{source}, line {line}: expected at most {MAX_JOINTS} bones; the file is damaged")
        elif section == "hierarchy" and key not in ("begin", "end"):
            links.append((line, words[0], words[1:]))
    return _skeleton(source, root, bones, links, length, degrees, notes)


def parse(
    asf: bytes,
    amc: bytes,
    name: str = "clip",
    asf_source: str = "skeleton.asf",
    amc_source: str = "motion.amc",
    *,
    up_axis: str | None = None,
    unit: float | None = None,
    fps: float | None = None,
) -> Clip:
    """Read one take from bytes; the sources are what messages call the files. Otherwise as ``read``."""
    if up_axis is not None and up_axis.upper() not in ("Y", "Z"):
        raise ValueError(f"up axis: expected Y or Z, got {up_axis!r}")
    skeleton = parse_skeleton(asf, asf_source)
    notes = list(skeleton.warnings)
    values, bad, degrees, rate = _read_motion(amc, skeleton, amc_source, notes)
    rotations, root_pos, repaired = _pose(skeleton, values, bad, degrees, amc_source, notes)
    inner = {int(parent) for parent in skeleton.parents}
    clip = Clip(
        name=name,
        names=skeleton.names,
        parents=skeleton.parents,
        offsets=skeleton.offsets,
        tips={i: skeleton.ends[i] for i in range(1, len(skeleton.names)) if i not in inner},
        rotations=rotations,
        root_pos=root_pos,
        fps=fps or rate or FALLBACK_FPS,
        repaired=repaired,
    )
    if not fps and not rate:
        notes.append(f"{amc_source}: AMC names no rate; {FALLBACK_FPS:g} frames a second were assumed")
    notes += [f"{asf_source}, {note}" for note in helper_notes(clip)]
    up, note = guess_up_axis(clip)
    if up_axis is None and note:
        notes.append(f"{amc_source}: {note}")
    clip = replace(clip, up_axis=up_axis.upper() if up_axis else up)
    if unit is None:
        unit = _INCH / skeleton.length
        height = body_height(clip) * unit
        if not _BELIEVED[0] <= height <= _BELIEVED[1]:
            guessed, note = guess_unit(clip)
            notes.append(
                f"{asf_source}: the unit length {skeleton.length:g} would make the figure {height:.3g} m high; "
                f"one unit was taken as {guessed:.4g} m"
            )
            unit = guessed
    return replace(clip, unit=float(unit), warnings=tuple(notes))


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and words of every line that holds some, comments left out."""
    for number, line in enumerate(text.split("\n"), 1):
        words = line.split("#", 1)[0].split()
        if words:
            yield number, words


def _three(source: str, entry: list[str], what: str) -> np.ndarray:
    numbers = [parse_number(word) for word in entry[1:4]]
    if len(numbers) < 3 or any(n is None or not abs(n) < MAX_VALUE for n in numbers):
        raise ValueError(f"{source}, line {entry[0]}: expected {what} with three numbers, got {' '.join(entry[1:])!r}")
    return np.array(numbers, dtype=np.float64)


def _order(words: list[str]) -> str:
    order = words[0].upper() if words else "XYZ"
    return order if re.fullmatch(r"[XYZ]{1,3}", order) else "XYZ"


def _euler(angles: np.ndarray, order: str) -> np.ndarray:
    """Turns (..., n) [rad] applied in the order they are listed, the first one first: R = R(last) ... R(first)."""
    return matrix_from_euler(angles[..., ::-1], order[::-1])


def _dof(source: str, line: str, bone: str, words: list[str], notes: list[str]) -> tuple[str, ...]:
    found = []
    for word in words:
        if word.lower() in _DEGREES_OF_FREEDOM:
            found.append(word.lower())
        else:
            notes.append(f"{source}, line {line}, bone {bone}: degree of freedom {word!r} is unknown and is read past")
            found.append("?")
    return tuple(found)


def _skeleton(
    source: str,
    root: dict[str, list[str]],
    bones: list[dict[str, list[str]]],
    links: list[tuple[int, str, list[str]]],
    length: float,
    degrees: bool,
    notes: list[str],
) -> AsfSkeleton:
    factor = np.pi / 180 if degrees else 1.0
    names, ends, axes = ["root"], [np.zeros(3)], [np.eye(3)]
    dof: list[tuple[str, ...]] = [("tx", "ty", "tz", "rx", "ry", "rz")]
    if "order" in root:
        dof[0] = _dof(source, root["order"][0], "root", root["order"][1:], notes)
    position = _three(source, root["position"], "position") if "position" in root else np.zeros(3)
    if "orientation" in root:
        turn = _three(source, root["orientation"], "orientation") * factor
        axes[0] = _euler(turn, _order(root.get("axis", ["", "XYZ"])[1:]).ljust(3, "X")[:3])
    for bone in bones:
        line, name = bone["line"][0], bone.get("name", [""])[0]
        if not name:
            notes.append(f"{source}, line {line}: a bone without a name was left out")
            continue
        if name in names:
            notes.append(f"{source}, line {line}: bone {name!r} is defined twice; the first one was taken")
            continue
        direction = _three(source, bone["direction"], f"direction of {name}") if "direction" in bone else np.zeros(3)
        size = np.linalg.norm(direction)
        if "direction" not in bone or size < 1e-9:
            notes.append(f"{source}, line {line}, bone {name}: no direction; it was read with no length")
        elif abs(size - 1) > 0.01:
            notes.append(f"{source}, line {line}, bone {name}: direction of length {size:.4g} was made a unit one")
            direction = direction / size
        reach = parse_number(bone["length"][1]) if len(bone.get("length", [])) > 1 else None
        if reach is None or not abs(reach) < MAX_VALUE:
            notes.append(f"{source}, line {line}, bone {name}: no length; it was read with none")
            reach = 0.0
        axis = bone.get("axis", [line, "0", "0", "0", "XYZ"])
        names.append(name)
        ends.append(direction * reach)
        axes.append(_euler(_three(source, axis, f"axis of {name}") * factor, _order(axis[4:]).ljust(3, "X")[:3]))
        dof.append(_dof(source, bone.get("dof", [line])[0], name, bone.get("dof", [line])[1:], notes))
    parents = _parents(source, names, links, notes)
    return _sorted(names, parents, np.array(ends), np.array(axes), dof, position, length, degrees, notes)


def _parents(source: str, names: list[str], links: list[tuple[int, str, list[str]]], notes: list[str]) -> list[int]:
    """Parent index of each bone; -2 for one that hangs nowhere."""
    index = {name: i for i, name in enumerate(names)}
    lower = {name.lower(): i for i, name in enumerate(names)}
    parents = [-1] + [-2] * (len(names) - 1)
    for line, above, below in links:
        parent = index.get(above, lower.get(above.lower()))
        if parent is None:
            raise ValueError(f"{source}, line {line}: :hierarchy names the bone {above!r}, which :bonedata lacks")
        for name in below:
            child = index.get(name, lower.get(name.lower()))
            if child is None:
                notes.append(
                    f"{source}, line {line}: :hierarchy names the bone {name!r}, which :bonedata lacks; ignored"
                )
            elif child == 0:
                notes.append(f"{source}, line {line}: the root cannot have a parent; ignored")
            elif parents[child] != -2:
                notes.append(f"{source}, line {line}, bone {name}: a second parent, {above!r}, was ignored")
            else:
                parents[child] = parent
    return parents


def _sorted(
    names: list[str],
    parents: list[int],
    ends: np.ndarray,
    axes: np.ndarray,
    dof: list[tuple[str, ...]],
    position: np.ndarray,
    length: float,
    degrees: bool,
    notes: list[str],
) -> AsfSkeleton:
    """Joints in file order where parents come first, else as near to it as they can be; loose bones left out."""
    order, placed, waiting = [0], {0}, list(range(1, len(names)))
    while waiting:
        ready = []
        for i in waiting:
            if parents[i] in placed:
                ready.append(i)
                placed.add(i)
        if not ready:
            notes.append(f"bones {', '.join(names[i] for i in waiting[:6])} hang on nothing and were left out")
            break
        order += ready
        waiting = [i for i in waiting if i not in placed]
    place = {old: new for new, old in enumerate(order)}
    above = np.array([-1 if old == 0 else place[parents[old]] for old in order])
    sticks = ends[order]
    offsets = np.where((above < 0)[:, None], position, sticks[np.maximum(above, 0)])
    return AsfSkeleton(
        names=tuple(names[i] for i in order),
        parents=above,
        offsets=offsets,
        ends=sticks,
        axes=axes[order],
        dof=tuple(dof[i] for i in order),
        length=length,
        degrees=degrees,
        warnings=tuple(notes),
    )


def _read_motion(
    data: bytes, skeleton: AsfSkeleton, source: str, notes: list[str]
) -> tuple[np.ndarray, np.ndarray, bool, float | None]:
    """Values (F, W) in the order of ``skeleton.dof``, mask (F, W) of missing ones, whether degrees, and the rate."""
    data = plain_bytes(data, source, notes, "an AMC file with numbered frames")
    starts, width = {}, 0
    for name, dof in zip(skeleton.names, skeleton.dof, strict=True):
        starts[name] = (width, len(dof))
        width += len(dof)
    lower = {name.lower(): name for name in skeleton.names}
    degrees, rate = skeleton.degrees, None
    blank = array("d", [np.nan]) * width
    values, row = array("d"), array("d")
    unknown: dict[str, int] = {}
    previous, jumps, wrong, count = None, 0, 0, 0
    begun, complete = False, 0
    needed = sum(1 for _, length in starts.values() if length)
    seen: set[str] = set()
    for number, found in enumerate(re.finditer(rb"[^\n]*\n|[^\n]+", data), 1):
        words = found.group().split(b"#", 1)[0].split()
        if not words:
            continue
        head = words[0].decode("latin-1") if words[0].isascii() else decode(words[0])
        if head.startswith(":"):
            key = head.upper()
            if key in (":DEGREES", ":RADIANS"):
                degrees = key == ":DEGREES"
            elif key.startswith((":SAMPLES", ":FPS", ":RATE")) and len(words) > 1:
                rate = parse_number(words[1])
                if rate is None or not 0.1 <= rate <= 10_000:
                    notes.append(f"{source}, line {number}: the rate {words[1][:20]!r} is no number of frames a second")
                    rate = None
            continue
        if len(words) == 1 and re.fullmatch(r"\d+(?:\.0*)?", head):
            values.extend(row)
            row, seen, begun, count = blank[:], set(), True, count + 1
            frame = int(float(head)) if len(head) < 15 else None
            jumps += previous is not None and frame is not None and frame != previous + 1
            previous = frame
            continue
        if not begun:
            if parse_number(words[0]) is None and len(words) > 1 and head.lower() in lower:
                raise ValueError(f"{source}, line {number}: expected a frame number before the bone {head!r}")
            continue
        name = head if head in starts else lower.get(head.lower(), "")
        if not name:
            unknown.setdefault(head, number)
            if len(unknown) > 1000:
                raise ValueError(
                    f"{source}, line {number}: no bone of this file is in the skeleton; is it the right .asf?"
                )
            continue
        start, length = starts[name]
        numbers = [parse_number(word) for word in _split(words[1:], length)]
        if name in seen:
            notes.append(f"{source}, line {number}, bone {name}: named twice in one frame; the first was taken")
        elif len(numbers) != length or None in numbers:
            wrong += 1
            if wrong <= _MAX_NOTES:
                got = " ".join(word.decode("latin-1") for word in words[1:])[:40]
                notes.append(f"{source}, line {number}, bone {name}: expected {length} numbers, got {got!r}; filled in")
        else:
            row[start : start + length] = array("d", [n if n is not None else np.nan for n in numbers])
            complete += 1
        seen.add(name)
        if len(notes) > 200:
            raise ValueError(f"{source}, line {number}: too much of this file does not fit the skeleton")
    values.extend(row)
    if not begun:
        raise ValueError(f"{source}: not an AMC file; expected numbered frames with a line for each bone")
    if count and complete == 0:
        raise ValueError(f"{source}: no bone of this file is in the skeleton ({', '.join(skeleton.names[:5])}, ...)")
    table = np.array(values, dtype=np.float64).reshape(-1, width)
    if len(table) > 1 and len(seen & {n for n in starts if starts[n][1]}) < needed and complete:
        last = np.isnan(table[-1]).sum() > np.isnan(table[:-1]).sum(axis=1).min()
        if last:
            notes.append(f"{source}: the last frame is incomplete and was dropped")
            table = table[:-1]
    for name, number in list(unknown.items())[:_MAX_NOTES]:
        notes.append(f"{source}, line {number}: the skeleton has no bone {name!r}; its values were ignored")
    if jumps:
        notes.append(f"{source}: frame numbers jump {jumps} times; frames were taken as they come")
    missing = ~(np.abs(table) < MAX_VALUE)
    return np.where(missing, 0.0, table), missing, degrees, rate


def _split(words: list[bytes], length: int) -> list[bytes]:
    """Words of a bone's line; glued numbers (1.5-2.3) are taken apart and decimal commas read where that fits."""
    if len(words) == length and not any(b"," in word for word in words):
        return words
    if len(words) == length:
        return [word.replace(b",", b".") for word in words]
    return re.sub(rb"(?<=[\d.])([-+])", rb" \1", b" ".join(words)).split()


def _pose(
    skeleton: AsfSkeleton, values: np.ndarray, bad: np.ndarray, degrees: bool, source: str, notes: list[str]
) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Rotations (F, J, 4), root positions (F, 3), and the frames in which something was filled in."""
    frames = len(values)
    factor = np.pi / 180 if degrees else 1.0
    rotations = np.zeros((frames, len(skeleton.names), 4))
    rotations[..., 0] = 1
    root_pos = np.broadcast_to(skeleton.offsets[0], (frames, 3)).copy()
    start = 0
    ignored = []
    for i, (name, dof) in enumerate(zip(skeleton.names, skeleton.dof, strict=True)):
        turning = [start + k for k, d in enumerate(dof) if d.startswith("r")]
        moving = {d[1]: start + k for k, d in enumerate(dof) if d.startswith("t")}
        if turning:
            order = "".join(d[1].upper() for d in dof if d.startswith("r"))
            local = skeleton.axes[i] @ _euler(values[:, turning] * factor, order) @ skeleton.axes[i].T
            rotations[:, i] = fill_in_joint(quaternion_from_matrix(local), np.any(bad[:, turning], axis=1))
        if i == 0:
            for letter, column in moving.items():
                good = np.flatnonzero(~bad[:, column])
                if len(good):
                    root_pos[:, "xyz".index(letter)] = np.interp(np.arange(frames), good, values[good, column])
        elif moving or "l" in dof:
            ignored.append(name)
        start += len(dof)
    touched = np.flatnonzero(bad.any(axis=1))
    for frame in touched[:_MAX_NOTES]:
        joint = int(
            np.searchsorted(np.cumsum([len(d) for d in skeleton.dof]), np.flatnonzero(bad[frame])[0], side="right")
        )
        notes.append(
            f"{source}, frame {frame + 1}, bone {skeleton.names[joint]}: values missing; "
            "filled in from the neighbouring frames"
        )
    if len(touched) > _MAX_NOTES:
        notes.append(
            f"{source}: {len(touched)} frames lack values of some bone; filled in from the neighbouring frames"
        )
    if ignored:
        notes.append(f"{source}: bones {', '.join(ignored[:6])} also move or stretch; only their turning was read")
    return rotations, root_pos, tuple(int(frame) for frame in touched)
