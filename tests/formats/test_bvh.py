# SPDX-License-Identifier: GPL-3.0-or-later
"""BVH: files agree with a second, plain reading of the format; odd files are handled; what is written reads back."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import EXACT, counted_calls, mocap_clip, slow_except

from neural_network.formats import bvh
from neural_network.formats.text import count_words, parse_number, parse_words, read_numbers
from neural_network.motion.clip import Clip, body_height, body_joints, global_pose, guess_unit, rest_positions

ODD = Path(__file__).resolve().parents[1] / "odd"
POSITIONS = 1e-4
"""[body heights] by which joint positions may differ from the plain forward kinematics below."""

Plain = tuple[list[str], list[list[float]], list[int], list[list[str]], list[list[float]]]


# ---------------------------------------------------------------- a plain reading of BVH, to compare with


def plain_bvh(text: str) -> Plain:
    """Names, offsets, parents, channels and rows of a well-formed BVH, word by word, knowing nothing of the package."""
    names: list[str] = []
    offsets: list[list[float]] = []
    parents: list[int] = []
    channels: list[list[str]] = []
    stack: list[int] = []
    lines = [line.strip() for line in text.replace("\r", "\n").split("\n")]
    end = False
    at = 0
    for at, line in enumerate(lines):  # noqa: B007 - used below
        words = line.split()
        if not words:
            continue
        if words[0] in ("ROOT", "JOINT"):
            names.append(line.split(None, 1)[1].strip())
            parents.append(stack[-1] if stack else -1)
            offsets.append([0.0, 0.0, 0.0])
            channels.append([])
            stack.append(len(names) - 1)
        elif words[0] == "End":
            end = True
            stack.append(-1)
        elif words[0] == "}":
            stack.pop()
            end = False
        elif words[0] == "OFFSET" and not end:
            offsets[stack[-1]] = [float(word) for word in words[1:4]]
        elif words[0] == "CHANNELS":
            channels[stack[-1]] = words[2:]
        elif words[0] == "MOTION":
            break
    while not lines[at].startswith("Frame Time"):
        at += 1
    rows = [[float(word) for word in line.split()] for line in lines[at + 1 :] if line]
    return names, offsets, parents, channels, rows


def times(a: list[list[float]], b: list[list[float]]) -> list[list[float]]:
    return [[sum(a[i][k] * b[k][j] for k in range(3)) for j in range(3)] for i in range(3)]


def turn(axis: str, degrees: float) -> list[list[float]]:
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    if axis == "X":
        return [[1, 0, 0], [0, c, -s], [0, s, c]]
    if axis == "Y":
        return [[c, 0, s], [0, 1, 0], [-s, 0, c]]
    return [[c, -s, 0], [s, c, 0], [0, 0, 1]]


def plain_positions(plain: Plain, frame: int, differences: bool = False) -> np.ndarray:
    """Joint positions (J, 3) of one frame by plain forward kinematics in lists.

    With ``differences``, positions below the root are added to the OFFSET instead of replacing it.
    """
    names, offsets, parents, channels, rows = plain
    row, column = rows[frame], 0
    turned: list[list[list[float]]] = []
    placed: list[list[float]] = []
    for j in range(len(names)):
        offset, local = list(offsets[j]), [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]
        for channel in channels[j]:
            value, column = row[column], column + 1
            if channel.endswith("position"):
                axis = "XYZ".index(channel[0])
                offset[axis] = value + (offset[axis] if differences and parents[j] >= 0 else 0.0)
            else:
                local = times(local, turn(channel[0], value))
        if parents[j] < 0:
            turned.append(local)
            placed.append(offset)
        else:
            above = turned[parents[j]]
            turned.append(times(above, local))
            placed.append([placed[parents[j]][i] + sum(above[i][k] * offset[k] for k in range(3)) for i in range(3)])
    return np.array(placed)


def assert_same_positions(text: str, clip: Clip, frames: int = 3, differences: bool = False) -> None:
    plain = plain_bvh(text)
    assert list(clip.names) == plain[0]
    assert clip.frames == len(plain[4])
    height = body_height(clip)
    for frame in np.unique(np.linspace(0, clip.frames - 1, frames).astype(int)):
        ours = global_pose(clip, np.array([frame]))[1][0]
        assert np.abs(ours - plain_positions(plain, int(frame), differences)).max() < POSITIONS * height


def odd(name: str) -> Clip:
    return bvh.read(next(ODD.glob(f"{name}*.bvh")))


BASE = (ODD / "01_mixed_rotation_orders.bvh").read_text()
HEAD, REST = BASE.split("MOTION\n")
ROWS = REST.split("0.0333333\n")[1]
HEADING = "MOTION\nFrames: 6\nFrame Time: 0.0333333\n"


# ---------------------------------------------------------------- real files


@pytest.mark.slow
def test_every_motion_capture_file_agrees_with_plain_forward_kinematics(mocap: Path) -> None:
    files = sorted((mocap / "bvh").rglob("*.bvh"))
    assert len(files) >= 90
    for path in files:
        clip = mocap_clip(path)
        differences = "differences from the OFFSETs" in " ".join(clip.warnings)
        assert differences == (path.name == "tpose_singleframe.bvh")
        assert_same_positions(path.read_text(), clip, 2, differences)


@pytest.mark.slow
def test_up_axis_unit_and_frames_are_detected_as_in_the_manifest(mocap: Path) -> None:
    import csv

    metres = {"metres": 1.0, "cm-like": 0.01, "CMU length": 0.0254 / 0.45, "decimetres": 0.1}
    with open(mocap / "MANIFEST.csv", newline="", encoding="utf-8") as listed:
        rows = [row for row in csv.DictReader(listed) if row["format"] == "bvh"]
    assert rows
    for row in rows:
        clip = mocap_clip(mocap / row["path"])
        assert clip.up_axis == row["up_axis"], row["path"]
        assert clip.frames == int(row["frames"]), row["path"]
        assert len(clip.names) == int(row["joints"]), row["path"]
        assert clip.fps == pytest.approx(float(row["fps"]), rel=1e-4), row["path"]
        for words, unit in metres.items():
            if row["units"].startswith(words):
                assert clip.unit == pytest.approx(unit), row["path"]


# ---------------------------------------------------------------- the odd files, by kind

SAME_AS_PLAIN = ("01", "02", "03", "04", "08", "09", "10", "13", "18", "22", "23", "25", "30", "32", "33", "34", "36")


@pytest.mark.parametrize("number", [*SAME_AS_PLAIN, "37", "39", "40", "42"])
def test_an_odd_but_valid_file_agrees_with_plain_forward_kinematics(number: str) -> None:
    path = next(ODD.glob(f"{number}_*.bvh"))
    assert_same_positions(path.read_text(), bvh.read(path), 10)


@pytest.mark.parametrize("number", [*SAME_AS_PLAIN[:3], "09", "10", "13", "25", "32", "33", "36", "37", "39"])
def test_valid_files_give_no_warning(number: str) -> None:
    assert odd(number).warnings == ()


def test_every_odd_file_gives_finite_numbers_and_a_person_of_plausible_height() -> None:
    for path in sorted(ODD.glob("*.bvh")):
        clip = bvh.read(path)
        assert np.isfinite(clip.rotations).all()
        assert np.isfinite(clip.root_pos).all()
        assert np.abs(np.linalg.norm(clip.rotations, axis=-1) - 1).max(initial=0) < EXACT
        assert 1.1 < body_height(clip) * clip.unit < 1.6, path.name
        assert clip.up_axis == ("Z" if "z_up" in path.name else "Y"), path.name


def test_moving_positions_are_kept_and_reported() -> None:
    clip = odd("04")
    joint = clip.names.index("LArm")
    assert list(clip.translations) == [joint]
    assert np.ptp(clip.translations[joint], axis=0).max() > 1
    assert any("LArm" in warning and "move" in warning for warning in clip.warnings)


def test_constant_positions_equal_to_the_offset_are_not_kept() -> None:
    assert odd("03").translations == {}


def test_joints_with_few_channels_rotate_about_those_axes_only() -> None:
    clip = odd("06")
    by_count = {
        name: int(np.sum(np.abs(clip.rotations[:, i, 1:]).max(axis=0) > 0)) for i, name in enumerate(clip.names)
    }
    assert 0 in by_count.values()
    assert 1 in by_count.values()


def test_a_root_without_positions_stays_at_its_offset() -> None:
    clip = odd("08")
    assert np.array_equal(clip.root_pos, np.broadcast_to(clip.offsets[0], clip.root_pos.shape))


def test_whole_names_are_kept() -> None:
    assert "mixamorig:Hips" in odd("09").names
    assert any(" L Thigh" in name for name in odd("10").names)
    assert any(not name.isascii() for name in odd("11").names)


def test_a_brace_on_the_same_line_is_not_part_of_the_name() -> None:
    assert all("{" not in name for name in odd("15").names)
    assert np.allclose(odd("15").rotations, odd("13").rotations)


def test_frames_wrapped_over_lines_are_counted_by_value() -> None:
    assert odd("16").frames == 4
    assert any("wrapped" in warning and "line 100" in warning for warning in odd("16").warnings)


@pytest.mark.parametrize(("number", "frames", "expected"), [("18", 5, "4 frames"), ("19", 4, "9 frames")])
def test_all_rows_are_read_whatever_the_header_counts(number: str, frames: int, expected: str) -> None:
    clip = odd(number)
    assert clip.frames == frames
    assert any(expected in warning for warning in clip.warnings)


def test_no_frames_give_the_rest_pose_and_one_frame_a_pose() -> None:
    assert odd("21").frames == 0
    assert any("no motion to learn from" in warning for warning in odd("21").warnings)
    assert odd("22").frames == 1
    assert any("pose" in warning for warning in odd("22").warnings)


def test_a_frame_time_of_zero_falls_back_with_a_warning() -> None:
    assert odd("23").fps == bvh.FALLBACK_FPS
    assert any("frame time" in warning for warning in odd("23").warnings)


def test_numbers_that_are_not_finite_are_reported_and_interpolated() -> None:
    clip = odd("26")
    assert clip.repaired == (2, 3, 4)
    for frame, joint in ((3, "Head"), (4, "Hips"), (5, "LFore")):
        assert any(f"frame {frame}, joint {joint}" in warning for warning in clip.warnings)
    assert clip.root_pos[3, 0] == pytest.approx((clip.root_pos[2, 0] + clip.root_pos[4, 0]) / 2)


def test_decimal_commas_are_read_with_a_warning() -> None:
    clip = odd("28")
    assert clip.fps == 30
    assert any("comma" in warning for warning in clip.warnings)
    assert np.allclose(clip.rotations, odd("13").rotations)


def test_an_unusual_rate_is_used_but_reported() -> None:
    clip = odd("40")
    assert clip.fps == 2
    assert any("2 frames per second" in warning for warning in clip.warnings)


def test_a_distant_helper_does_not_count_for_the_height() -> None:
    clip = odd("42")
    assert not body_joints(clip).all()
    assert body_height(clip) == pytest.approx(body_height(odd("13")), rel=0.05)


def test_a_distant_helper_is_reported_with_its_counterpart() -> None:
    assert any("helper" in warning and "on the other side" in warning for warning in odd("42").warnings)


@pytest.mark.parametrize(
    ("factor", "unit"), [(1, 0.01), (0.01, 1.0), (10, 0.001), (1 / 2.54, 0.0254), (1 / 30.48, 0.3048)]
)
def test_the_unit_is_detected_from_the_height(factor: float, unit: float) -> None:
    clip = odd("13")
    tips = {i: tip * factor for i, tip in clip.tips.items()}
    scaled = Clip(**{**vars(clip), "offsets": clip.offsets * factor, "root_pos": clip.root_pos * factor, "tips": tips})
    assert guess_unit(scaled)[0] == pytest.approx(unit)


def test_the_same_figure_in_metres_and_centimetres_is_equally_tall() -> None:
    for number in ("13", "34", "36"):
        assert body_height(odd(number)) * odd(number).unit == pytest.approx(1.4, rel=0.01)


# ---------------------------------------------------------------- oddities of our own making

Maker = Callable[[], str | bytes]
READ: dict[str, tuple[Maker, str]] = {
    # name: (file, words that a warning must hold; "" for no warning at all)
    "UTF-16 with a mark": (lambda: BASE.encode("utf-16"), ""),
    "UTF-16 without a mark": (lambda: BASE.encode("utf-16-be"), ""),
    "UTF-32": (lambda: BASE.encode("utf-32"), ""),
    "carriage returns only": (lambda: BASE.replace("\n", "\r"), ""),
    "two carriage returns and a line feed": (lambda: BASE.replace("\n", "\r\r\n"), ""),
    "no line end after the last row": (lambda: BASE.rstrip("\n"), ""),
    "Ctrl-Z at the end": (lambda: BASE + "\x1a", ""),
    "a few zero bytes at the end": (lambda: BASE + "\0\0\0\0", "zero bytes"),
    "all in capitals": (lambda: BASE.upper(), ""),
    "all in small letters": (lambda: BASE.lower(), ""),
    "no indents": (lambda: BASE.replace("  ", ""), ""),
    "no word HIERARCHY": (lambda: BASE.replace("HIERARCHY\n", ""), ""),
    "no word MOTION": (lambda: BASE.replace("MOTION\n", ""), "MOTION is missing"),
    "no heading at all before the rows": (lambda: HEAD + ROWS, "MOTION is missing"),
    "no frame time": (lambda: HEAD + "MOTION\nFrames: 6\n" + ROWS, "no frame time"),
    "no number of frames": (lambda: HEAD + "MOTION\nFrame Time: 0.0333333\n" + ROWS, "number of frames is missing"),
    "frame time before frames": (lambda: HEAD + "MOTION\nFrame Time: 0.0333333\nFrames: 6\n" + ROWS, ""),
    "equals signs": (lambda: BASE.replace("Frames:", "Frames =").replace("Frame Time:", "FrameTime ="), ""),
    "a negative frame time": (lambda: BASE.replace("Time: 0", "Time: -0"), "negative"),
    "a frame time that is no number": (lambda: BASE.replace("0.0333333", "nan"), "not a number"),
    "a frame time in milliseconds": (lambda: BASE.replace("0.0333333", "33.3333 ms"), ""),
    "frames a second instead": (lambda: BASE.replace("Frame Time: 0.0333333", "FPS: 30"), ""),
    "a huge number of frames": (lambda: BASE.replace("Frames: 6", "Frames: 999999999999"), "holds 6"),
    "a negative number of frames": (lambda: BASE.replace("Frames: 6", "Frames: -3"), "not a count"),
    "comments": (lambda: BASE.replace("MOTION", "# made by hand\nMOTION // rows follow"), ""),
    "comments among the rows": (lambda: HEAD + HEADING + "# first\n" + ROWS, ""),
    "commas between numbers": (lambda: HEAD + HEADING + ROWS.replace(" ", ","), "separators"),
    "commas and blanks between numbers": (lambda: HEAD + HEADING + ROWS.replace(" ", ", "), "separators"),
    "semicolons between decimal commas": (lambda: HEAD + HEADING + ROWS.replace(".", ",").replace(" ", ";"), "comma"),
    "decimal commas everywhere": (lambda: (HEAD + HEADING + ROWS).replace(".", ","), "comma"),
    "Fortran exponents": (lambda: HEAD + HEADING + ROWS.replace("0.0000", "0.0000D+00"), "Fortran"),
    "numbers glued at their signs": (lambda: HEAD + HEADING + ROWS.replace(" -", "-"), "without a space"),
    "Unicode minus signs": (lambda: HEAD + HEADING + ROWS.replace("-", "\u2212"), "minus"),
    "no-break spaces": (lambda: (HEAD + HEADING).replace(" ", "\u00a0") + ROWS, "no-break"),
    "blanks by the thousand": (lambda: HEAD + HEADING + ROWS.replace(" ", " " * 3000), ""),
    "all rows in one line": (lambda: HEAD + HEADING + ROWS.replace("\n", " "), "values were counted"),
    "the whole file in one line": (lambda: BASE.replace("\n", " "), "values were counted"),
    "one value a line": (lambda: HEAD + HEADING + ROWS.replace(" ", "\n"), "wrapped"),
    "a second take behind the first": (lambda: BASE + BASE, "second HIERARCHY"),
    "an opening brace missing": (lambda: BASE.replace("{", "", 1), "brace"),
    "a closing brace missing": (lambda: BASE.replace("}\nMOTION", "MOTION"), "1 closing brace missing"),
    "a closing brace too many": (lambda: BASE.replace("MOTION", "}\nMOTION"), "too many"),
    "CHANNELS says one more than it names": (lambda: BASE.replace("CHANNELS 3", "CHANNELS 4", 1), "CHANNELS says 4"),
    "CHANNELS without a number": (lambda: BASE.replace("CHANNELS 3", "CHANNELS", 1), "without a number"),
    "channel names with underscores": (lambda: BASE.replace("position", "_Position"), ""),
    "an OFFSET with four numbers": (
        lambda: BASE.replace("OFFSET 0.0000 11.0000", "OFFSET 0.0000 11.0000 0.0000", 1),
        "4",
    ),
    "EndSite in one word": (lambda: BASE.replace("End Site", "EndSite"), ""),
    "End Site with a name": (lambda: BASE.replace("End Site", "End Site tip"), ""),
    "Site alone": (lambda: BASE.replace("End Site", "Site"), ""),
    "words before HIERARCHY": (lambda: "exported by hand\n" + BASE, "not recognised"),
    "two byte-order marks": (lambda: b"\xef\xbb\xbf" * 2 + BASE.encode(), ""),
    "UTF-16 with a mark and carriage returns": (lambda: BASE.replace("\n", "\r").encode("utf-16"), ""),
    "line ends of three kinds": (lambda: BASE.replace("}\n", "}\r\n").replace("{\n", "{\r"), ""),
    "more zero bytes than text": (lambda: BASE.encode() + bytes(20_000), "zero bytes at the end"),
    "braces on the line of the name": (lambda: re.sub(r"\n\s*\{", "{", BASE), ""),
    "no opening brace at all": (lambda: BASE.replace("{", ""), "brace"),
    "End Sites without braces": (lambda: re.sub(r"Site\s*\{\s*(OFFSET.*)\n\s*\}", r"Site\n\1", BASE), "brace"),
    "End Sites without an OFFSET": (lambda: re.sub(r"(Site\s*\{)\s*OFFSET.*", r"\1", BASE), ""),
    "End Sites with no channels": (lambda: re.sub(r"(Site\s*\{\s*OFFSET.*)", r"\1\nCHANNELS 0", BASE), ""),
    "two End Sites to a joint": (
        lambda: re.sub(r"(End Site\s*\{\s*OFFSET.*\s*\})", r"\1\n\1", BASE),
        "second End Site",
    ),
    "channels before the OFFSET": (lambda: re.sub(r"(OFFSET.*)\s*(CHANNELS.*)", r"\2\n\1", BASE), ""),
    "colons behind the keywords": (lambda: re.sub(r"(OFFSET|CHANNELS|ROOT|JOINT)", r"\1:", BASE), ""),
    "channels called rotationX": (lambda: re.sub("([XYZ])(rotation|position)", r"\2\1", BASE), ""),
    "channels called rx and tx": (
        lambda: re.sub("([XYZ])([rp])[a-z]+", lambda m: m[2].replace("p", "t") + m[1].lower(), BASE),
        "",
    ),
    "channels called X_ROTATION": (lambda: re.sub("([XYZ])(rotation)", r"\1_ROTATION", BASE), ""),
    "a channel name to a line": (
        lambda: re.sub(r"CHANNELS \d .*", lambda m: m[0].replace(" ", "\n"), BASE),
        "",
    ),
    "scales on every joint": (
        lambda: re.sub(r"CHANNELS 3 (.*)", r"CHANNELS 6 \1 Xscale Yscale Zscale", HEAD) + HEADING + _scaled(),
        "Xscale",
    ),
    "words behind the channels": (lambda: BASE.replace("Yrotation", "Yrotation ok", 2), "after the channels"),
    "brackets around an OFFSET": (lambda: re.sub(r"OFFSET (.*)", r"OFFSET (\1)", BASE), ""),
    "a unit behind an OFFSET": (lambda: re.sub(r"(OFFSET .*)", r"\1 cm", BASE), "OFFSET has"),
    "brackets around the rows": (lambda: HEAD + HEADING + re.sub(r"(?m)^(.+)$", r"[\1]", ROWS), "brackets"),
    "numbered rows": (lambda: HEAD + HEADING + _numbered(), "numbered"),
    "rows that end with a semicolon": (lambda: HEAD + HEADING + ROWS.replace("\n", ";\n"), "separators"),
    "empty lines between the rows": (lambda: HEAD + HEADING + ROWS.replace("\n", "\n \n\n"), ""),
    "plus signs": (lambda: HEAD + HEADING + re.sub(r"(?m)(^| )(\d)", r"\1+\2", ROWS), ""),
    "more digits than a number keeps": (lambda: HEAD + HEADING + re.sub(r"\.(\d{4})", r".\g<1>" + "0" * 30, ROWS), ""),
    "exponents without a sign": (lambda: HEAD + HEADING + re.sub(r"\.(\d{4})", r".\1e0", ROWS), ""),
    "exponents glued at the signs": (
        lambda: HEAD + HEADING + re.sub(r"\.(\d{4})", r".\1E-00", ROWS).replace(" -", "-"),
        "without a space",
    ),
    "decimal commas between tabs": (lambda: HEAD + HEADING + ROWS.replace(".", ",").replace(" ", "\t"), "comma"),
    "a frame time with an exponent": (lambda: BASE.replace("0.0333333", "3.33333E-02"), ""),
    "a frame time with a comma": (lambda: BASE.replace("0.0333333", "0,0333333"), ""),
    "a number of frames with a dot": (lambda: BASE.replace("Frames: 6", "Frames: 6.0"), ""),
    "no blanks behind colons": (lambda: BASE.replace(": ", ":"), ""),
    "text behind the last row": (lambda: BASE + "exported by hand\n", "not a row of numbers"),
    "a joint called MOTION": (lambda: BASE.replace("JOINT Head", "JOINT MOTION"), ""),
    "a joint called End": (lambda: BASE.replace("JOINT Head", "JOINT End"), ""),
}


def _scaled() -> str:
    rows = [row.split() for row in ROWS.strip().split("\n")]
    threes = [" ".join([*row[:6], *(f"{' '.join(row[i : i + 3])} 1 1 1" for i in range(6, 48, 3))]) for row in rows]
    return "\n".join(threes)


def _numbered() -> str:
    return "\n".join(f"{n}: {row}" for n, row in enumerate(ROWS.strip().split("\n"), 1))


@pytest.mark.parametrize("name", slow_except(READ, *list(READ)[::3]))
def test_what_can_be_read_is_read_as_the_plain_file(name: str) -> None:
    make, expected = READ[name]
    made = make()
    clip = bvh.parse(made if isinstance(made, bytes) else made.encode(), "odd")
    wanted = bvh.parse(BASE.encode())
    assert len(clip.names) == len(wanted.names)
    assert clip.fps == 30
    assert np.allclose(clip.rotations, wanted.rotations)
    assert np.allclose(clip.root_pos, wanted.root_pos)
    if expected:
        assert any(expected in warning for warning in clip.warnings), clip.warnings
    else:
        assert clip.warnings == ()


REFUSED: dict[str, tuple[str | bytes, str]] = {
    "nothing": (b"", "empty"),
    "blanks only": (b" \r\n\t\n", "empty"),
    "zero bytes": (b"\0" * 500, "empty"),
    "other text": (b"hello\nworld\n" * 9, "not a BVH file"),
    "binary data": (bytes(range(256)) * 20, "HIERARCHY"),
    "an FBX file": (b"Kaydara FBX Binary  \0\x1a\0" + b"x" * 99, "Blender"),
    "a web page": (b"<!DOCTYPE html><html><body>404</body></html>", "web page"),
    "a zip archive": (b"PK\x03\x04" + b"\x07" * 99, "unpack"),
    "an ASF file": ((ODD / "mini.asf").read_bytes(), "ASF"),
    "HIERARCHY and nothing else": (b"HIERARCHY\n", "ROOT"),
    "an OFFSET of two numbers": (BASE.replace("0.0000 11.0000 0.0000", "0.0000 11.0000", 1), "line 8, joint Spine"),
    "an OFFSET of words": (BASE.replace("0.0000 11.0000 0.0000", "a b c", 1), "line 8, joint Spine"),
    "rows one value too long": (HEAD + HEADING + ROWS.replace("\n", " 7\n"), "line 100: expected 48 values"),
    "a first row cut off": (HEAD + HEADING + ROWS[:90], "expected 48 values"),
    "thousands marks": (HEAD + HEADING + ROWS.replace("89.1", "1,089.1"), "both a comma and a dot"),
    "hardly any number": (HEAD + HEADING + ROWS.replace("0.0000", "nan"), "finite"),
    "a joint below an End Site": (BASE.replace("OFFSET 0.0000 14.0000 0.0000", "JOINT a { }", 1), "End Site"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_in_words_with_file_and_place(name: str) -> None:
    made, expected = REFUSED[name]
    with pytest.raises(ValueError, match=r"walk\.bvh") as error:
        bvh.parse(made if isinstance(made, bytes) else made.encode(), "walk", source="walk.bvh")
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


def test_a_joint_that_never_has_a_number_stays_at_rest_and_costs_no_frames() -> None:
    rows = [row.split() for row in ROWS.strip().split("\n")]
    made = HEAD + HEADING + "\n".join(" ".join([*row[:6], "nan", "nan", "nan", *row[9:]]) for row in rows)
    clip = bvh.parse(made.encode(), "odd")
    assert clip.repaired == ()
    assert np.array_equal(clip.rotations[:, 1], np.tile([1.0, 0, 0, 0], (6, 1)))
    assert any("joint Spine" in warning and "at rest" in warning for warning in clip.warnings)


def test_a_row_that_begins_with_a_spreadsheet_error_is_not_a_comment() -> None:
    for word in ("#DIV/0!", "#N/A", "#NAME?", "#WERT!"):
        clip = bvh.parse((HEAD + HEADING + ROWS.replace("0.0000", word, 1)).encode(), "odd")
        assert clip.frames == 6
        assert clip.repaired == (0,)


def test_angles_beyond_a_full_turn_are_the_same_pose() -> None:
    rows = [row.split() for row in ROWS.strip().split("\n")]
    made = "\n".join(" ".join([*row[:3], *(f"{float(value) - 720:.4f}" for value in row[3:])]) for row in rows)
    wanted = bvh.parse(BASE.encode())
    clip = bvh.parse((HEAD + HEADING + made).encode())
    assert np.allclose(np.abs(np.sum(clip.rotations * wanted.rotations, axis=-1)), 1)


def test_equal_warnings_become_one_with_a_count() -> None:
    clip = bvh.parse(BASE.replace("{", "").encode(), "odd")
    (merged,) = (warning for warning in clip.warnings if "brace" in warning)
    assert "line 4, joint Hips" in merged
    assert "(20 times)" in merged
    odd = bvh.parse((HEAD + HEADING + "".join(f"{'word ' * 48}{n}x\n" for n in range(90)) + ROWS).encode(), "odd")
    assert len(odd.warnings) < 20
    assert any("more warnings like these" in warning or "times" in warning for warning in odd.warnings)


@pytest.mark.slow
def test_joints_without_channels_are_merged_only_if_they_would_fill_the_memory() -> None:
    hand = "JOINT f{0}\n{{\nOFFSET 0 {0} 0\nCHANNELS 0\nJOINT g{0}\n{{\nOFFSET 1 0 0\nCHANNELS 0\n}}\n}}\n"
    head = HEAD.replace("JOINT LFore", "".join(hand.format(n) for n in range(1, 21)) + "JOINT LFore")
    few = bvh.parse((head + HEADING + ROWS).encode(), "odd")
    assert len(few.names) == 15 + 40
    short = "\n".join(" ".join(f"{float(value):.0f}" for value in row.split()) for row in ROWS.strip().split("\n"))
    many = bvh.parse((head + HEADING + f"{short}\n" * 400).encode(), "odd")
    assert 15 <= len(many.names) < 55
    assert any("merged" in warning for warning in many.warnings)
    kept = [few.names.index(name) for name in many.names]
    every = bvh.parse((head + HEADING + short).encode(), "odd")
    assert np.abs(global_pose(many)[1][:6] - global_pose(every)[1][:, kept]).max() < 1e-9


@pytest.mark.parametrize(
    ("encoding", "name"),
    [("utf-8", "Hüfte"), ("latin-1", "Hüfte"), ("cp932", "センター"), ("cp932", "右足"), ("gb18030", "臀部")],
)
def test_names_are_decoded_in_every_encoding(encoding: str, name: str) -> None:
    assert bvh.parse(BASE.replace("Hips", name).encode(encoding)).names[0] == name


def test_equal_names_are_made_unique_and_missing_ones_are_invented() -> None:
    clip = bvh.parse(BASE.replace("Spine", "Hips").encode())
    assert clip.names[:2] == ("Hips", "Hips.001")
    assert any("twice" in warning and "line 6" in warning for warning in clip.warnings)
    assert bvh.parse(BASE.replace("JOINT Spine", "JOINT").encode()).names[1] == "joint1"


def test_a_cut_off_last_frame_is_dropped_with_a_warning() -> None:
    clip = bvh.parse((HEAD + HEADING + ROWS[:-60]).encode(), "cut")
    assert clip.frames == 5
    assert any("dropped" in warning and "line 105" in warning for warning in clip.warnings)


def test_one_row_of_the_wrong_length_is_interpolated_from_its_neighbours() -> None:
    rows = ROWS.split("\n")
    rows[2] = rows[2][10:]
    clip = bvh.parse((HEAD + HEADING + "\n".join(rows)).encode(), "gap")
    assert clip.frames == 6
    assert clip.repaired == (2,)
    assert any("line 102" in warning for warning in clip.warnings)


def test_a_word_among_the_numbers_is_reported_with_line_and_joint() -> None:
    clip = bvh.parse((HEAD + HEADING + ROWS.replace("89.1000", "tall", 1)).encode(), "word")
    assert any("line 100, joint Hips" in warning and "tall" in warning for warning in clip.warnings)
    assert clip.repaired == (0,)


def test_channel_counts_are_used_if_the_rows_agree_with_them() -> None:
    text = BASE.replace("CHANNELS 3 Zrotation Xrotation Yrotation", "CHANNELS 4 Zrotation Xrotation Yrotation", 1)
    wide = []
    for row in ROWS.strip().split("\n"):
        words = row.split()
        wide.append(" ".join(words[:9] + ["5"] + words[9:]))
    clip = bvh.parse((text.split("MOTION")[0] + HEADING + "\n".join(wide)).encode())
    assert np.allclose(clip.rotations, bvh.parse(BASE.encode()).rotations)


def test_a_second_root_is_read_as_one() -> None:
    twin = HEAD.replace("HIERARCHY\n", "").replace("ROOT Hips", "ROOT Twin")
    rows = "\n".join(f"{row} {row}" for row in ROWS.strip().split("\n"))
    clip = bvh.parse((HEAD + twin + HEADING + rows).encode())
    assert list(np.flatnonzero(clip.parents < 0)) == [0, 15]
    one = bvh.parse(BASE.encode())
    assert np.allclose(global_pose(clip)[1][:, 15:], global_pose(one)[1])


@pytest.mark.slow
def test_thousands_of_nested_joints_are_read() -> None:
    joint = "{} j{}\n{{\nOFFSET 0 1 0\nCHANNELS 3 Zrotation Xrotation Yrotation\n"
    deep = "".join(joint.format("JOINT" if i else "ROOT", i) for i in range(3000)) + "}\n" * 3000
    clip = bvh.parse(f"HIERARCHY\n{deep}MOTION\nFrames: 1\nFrame Time: 0.01\n{'0 ' * 9000}\n".encode())
    assert len(clip.names) == 3000
    assert rest_positions(clip)[-1, 1] == 2999 + 1


def test_a_frame_time_with_few_digits_is_rounded_to_the_whole_rate() -> None:
    for text, fps in ((".0083333", 120), ("0.033", 30), ("0.041667", 24), ("0.04", 25), ("0.0333667", 29.97)):
        assert bvh.parse(BASE.replace("0.0333333", text).encode()).fps == pytest.approx(fps, abs=2e-4)


@pytest.mark.parametrize(
    ("text", "fps", "words"),
    [
        *(("33.3", 30, "milliseconds"), ("16.667", 60, "milliseconds"), ("8.33", 120, "milliseconds")),
        *(("33", 30, "milliseconds"), ("40", 25, "milliseconds"), ("133.3", 1 / 133.3, "unusual")),
        *(("33333.3", 30, "microseconds"), ("30", 30, "a rate"), ("120", 120, "a rate"), ("1", 1, "unusual")),
    ],
)
def test_a_frame_time_in_smaller_units_is_read_as_it_is_meant_and_reported(text: str, fps: float, words: str) -> None:
    clip = bvh.parse(BASE.replace("0.0333333", text).encode())
    assert clip.fps == pytest.approx(fps, rel=0.001)
    assert any(words in warning for warning in clip.warnings)


def test_axis_unit_and_rate_can_be_given() -> None:
    clip = bvh.parse(BASE.encode(), up_axis="z", unit=0.5, fps=60)
    assert (clip.up_axis, clip.unit, clip.fps) == ("Z", 0.5, 60)
    with pytest.raises(ValueError, match="X or -X, got"):
        bvh.parse(BASE.encode(), up_axis="W")


def test_an_unknown_size_is_scaled_to_a_person_and_reported() -> None:
    clip = bvh.parse(BASE.encode())
    small = {"offsets": clip.offsets * 0.31, "root_pos": clip.root_pos * 0.31}
    tips = {i: tip * 0.31 for i, tip in clip.tips.items()}
    unit, note = guess_unit(Clip(**{**vars(clip), **small, "tips": tips}))
    assert unit * body_height(clip) * 0.31 == pytest.approx(1.7)
    assert "unit" in note


# ---------------------------------------------------------------- numbers


def test_numbers_are_read_exactly_as_python_reads_them(rng: np.random.Generator) -> None:
    words = [
        f"{value:.{digits}f}" for value, digits in zip(rng.normal(0, 99, 3000), rng.integers(0, 9, 3000), strict=True)
    ]
    words += ["-.5", "+3", "7.", "-0", "0.1", "123456789.12345", "1e-15", "-2.5E+03", "-0.0000"]
    lines = [" ".join(words[i : i + 7]) for i in range(0, len(words), 7)]
    text = "\n".join(lines).encode()
    values = read_numbers(text)
    assert values is not None
    assert np.array_equal(values, np.array(words, dtype=float))
    count, before = count_words(text)
    assert count == len(words)
    assert list(before) == list(np.cumsum([len(line.split()) for line in lines[:-1]]))


@pytest.mark.parametrize("text", ["1.2.3 4", "1-2", "--1", "- 1", "1e", "0x10", "1,5", "abc", "1_000", ". 1", "1..2"])
def test_a_word_that_is_not_a_number_is_never_read_as_one(text: str) -> None:
    assert read_numbers(text.encode() + b" 1.5\n") is None


def test_words_are_read_together_as_they_are_one_by_one(rng: np.random.Generator) -> None:
    numbers = [
        "0",
        "-0.0",
        "+.5",
        "7.",
        "1e5",
        "1.5D+02",
        "-2d-3",
        "nan",
        "-NaN",
        "inf",
        "+Infinity",
        "1e999",
        "1" * 400,
    ]
    others = [
        "x",
        "-",
        ".",
        "1..2",
        "1-2",
        "1e",
        "e5",
        "1_000",
        "0x10",
        "1,5",
        "\xb2",
        "nan(ind)",
        "infinit",
        "1\x00",
        "1d5d",
    ]
    every = numbers * 3 + others * 2
    words = [every[at].encode("latin-1") for at in rng.permutation(len(every))]
    values, readable = parse_words(words)
    expected = [parse_number(word) for word in words]
    assert (
        list(readable)
        == [value is not None for value in expected]
        == [word.decode("latin-1") in numbers for word in words]
    )
    assert np.array_equal(values, np.array(expected, float), equal_nan=True)
    assert [len(part) for part in parse_words([])] == [0, 0]


def test_a_damaged_file_is_reported_line_by_line_and_costs_less_than_a_call_for_each_word() -> None:
    rows = "".join(f"{'tall ' * 3}{'1 ' * 45}\n{'a b ' * 30}\n" for _ in range(500))
    text = (HEAD + HEADING + rows).encode()
    begin = (HEAD + HEADING).count("\n") + 1
    found: list[Clip] = []
    calls = counted_calls(lambda: found.append(bvh.parse(text, "odd")))
    assert calls < len(text.split()) / 2
    (clip,) = found
    assert clip.frames == 500
    listed = [f"line {begin + n}" for n in (0, 2, 4, 6)]
    assert (
        f"odd, {'; '.join(f'{line}, joint Hips' for line in listed)}: 'tall' is not a number (500 times)"
        in clip.warnings
    )
    skipped = [f"line {begin + n}" for n in (1, 3, 5, 7)]
    shown = repr(("a b " * 30)[:40] + "...")
    assert f"odd, {'; '.join(skipped)}: {shown} is not a row of numbers; it was skipped (500 times)" in clip.warnings


# ---------------------------------------------------------------- writing


@pytest.mark.parametrize("number", ["01", "04", "08", "10", "11", "32", "36", "42"])
def test_what_is_written_reads_back(number: str, tmp_path: Path) -> None:
    clip = odd(number)
    bvh.write(tmp_path / "out.bvh", clip)
    again = bvh.read(tmp_path / "out.bvh")
    assert again.names == clip.names
    assert np.array_equal(again.parents, clip.parents)
    assert sorted(again.tips) == sorted(clip.tips)
    assert again.fps == pytest.approx(clip.fps, rel=1e-6)
    assert np.abs(global_pose(again)[1] - global_pose(clip)[1]).max() < 1e-5 * body_height(clip)
    assert (again.up_axis, again.unit) == (clip.up_axis, clip.unit)
    assert os.listdir(tmp_path) == ["out.bvh"]


def test_written_angles_are_right_at_gimbal_lock(tmp_path: Path, rng: np.random.Generator) -> None:
    clip = bvh.parse(BASE.encode())
    quaternion = rng.normal(size=clip.rotations.shape)
    quaternion[0] = (np.sqrt(0.5), 0, np.sqrt(0.5), 0)
    quaternion[1] = (0.5, 0.5, -0.5, 0.5)
    quaternion /= np.linalg.norm(quaternion, axis=-1, keepdims=True)
    bvh.write(tmp_path / "a.bvh", Clip(**{**vars(clip), "rotations": quaternion}))
    again = bvh.read(tmp_path / "a.bvh").rotations
    assert np.abs(np.abs(np.sum(again * quaternion, axis=-1)) - 1).max() < 1e-12


def test_a_name_that_bvh_cannot_hold_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    clip = bvh.parse(BASE.encode())
    with pytest.raises(ValueError, match="brace"):
        bvh.write(tmp_path / "a.bvh", Clip(**{**vars(clip), "names": ("Hi{ps", *clip.names[1:])}))
    assert os.listdir(tmp_path) == []
