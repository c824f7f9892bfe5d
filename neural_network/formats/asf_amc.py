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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from ..core.messages import short
from ..core.rotations import matrix_from_euler, quaternion_from_matrix
from ..motion.clip import Clip, body_height, guess_unit, guess_up_axis, helper_notes, without_rigid
from .bvh import MAX_JOINTS, MAX_VALUE, room_for
from .bvh import fill_in as fill_in_joint
from .text import Notes, decode, parse_number, plain_bytes

FALLBACK_FPS = 120.0  # [1/s] AMC rarely names its rate; the CMU database, where most such files come from, is at 120
_INCH = 0.0254  # [m]
_BELIEVED = (0.3, 4.0)  # [m] heights for which the unit in the file is believed
_AT_ONCE = 256  # frames turned into rotations in one go
_WORDS = 24  # of a bone's line in a motion that are looked at
_MOST_BELOW = 256  # words of a line in a skeleton that are looked at
_BONE_KEYS = ("name", "direction", "length", "axis", "dof")
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
    notes = Notes(source)
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
        key = key.rstrip(":")
        if section == "units":
            for what, word in pairwise(words):  # all on one line, sometimes
                if what.lower().rstrip(":") == "angle":
                    degrees = not word.lower().startswith("rad")
                elif what.lower().rstrip(":") == "length":
                    value = parse_number(word.replace(",", "."))
                    if value is None or not 0 < value < MAX_VALUE:
                        notes.add(f"unit length {short(word, 20)!r} is no positive number; 1 was taken", f"line {line}")
                    else:
                        length = value
        elif words[0].startswith(":"):
            continue
        elif section == "root":
            root[key] = [str(line), *_entries(words[1:])]
        elif section == "bonedata":
            if key in ("begin", "end"):
                if bone is not None and "name" in bone:
                    bones.append(bone)
                elif bone is not None:
                    notes.add("a bone without a name was left out", f"line {bone['line'][0]}")
                bone = {"line": [str(line)]} if key == "begin" else None
            elif bone is not None:
                if key == "name":
                    bone["name"] = [" ".join(words[1:])]
                elif key in _BONE_KEYS and key not in bone:
                    bone[key] = [str(line), *_entries(words[1:])]
            if len(bones) > MAX_JOINTS:
                raise ValueError(f"{source}, line {line}: expected at most {MAX_JOINTS} bones; the file is damaged")
        elif section == "hierarchy" and key not in ("begin", "end"):
            above, *below = [name for word in words for name in word.split(",") if name] or [""]
            links.append((line, above, below))
            if len(links) > MAX_JOINTS:
                raise ValueError(f"{source}, line {line}: expected at most {MAX_JOINTS} parents; the file is damaged")
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
    asf_notes, notes = Notes(asf_source), Notes(amc_source)
    clip, rate = _motion(amc, skeleton, len(asf) + len(amc), notes)
    clip = replace(clip, name=name, fps=fps or rate or FALLBACK_FPS)
    if not fps and not rate:
        notes.add(f"AMC names no rate; {FALLBACK_FPS:g} frames a second were assumed")
    for what, place in helper_notes(clip):
        asf_notes.add(what, place)
    up, note = guess_up_axis(clip)
    if up_axis is None and note:
        notes.add(note)
    clip = replace(clip, up_axis=up_axis.upper() if up_axis else up)
    if unit is None:
        unit = _INCH / skeleton.length
        height = body_height(clip) * unit
        if not _BELIEVED[0] <= height <= _BELIEVED[1]:
            guessed, note = guess_unit(clip)
            asf_notes.add(
                f"the unit length {skeleton.length:g} would make the figure {height:.3g} m high; "
                f"one unit was taken as {guessed:.4g} m"
            )
            unit = guessed
    warnings = (*skeleton.warnings, *asf_notes.sentences(), *notes.sentences())
    return replace(clip, unit=float(unit), warnings=warnings)


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and first words of every line that holds some, comments left out."""
    for number, found in enumerate(re.finditer(r"[^\n]*\n|[^\n]+", text), 1):
        words = found.group().split("#", 1)[0].split(None, _MOST_BELOW)[:_MOST_BELOW]
        if words:
            yield number, words


def _entries(words: list[str]) -> list[str]:
    """The words behind a bone's key, whatever brackets and commas stand around them."""
    text = " ".join(words)
    if "," in text and "." not in text and not re.search(r",\s|,$", text):
        text = text.replace(",", ".")
    text = re.sub(r"(?<=[\d.])(?=[XYZ]{1,3}$)", " ", re.sub(r"[,;()]", " ", text), flags=re.I)
    return text.split()


def _three(source: str, entry: list[str], what: str) -> np.ndarray:
    numbers = [parse_number(word) for word in entry[1:4]]
    if len(numbers) < 3 or any(n is None or not abs(n) < MAX_VALUE for n in numbers):
        raise ValueError(
            f"{source}, line {entry[0]}: expected {what} with three numbers, got {short(' '.join(entry[1:]), 40)!r}"
        )
    return np.array(numbers, dtype=np.float64)


def _order(words: list[str]) -> str:
    order = "".join(words[:3]).upper() or "XYZ"
    return order if re.fullmatch(r"[XYZ]{1,3}", order) else "XYZ"


def _euler(angles: np.ndarray, order: str) -> np.ndarray:
    """Turns (..., n) [rad] applied in the order they are listed, the first one first: R = R(last) ... R(first)."""
    return matrix_from_euler(angles[..., ::-1], order[::-1])


def _dof(line: str, bone: str, words: list[str], notes: Notes) -> tuple[str, ...]:
    found = []
    for word in words:
        if word.lower() in _DEGREES_OF_FREEDOM:
            found.append(word.lower())
        else:
            notes.add(f"degree of freedom {short(word, 20)!r} is unknown and is read past", f"line {line}, bone {bone}")
            found.append("?")
    return tuple(found)


def _skeleton(
    source: str,
    root: dict[str, list[str]],
    bones: list[dict[str, list[str]]],
    links: list[tuple[int, str, list[str]]],
    length: float,
    degrees: bool,
    notes: Notes,
) -> AsfSkeleton:
    factor = np.pi / 180 if degrees else 1.0
    names, ends, axes = ["root"], [np.zeros(3)], [np.eye(3)]
    dof: list[tuple[str, ...]] = [("tx", "ty", "tz", "rx", "ry", "rz")]
    if "order" in root:
        dof[0] = _dof(root["order"][0], "root", root["order"][1:], notes)
    position = _three(source, root["position"], "position") if "position" in root else np.zeros(3)
    if "orientation" in root:
        turn = _three(source, root["orientation"], "orientation") * factor
        axes[0] = _euler(turn, _order(root.get("axis", ["", "XYZ"])[1:]).ljust(3, "X")[:3])
    known = set(names)
    bare = sum("direction" not in bone and "length" not in bone for bone in bones)
    if bare > max(200, 0.5 * len(bones)):
        raise ValueError(f"{source}: {bare} of {len(bones)} bones have no direction and no length; the file is damaged")
    for bone in bones:
        line, name = bone["line"][0], bone["name"][0]
        place = f"line {line}, bone {short(name)}"
        if name in known:
            notes.add(f"bone {short(name)!r} is defined twice; the first one was taken", f"line {line}")
            continue
        known.add(name)
        direction = _three(source, bone["direction"], f"direction of {name}") if "direction" in bone else np.zeros(3)
        size = np.linalg.norm(direction)
        if "direction" not in bone or size < 1e-9:
            notes.add("no direction; it was read with no length", place)
        elif abs(size - 1) > 0.01:
            notes.add(f"direction of length {size:.4g} was made a unit one", place)
            direction = direction / size
        reach = parse_number(bone["length"][1]) if len(bone.get("length", [])) > 1 else None
        if reach is None or not abs(reach) < MAX_VALUE:
            notes.add("no length; it was read with none", place)
            reach = 0.0
        axis = bone.get("axis", [line, "0", "0", "0", "XYZ"])
        names.append(name)
        ends.append(direction * reach)
        axes.append(_euler(_three(source, axis, f"axis of {name}") * factor, _order(axis[4:]).ljust(3, "X")[:3]))
        dof.append(_dof(bone.get("dof", [line])[0], name, bone.get("dof", [line])[1:], notes))
    parents = _parents(source, names, links, notes)
    return _sorted(names, parents, np.array(ends), np.array(axes), dof, position, length, degrees, notes)


def _parents(source: str, names: list[str], links: list[tuple[int, str, list[str]]], notes: Notes) -> list[int]:
    """Parent index of each bone; -2 for one that hangs nowhere."""
    index = {name: i for i, name in enumerate(names)}
    lower = {name.lower(): i for i, name in enumerate(names)}
    parents = [-1] + [-2] * (len(names) - 1)
    for line, above, below in links:
        parent = index.get(above, lower.get(above.lower()))
        if parent is None:
            raise ValueError(
                f"{source}, line {line}: :hierarchy names the bone {short(above)!r}, which :bonedata lacks"
            )
        for name in below:
            child = index.get(name, lower.get(name.lower()))
            if child is None:
                what = f":hierarchy names the bone {short(name)!r}, which :bonedata lacks; ignored"
                notes.add(what, f"line {line}")
            elif child == 0:
                notes.add("the root cannot have a parent; ignored", f"line {line}")
            elif parents[child] != -2:
                notes.add(f"a second parent, {short(above)!r}, was ignored", f"line {line}, bone {short(name)}")
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
    notes: Notes,
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
            listed = ", ".join(short(names[i]) for i in waiting[:6])
            notes.add(f"bones {listed} hang on nothing and were left out")
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
        warnings=notes.sentences(),
    )


@dataclass(frozen=True)
class _Kind:
    """What the lines of a motion have in common."""

    frames: int
    degrees: bool
    rate: float | None
    named: frozenset[str]
    """The skeleton's bones that have a line somewhere."""


def _motion(data: bytes, skeleton: AsfSkeleton, size: int, notes: Notes) -> tuple[Clip, float | None]:
    """The motion on its skeleton, without name, rate, axes and unit; and its frames a second where it names them.

    The lines are gone through twice, once to see what there is and once to read it, so that memory grows with the clip
    alone; ``size`` is that of both files [bytes], of which a clip takes only so many times.
    """
    data = plain_bytes(data, notes.source, notes, "an AMC file with numbered frames")
    kind = _survey(data, skeleton, notes)
    kept, parents, offsets, tips = _joints(skeleton, kind, size, notes)
    rotations = np.empty((kind.frames, len(kept), 4))
    root_pos = np.tile(skeleton.offsets[0], (kind.frames, 1))
    bad = np.zeros((kind.frames, len(kept)), bool)
    lost = np.zeros((kind.frames, 3), bool)
    widths = [len(dof) for dof in skeleton.dof]
    starts = np.cumsum([0, *widths])
    factor = np.pi / 180 if kind.degrees else 1.0
    at = 0
    lines = array("H")
    for values, missing in _blocks(data, skeleton, lines, notes):
        here = slice(at, at + len(values))
        for k, i in enumerate(kept):
            dof = skeleton.dof[i]
            turning = [int(starts[i]) + n for n, d in enumerate(dof) if d.startswith("r")]
            local = np.broadcast_to(np.eye(3), (len(values), 3, 3))
            if turning:
                order = "".join(d[1].upper() for d in dof if d.startswith("r"))
                local = skeleton.axes[i] @ _euler(values[:, turning] * factor, order) @ skeleton.axes[i].T
            rotations[here, k] = quaternion_from_matrix(local)
            bad[here, k] = missing[:, turning].any(axis=1) & (skeleton.names[i] in kind.named)
        for n, d in enumerate(skeleton.dof[0]):
            if d.startswith("t") and skeleton.names[0] in kind.named:
                root_pos[here, "xyz".index(d[1])] = values[:, n]
                lost[here, "xyz".index(d[1])] = missing[:, n]
        at += len(values)
    frames = kind.frames
    if frames > 1 and lines[-1] < max(lines[:-1]):
        notes.add("the last frame is incomplete and was dropped")
        frames -= 1
    rotations, root_pos, bad, lost = rotations[:frames], root_pos[:frames], bad[:frames], lost[:frames]
    for k in np.flatnonzero(bad.any(axis=0)).tolist():
        rotations[:, k] = fill_in_joint(rotations[:, k], bad[:, k])
    for axis in np.flatnonzero(lost.any(axis=0)).tolist():
        good = np.flatnonzero(~lost[:, axis])
        root_pos[:, axis] = (
            np.interp(np.arange(frames), good, root_pos[good, axis]) if len(good) else skeleton.offsets[0, axis]
        )
    names = tuple(skeleton.names[i] for i in kept)
    mute = [name for name, dof in zip(skeleton.names, skeleton.dof, strict=True) if dof and name not in kind.named]
    if mute:
        listed = ", ".join(map(short, mute[:6]))
        notes.add(f"no frame has a line for {listed}{', ...' if len(mute) > 6 else ''}; they were left at rest")
    repaired = _repaired(bad, lost, names, notes)
    stretching = [
        name
        for name, dof in zip(skeleton.names[1:], skeleton.dof[1:], strict=True)
        if any(d.startswith("t") or d == "l" for d in dof)
    ]
    if stretching:
        listed = ", ".join(map(short, stretching[:6]))
        notes.add(f"bones {listed} also move or stretch; only their turning was read")
    clip = Clip(
        name="",
        names=names,
        parents=parents,
        offsets=offsets,
        tips=tips,
        rotations=rotations,
        root_pos=root_pos,
        fps=FALLBACK_FPS,
        repaired=repaired,
    )
    return clip, kind.rate


def _joints(
    skeleton: AsfSkeleton, kind: _Kind, size: int, notes: Notes
) -> tuple[np.ndarray, np.ndarray, np.ndarray, dict[int, np.ndarray]]:
    """Indices, parents, offsets and tips of the clip's joints: all, unless most never move and would take too much."""
    inner = {int(parent) for parent in skeleton.parents}
    count = len(skeleton.names)
    tips = {i: skeleton.ends[i] for i in range(1, count) if i not in inner}
    room = room_for(kind.frames, size)
    still = np.array([name not in kind.named for name in skeleton.names])
    kept, parents, offsets, tips = without_rigid(skeleton.parents, skeleton.offsets, tips, still, max(room, 1))
    if len(kept) < count:
        notes.add(
            f"{count - len(kept)} of {count} bones have no line in any frame and were folded into those around them: "
            "with all of them the clip would take many times the file"
        )
    if len(kept) > room and kind.frames:
        raise ValueError(
            f"{notes.source}: {kind.frames} frames, but few lines in them; expected a line for each bone in every frame"
        )
    return kept, parents, offsets, tips


def _survey(data: bytes, skeleton: AsfSkeleton, notes: Notes) -> _Kind:
    lower = {name.lower(): name for name in skeleton.names}
    known = dict(zip(skeleton.names, skeleton.dof, strict=True))
    degrees, rate = skeleton.degrees, None
    previous, jumps, frames = None, 0, 0
    named: set[str] = set()
    unknown: set[str] = set()
    for number, head, words, frame in _motion_lines(data):
        if frame is not None:
            frames += 1
            jumps += previous is not None and frame != previous + 1
            previous = frame
        elif head.startswith(":"):
            key = " ".join([head, *(word.decode("latin-1") for word in words[1:])]).upper()
            if ":DEG" in key or ":RAD" in key:
                degrees = ":DEG" in key
            elif key.startswith((":SAMPLES", ":FPS", ":RATE", ":FRAMERATE")) and len(words) > 1:
                rate = parse_number(words[1])
                if rate is None or not 0.1 <= rate <= 10_000:
                    text = words[1][:20].decode("latin-1")
                    notes.add(f"the rate {text!r} is no number of frames a second", f"line {number}")
                    rate = None
        elif not frames:
            if len(words) > 1 and head.lower() in lower:
                raise ValueError(f"{notes.source}, line {number}: expected a frame number before the bone {head!r}")
        else:
            name, _ = _bone(head, words, known, lower)
            if name:
                named.add(name)
            elif head not in unknown:
                unknown.add(head)
                notes.add(f"the skeleton has no bone {short(head)!r}; its values were ignored", f"line {number}")
                if len(unknown) > 1000:
                    raise ValueError(
                        f"{notes.source}, line {number}: no bone of this file is in the skeleton; is it the right .asf?"
                    )
    if not frames:
        raise ValueError(f"{notes.source}: not an AMC file; expected numbered frames with a line for each bone")
    if not named:
        listed = ", ".join(map(short, skeleton.names[:5]))
        raise ValueError(f"{notes.source}: no bone of this file is in the skeleton ({listed}, ...)")
    if jumps:
        notes.add(f"frame numbers jump {jumps} times; frames were taken as they come")
    return _Kind(frames, degrees, rate, frozenset(named))


def _motion_lines(data: bytes) -> Iterator[tuple[int, str, list[bytes], int | None]]:
    """Line number, first word, first words, and the frame's number where it is one, of every line; comments left out.

    A line of numbers goes on with the bone of the line before.
    """
    before: tuple[int, str, list[bytes], int | None] | None = None
    for number, head, words in _plain_lines(data):
        frame = _frame_number(head, words) if len(words) < 3 else None
        if frame is None and head[0] in "+-.0123456789" and before and before[3] is None and before[1][0] != ":":
            before = (*before[:2], [*before[2], *words][: _WORDS + 1], None)
            continue
        if before:
            yield before
        before = (number, head, words, frame)
    if before:
        yield before


def _plain_lines(data: bytes) -> Iterator[tuple[int, str, list[bytes]]]:
    for number, found in enumerate(re.finditer(rb"[^\n]*\n|[^\n]+", data), 1):
        line = found.group()
        words = (line.split(b"#", 1)[0] if b"#" in line else line).split(None, _WORDS)[: _WORDS + 1]
        if words:
            head = words[0][:1000]
            yield number, head.decode("latin-1") if head.isascii() else decode(head), words


def _frame_number(head: str, words: list[bytes]) -> int | None:
    if len(words) == 1 and ((head.isdecimal() and head.isascii()) or re.fullmatch(r"-?[0-9]+(?:\.0*)?", head)):
        return int(float(head)) if len(head) < 15 else -1
    if len(words) == 2 and head.lower() in ("frame", "frame:", ":frame", "frame#") and words[1].isdigit():
        return int(words[1][:15])
    return None


def _bone(
    head: str, words: list[bytes], known: Mapping[str, object], lower: Mapping[str, str]
) -> tuple[str, list[bytes]]:
    """The bone that a line speaks of and its values: its name in any case, with a colon, or glued to the first number."""
    name = head if head in known else lower.get(head.lower().rstrip(":"), "")
    if name:
        return name, words[1:]
    glued = re.match(r"(.*[^-+.\d])([-+]?\.?\d.*)", head)
    if glued and (name := lower.get(glued.group(1).lower(), "")):
        return name, [glued.group(2).encode(), *words[1:]]
    return "", words[1:]


def _blocks(
    data: bytes, skeleton: AsfSkeleton, lines: array[int], notes: Notes
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Values (n, W) in the order of ``skeleton.dof`` with 0 for what is missing, and the mask (n, W) of that.

    ``lines`` gets the number of bones with values in each frame.
    """
    starts, width = {}, 0
    for name, dof in zip(skeleton.names, skeleton.dof, strict=True):
        starts[name] = (width, len(dof))
        width += len(dof)
    lower = {name.lower(): name for name in skeleton.names}
    dofs = dict(zip(skeleton.names, skeleton.dof, strict=True))
    blank = array("d", [np.nan]) * width
    row, values = blank[:], array("d")
    seen: set[str] = set()
    most = max(1, min(_AT_ONCE, (1 << 15) // max(width, 1)))
    begun = False
    wrong = complete = 0
    for number, head, words, frame in _motion_lines(data):
        if frame is not None:
            if begun:
                values.extend(row)
                lines.append(len(seen))
            begun, row, seen = True, blank[:], set()
            if len(values) >= most * width and width:
                yield _block(values, width)
                values = array("d")
            continue
        if head.startswith(":") or not begun:
            continue
        name, given = _bone(head, words, starts, lower)
        if not name:
            continue
        start, length = starts[name]
        found = _split(given, length)
        if len(found) == 3 > length > 0 and (turns := _turns_of_three(dofs[name])):
            found = [found[k] for k in turns]
            notes.add(f"three numbers for {length} degrees of freedom; taken as rx ry rz", f"bone {short(name)}")
        numbers = [parse_number(word) for word in found]
        if name in seen:
            notes.add("named twice in one frame; the first was taken", f"line {number}, bone {short(name)}")
        elif len(numbers) != length or None in numbers:
            wrong += 1
            got = b" ".join(given)[:60].decode("latin-1")
            what = f"expected {length} numbers, got {short(got, 40)!r}; filled in"
            notes.add(what, f"line {number}, bone {short(name)}")
        else:
            row[start : start + length] = array("d", [n for n in numbers if n is not None])
            complete += 1
        seen.add(name)
        if wrong > 200 and wrong > complete:
            raise ValueError(f"{notes.source}, line {number}: too much of this file does not fit the skeleton")
    if wrong and not complete:
        raise ValueError(f"{notes.source}: no line holds the numbers that the skeleton asks for; is it the right .asf?")
    values.extend(row)
    lines.append(len(seen))
    yield _block(values, width)


def _turns_of_three(dof: tuple[str, ...]) -> list[int]:
    """Places of a bone's degrees of freedom among rx ry rz; none where one is no turn."""
    return ["xyz".index(d[1]) for d in dof] if all(d.startswith("r") for d in dof) else []


def _block(values: array[float], width: int) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(values, dtype=np.float64).reshape(-1, width)
    missing = ~(np.abs(table) < MAX_VALUE)
    table[missing] = 0.0
    return table, missing


def _repaired(bad: np.ndarray, lost: np.ndarray, names: tuple[str, ...], notes: Notes) -> tuple[int, ...]:
    """The frames in which something was filled in; they are noted with the first of their bones."""
    frames = np.flatnonzero(bad.any(axis=1) | lost.any(axis=1)).tolist()
    for frame in frames:
        hit = np.flatnonzero(bad[frame])
        bone = names[hit[0]] if len(hit) and not lost[frame].any() else names[0]
        notes.add("values missing; filled in from the neighbouring frames", f"frame {frame + 1}, bone {short(bone)}")
    return tuple(frames)


def _split(words: list[bytes], length: int) -> list[bytes]:
    """Words of a bone's line; glued numbers (1.5-2.3) are taken apart and decimal commas read where that fits."""
    if len(words) == length:
        if b"," not in b"".join(words):
            return words
        return [word.replace(b",", b".") for word in words]
    return re.sub(rb"(?<=[\d.])([-+])", rb" \1", b" ".join(words)[:1000]).split()
