# SPDX-License-Identifier: GPL-3.0-or-later
"""One motion file to one part on disk: read, cleaned, cut into clips and converted to poses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core.contacts import TREMBLE
from ...core.files import whole_file
from ...ik import context
from ...motion import cleaning, pose_set
from ...motion.clip import DOUBTFUL_AXIS, Clip, clip_tremble, figures, without_figure
from ...rigs import levelling, retarget, rig_body, sanity
from ...rigs.roles import Roles
from ..text import Notes
from .floors import floor_of
from .options import ImportOptions, given_roles
from .own_rig import OwnPoses, on_skeleton, own_poses, own_skeleton, renamed
from .reports import FileReport, why_nothing
from .sources import read_clip


def import_file(path: Path, options: ImportOptions, part: Path) -> FileReport:
    """Read, clean and convert one file; write its poses to ``part`` (npz, whole or not at all) and return the report.

    Anything wrong with the file is reported, not raised. Raises OSError if ``part`` cannot be written.
    """
    arrays: dict[str, np.ndarray] = {}
    try:
        clip = read_clip(path, up_axis=options.up_axis, unit=options.unit, fps=options.source_fps)
        report, arrays = _convert(path, clip, options)
    except (ValueError, OSError) as error:
        report = FileReport(str(path), False, reason=_one_line(error))
    except MemoryError:
        report = FileReport(str(path), False, reason=f"{path.name}: not enough memory for this file")
    except Exception as error:  # a bug must not cost the hours spent on other files; the report shows it
        reason = f"{path.name}: {type(error).__name__}: {_one_line(error)} (a bug in this program, please report it)"
        report = FileReport(str(path), False, reason=reason)
    members: dict[str, Any] = {"report": _json_array(asdict(report)), **arrays}
    with whole_file(part) as out:
        np.savez(out, **members)
    return report


def pieces_of(path: Path, clip: Clip, options: ImportOptions) -> tuple[list[Clip], list[cleaning.Findings], list[str]]:
    """The figures of a clip, cleaned and cut as ``options`` say; the findings in each figure; and warnings."""
    pieces, found, warnings = pieces_with_roles(path, clip, options)
    return [piece for piece, _ in pieces], found, warnings


def pieces_with_roles(
    path: Path, clip: Clip, options: ImportOptions
) -> tuple[list[tuple[Clip, Roles]], list[cleaning.Findings], list[str]]:
    """Same as :func:`pieces_of`, each piece with its roles, given or found, which take longer to find than all else."""
    pieces: list[tuple[Clip, Roles]] = []
    found: list[cleaning.Findings] = []
    doubts = Notes(path.name)
    everyone = figures(clip)
    left_out = without_figure(clip, everyone)
    if left_out:
        doubts.add(f"{', '.join(left_out)}: too few joints for a figure, such as a prop; left out")
    for figure in (cleaning.cut(one, min(options.skip, one.frames), one.frames) for one in everyone):
        if options.clean:
            own, findings = cleaning.clean(figure)
        else:
            own = [figure] if figure.frames else []
            findings = cleaning.measured(figure, own)
        for doubt in findings.doubts:
            doubts.add(doubt)
        if not options.clean and (held := cleaning.held_note(figure)):
            doubts.add(f"{held}; import without --raw for the true rate")
        checked = [_without_faults(path, piece, options, doubts) for piece in own]
        _doubt_tremble(
            [faults.tremble for _, faults in checked], [clip_tremble(piece) for piece in own], options, doubts
        )
        sound = [one for parts, _ in checked for one in parts]
        pieces += sound
        found.append(replace(findings, frames=sum(piece.frames for piece, _ in sound), parts=len(sound)))
    return pieces, found, [*clip.warnings, *doubts.sentences()]


def _doubt_tremble(trembles: list[float], of_joints: list[float], options: ImportOptions, doubts: Notes) -> None:
    """Note the largest of the trembles, of all joints or of the feet alone, unless a low-pass was asked for."""
    largest = max(trembles, default=0.0)
    if not largest or options.low_pass is not None:
        return
    advice = "try --low-pass 6 (Low-Pass in Blender)"
    if any(of_joints):
        doubts.add(f"this motion trembles by {max(of_joints):.1f} degrees a joint from frame to frame; {advice}")
    else:
        size = f"{1000 * TREMBLE.at_feet * largest:.0f} mm"
        doubts.add(f"the feet tremble by {size} from frame to frame, while the rest of the body does not; {advice}")


def _without_faults(
    path: Path, piece: Clip, options: ImportOptions, doubts: Notes
) -> tuple[list[tuple[Clip, Roles]], sanity.Faults]:
    """The piece, or what is left of it without the frames that show faults of the capture, and its roles; and the faults.

    Doubts are noted, and the pieces remember how much they tremble, because a filter and another rate hide it.
    """
    roles = given_roles(piece, options) or rig_body.clip_roles(piece)
    for note in roles.notes if roles.humanoid else ():
        doubts.add(note)
    slope = levelling.find_slope(piece, roles)
    if slope.sentence():
        place = "" if piece.name == path.stem else f"clip {piece.name}"
        undone = "; undone" if options.level else ", or stairs, or a slope; --level (Level in Blender) undoes it"
        doubts.add(slope.sentence() + undone, place)
        piece = levelling.levelled(piece, slope) if options.level else piece
    faults = sanity.find_faults(piece, roles)
    piece = replace(piece, tremble=faults.tremble)
    if faults.floor:
        doubts.add(faults.floor, "" if piece.name == path.stem else f"clip {piece.name}")
    bad = faults.bad()
    if not bad.any():
        return [(piece, roles)], faults
    what = f"faults of the capture: {'; '.join(faults.sentences())}. {np.count_nonzero(bad)} of {len(bad)} frames show them"
    place = "" if piece.name == path.stem else f"clip {piece.name}"
    if options.leave_out_faults:
        doubts.add(f"{what} and were left out", place)
        return [(part, roles) for part in cleaning.without_frames(piece, bad)], faults
    doubts.add(f"{what}; --leave-out-faults (Leave Out Faults in Blender) leaves them out", place)
    return [(piece, roles)], faults


def smoothed(path: Path, piece: Clip, options: ImportOptions) -> tuple[Clip, list[str]]:
    """A piece filtered and resampled as ``options`` say, and warnings."""
    warnings = []
    if options.low_pass is not None and piece.frames >= 4:
        if options.low_pass < piece.fps / 2:
            piece = cleaning.low_pass(piece, options.low_pass)
        else:
            warnings.append(
                f"{path.name}: not filtered; a low-pass at {options.low_pass:g} Hz needs more than "
                f"{piece.fps:g} frames per second"
            )
    return (piece if options.fps is None else cleaning.resample(piece, options.fps)), warnings


@dataclass(frozen=True)
class _ClipSummary:
    name: str
    frames: int
    joints: int
    contact: np.ndarray
    """Share of frames in which each foot is on the ground."""


def _convert(path: Path, clip: Clip, options: ImportOptions) -> tuple[FileReport, dict[str, np.ndarray]]:
    """The report of one file, and its clips as members of a part."""
    pieces, found, warnings = pieces_with_roles(path, clip, options)
    arrays: dict[str, np.ndarray] = {}
    clips: list[_ClipSummary] = []
    axis_known = DOUBTFUL_AXIS not in " ".join(clip.warnings)
    notes = Notes(path.name)
    for n, (piece, roles) in enumerate(pieces):
        piece, doubts = smoothed(path, piece, options)
        warnings += doubts
        about: dict[str, Any] = {"clip": piece.name, "fps": piece.fps} | asdict(floor_of(piece, roles))
        if options.rig == "reference":
            rig, rot, root_pos = retarget.to_reference(piece, roles)
            poses = pose_set.make(rig, rot, root_pos, np.zeros(len(rot), int), [piece.name], clip_fps=piece.fps)
            arrays |= {f"rot{n}": poses.rot, f"root_pos{n}": poses.root_pos}
        else:
            own = _named(own_poses(piece, roles), options)
            for note in own.notes:
                notes.add(note, piece.name if len(pieces) > 1 else "")
            rig = own_skeleton(own, piece.up_axis, piece.unit)
            poses = on_skeleton(own, rig, piece.up_axis, piece.unit, piece.name, piece.fps)
            about |= {"names": own.names, "effectors": own.effectors, "feet": own.feet}
            about |= {"up_axis": piece.up_axis, "unit": piece.unit, "axis_known": axis_known}
            for what in ("parents", "heads", "directions", "rot", "root_pos"):
                arrays[f"{what}{n}"] = getattr(own, what)
        arrays[f"about{n}"] = _json_array(about)
        contact = context.prepare(poses).grounded.mean(axis=0)
        clips.append(_ClipSummary(piece.name, poses.frames, poses.skeleton.count, contact))
    return _report(path, clip, clips, found, (*warnings, *notes.sentences())), arrays


def _named(own: OwnPoses, options: ImportOptions) -> OwnPoses:
    """``own`` without name prefixes, where that is asked for and names stay unique."""
    short = tuple(name.rsplit(":", 1)[-1].strip() for name in own.names)
    return renamed(own, short) if options.strip_prefix and all(short) and len(set(short)) == len(short) else own


def _report(
    path: Path, clip: Clip, clips: Sequence[_ClipSummary], found: Sequence[cleaning.Findings], warnings: Sequence[str]
) -> FileReport:
    feet = min((len(made.contact) for made in clips), default=0)
    contact = np.mean([made.contact[:feet] for made in clips], axis=0).tolist() if feet else []
    kept = sum(made.frames for made in clips)
    return FileReport(
        path=str(path),
        read=True,
        reason="" if kept else why_nothing(clip.frames),
        clips=tuple(made.name for made in clips),
        joints=clips[-1].joints if clips else len(clip.names),
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
        held=sum(f.held for f in found),
        repaired=len(clip.repaired),
        contact=tuple(round(share, 4) for share in contact),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _json_array(value: object) -> np.ndarray:
    """A value as JSON in bytes, to keep in an npz."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
