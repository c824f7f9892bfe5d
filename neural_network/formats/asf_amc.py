# SPDX-License-Identifier: GPL-3.0-or-later
"""Acclaim skeletons (.asf) and motions (.amc) to Clip.

A bone in an ASF is a joint at its near end and a segment along its ``direction``. Its motion M is a rotation about axes C,
which the file gives in world directions, so its rotation relative to its parent is C M C^-1, and a child's joint is at the
far end of the segment. That is a Clip whose rest axes are the world's (source: Acclaim's own description of the format, as
kept with the CMU database).
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from ..core.files import read_bytes
from ..motion.clip import Clip, body_height, checked_up_axis, guess_unit, guess_up_axis, helper_notes
from .amc import FALLBACK_FPS, read_motion
from .asf import AsfSkeleton, parse_skeleton, read_skeleton
from .text import Notes

__all__ = ["FALLBACK_FPS", "AsfSkeleton", "find_skeleton", "parse", "parse_skeleton", "read", "read_skeleton"]

_INCH = 0.0254  # [m]
_PLAUSIBLE = (0.3, 4.0)  # [m] heights for which the unit in the file is used


def read(
    asf: str | Path | None,
    amc: str | Path,
    *,
    up_axis: str | None = None,
    unit: float | None = None,
    fps: float | None = None,
) -> Clip:
    """Read one take: the motion ``amc`` on the skeleton ``asf``.

    Args:
        asf: the skeleton file, or None to find it beside the motion (see ``find_skeleton``).
        amc: the motion file.
        up_axis: one of ``motion.clip.UP_AXES``, or None to detect whether it is Y or Z.
        unit: length of one file unit [m], or None for the skeleton's own unit.
        fps: frames per second; AMC files rarely name it, then 120 is assumed with a warning.

    Raises ValueError with file, line and bone if a file cannot be understood, OSError if it cannot be opened.
    """
    amc = Path(amc)
    data = read_bytes(amc, "motion (.amc)")
    if asf is None:
        asf = find_skeleton(amc, data[:400])
    return parse(
        read_bytes(asf, "a skeleton (.asf)"),
        data,
        amc.stem,
        Path(asf).name,
        amc.name,
        up_axis=up_axis,
        unit=unit,
        fps=fps,
    )


def find_skeleton(amc: str | Path, head: bytes = b"") -> Path:
    """The .asf that belongs to an .amc, by the usual naming schemes.

    Tried in turn, ignoring case: the same name (walk.amc, walk.asf); the part before the take (02_01.amc, 02.asf); the
    name without the take (07_05-walk.amc, 07-walk.asf); the name mentioned in ``head``, the motion's first line; the
    longest name that the motion's name begins with; the only .asf in the folder. Raises ValueError if none fits.
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
    """Read one take from bytes; messages call the files ``asf_source`` and ``amc_source``. Otherwise the same as ``read``."""
    given_up = checked_up_axis(up_axis)
    skeleton = parse_skeleton(asf, asf_source)
    asf_notes, notes = Notes(asf_source), Notes(amc_source)
    clip, rate = read_motion(amc, skeleton, len(asf) + len(amc), notes)
    clip = replace(clip, name=name, fps=fps or rate or FALLBACK_FPS)
    if not fps and not rate:
        notes.add(f"the file names no rate; {FALLBACK_FPS:g} frames per second were assumed")
    for what, place in helper_notes(clip):
        asf_notes.add(what, place)
    up, note = guess_up_axis(clip)
    if given_up is None and note:
        notes.add(note)
    clip = replace(clip, up_axis=given_up or up)
    if unit is None:
        unit = _INCH / skeleton.length
        height = body_height(clip) * unit
        if not _PLAUSIBLE[0] <= height <= _PLAUSIBLE[1]:
            guessed, note = guess_unit(clip)
            asf_notes.add(
                f"with the unit length {skeleton.length:g} the figure would be {height:.3g} m tall; "
                f"{guessed:.4g} m per unit were used instead"
            )
            unit = guessed
    warnings = (*skeleton.warnings, *asf_notes.sentences(), *notes.sentences())
    return replace(clip, unit=float(unit), warnings=warnings)
