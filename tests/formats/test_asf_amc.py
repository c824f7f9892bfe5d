# SPDX-License-Identifier: GPL-3.0-or-later
"""ASF/AMC: joints agree with a plain reading of the format, legs with the BVH of the same take; odd files are handled."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import counted_calls, mocap_clip, slow_except

from neural_network.formats import asf_amc
from neural_network.motion.clip import Clip, body_height, global_pose

ODD = Path(__file__).resolve().parents[1] / "odd"
ASF = (ODD / "mini.asf").read_bytes()
RADIANS = (ODD / "mini_radians.amc").read_bytes()
DEGREES = (ODD / "mini_unknown_bone.amc").read_bytes()
POSITIONS = 1e-4
"""[body heights] by which joint positions may differ from the plain forward kinematics below."""
LEGS = 1e-3
"""[m] by which legs read from AMC and from BVH may differ."""


# ---------------------------------------------------------------- a plain reading, to compare with


def times(a: list[list[float]], b: list[list[float]]) -> list[list[float]]:
    return [[sum(a[i][k] * b[k][j] for k in range(3)) for j in range(3)] for i in range(3)]


def turn(axis: str, angle: float) -> list[list[float]]:
    c, s = math.cos(angle), math.sin(angle)
    return {
        "x": [[1, 0, 0], [0, c, -s], [0, s, c]],
        "y": [[c, 0, s], [0, 1, 0], [-s, 0, c]],
        "z": [[c, -s, 0], [s, c, 0], [0, 0, 1]],
    }[axis]


def plain_skeleton(text: str) -> tuple[dict[str, dict[str, list[str]]], dict[str, str]]:
    """Bones as {name: {key: words}} and {child: parent}."""
    bones: dict[str, dict[str, list[str]]] = {}
    parents: dict[str, str] = {}
    section, bone = "", {}
    for line in text.split("\n"):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if words[0].startswith(":"):
            section = words[0]
        elif section == ":bonedata":
            if words[0] == "begin":
                bone = {}
            elif words[0] == "end":
                bones[bone["name"][0]] = bone
            else:
                bone[words[0]] = words[1:]
        elif section == ":hierarchy" and words[0] not in ("begin", "end"):
            for child in words[1:]:
                parents[child] = words[0]
    return bones, parents


def plain_frames(text: str) -> list[dict[str, list[float]]]:
    frames: list[dict[str, list[float]]] = []
    for line in text.split("\n"):
        words = line.split()
        if not words or words[0][0] in "#:":
            continue
        if len(words) == 1 and words[0].isdigit():
            frames.append({})
        else:
            frames[-1][words[0]] = [float(word) for word in words[1:]]
    return frames


def plain_positions(asf: str, frame: dict[str, list[float]], radians: bool) -> dict[str, list[float]]:
    """Far ends of the bones (and the root) of one frame."""
    bones, parents = plain_skeleton(asf)
    to_motion = 1.0 if radians else math.pi / 180
    identity = [[1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]]
    root = frame["root"]
    turned = {"root": identity}
    for axis, angle in zip("xyz", root[3:], strict=True):
        turned["root"] = times(turn(axis, angle * to_motion), turned["root"])
    ends = {"root": root[:3]}

    def place(name: str) -> None:
        if name in ends:
            return
        place(parents[name])
        bone = bones[name]
        axes = identity
        for axis, angle in zip("xyz", bone["axis"][:3], strict=True):
            axes = times(turn(axis, float(angle) * math.pi / 180), axes)
        back = [[axes[j][i] for j in range(3)] for i in range(3)]
        motion = identity
        for dof, angle in zip(bone.get("dof", []), frame.get(name, []), strict=True):
            motion = times(turn(dof[1], angle * to_motion), motion)
        turned[name] = times(turned[parents[name]], times(axes, times(motion, back)))
        stick = [float(word) * float(bone["length"][0]) for word in bone["direction"]]
        start = ends[parents[name]]
        ends[name] = [start[i] + sum(turned[name][i][k] * stick[k] for k in range(3)) for i in range(3)]

    for name in bones:
        place(name)
    return ends


def far_ends(clip: Clip, skeleton: asf_amc.AsfSkeleton, frame: int) -> dict[str, np.ndarray]:
    turned, placed = global_pose(clip, np.array([frame]))
    ends = placed[0] + (turned[0] @ skeleton.ends[..., None])[..., 0]
    return dict(zip(clip.names, ends, strict=True))


def assert_same_ends(asf: bytes, amc: bytes, clip: Clip, radians: bool) -> None:
    skeleton = asf_amc.parse_skeleton(asf)
    frames = plain_frames(amc.decode("latin-1").replace("\r", ""))
    assert clip.frames == len(frames)
    for frame in np.unique(np.linspace(0, len(frames) - 1, 4).astype(int)):
        wanted = plain_positions(asf.decode("latin-1").replace("\r", ""), frames[frame], radians)
        ours = far_ends(clip, skeleton, int(frame))
        assert set(ours) == set(wanted)
        worst = max(float(np.abs(ours[name] - np.array(wanted[name])).max()) for name in wanted)
        assert worst < POSITIONS * body_height(clip)


# ---------------------------------------------------------------- real files


@pytest.mark.slow
def test_every_take_agrees_with_plain_forward_kinematics(mocap: Path) -> None:
    takes = sorted((mocap / "asfamc").glob("*.amc"))
    assert len(takes) >= 6
    for amc in takes:
        clip = asf_amc.read(None, amc)
        asf = asf_amc.find_skeleton(amc)
        assert len(clip.names) == 31
        assert clip.unit == pytest.approx(0.0254 / 0.45)
        assert clip.up_axis == "Y"
        assert_same_ends(asf.read_bytes(), amc.read_bytes(), clip, radians=False)


LEG_NAMES = {
    "root": "Hips",
    "lfemur": "LeftUpLeg",
    "ltibia": "LeftLeg",
    "lfoot": "LeftFoot",
    "ltoes": "LeftToeBase",
    "rfemur": "RightUpLeg",
    "rtibia": "RightLeg",
    "rfoot": "RightFoot",
    "rtoes": "RightToeBase",
}


@pytest.mark.slow
@pytest.mark.parametrize("take", ["02_01", "05_13"])
def test_the_legs_of_a_take_agree_with_its_bvh(mocap: Path, take: str) -> None:
    amc = asf_amc.read(None, mocap / "asfamc" / f"{take}.amc")
    other = mocap_clip(mocap / "bvh" / "cmu_mb" / f"{take}.bvh")
    assert other.frames == amc.frames + 1  # the conversion put a T-pose in front
    ours, theirs = global_pose(amc)[1] * amc.unit, global_pose(other, slice(1, None))[1] * other.unit
    for name, joint in LEG_NAMES.items():
        apart = np.linalg.norm(ours[:, amc.names.index(name)] - theirs[:, other.names.index(joint)], axis=-1)
        assert apart.max() < LEGS, name


# ---------------------------------------------------------------- odd files


def test_radians_and_degrees_of_the_same_motion_are_the_same() -> None:
    radians, degrees = asf_amc.read(None, ODD / "mini_radians.amc"), asf_amc.read(None, ODD / "mini_unknown_bone.amc")
    assert np.abs(global_pose(radians)[1] - global_pose(degrees)[1]).max() < 1e-4
    assert_same_ends(ASF, RADIANS, radians, radians=True)
    assert radians.unit == pytest.approx(0.0254 / 0.45)


def test_an_unknown_bone_is_ignored_with_a_warning_and_a_bone_without_dof_is_rigid() -> None:
    clip = asf_amc.read(None, ODD / "mini_unknown_bone.amc")
    assert any("'tail'" in warning and "line 16" in warning for warning in clip.warnings)
    toe = clip.names.index("toe")
    assert np.array_equal(clip.rotations[:, toe], np.broadcast_to([1.0, 0, 0, 0], (5, 4)))


def test_a_joint_is_at_the_far_end_of_its_parents_bone() -> None:
    skeleton = asf_amc.read_skeleton(ODD / "mini.asf")
    assert skeleton.names == ("root", "thigh", "shin", "toe")
    assert np.allclose(skeleton.offsets[2], np.array([0.26, -0.9656, 0]) * 7.3)
    assert np.allclose(skeleton.offsets[1], 0)


def test_a_missing_rate_is_120_with_a_warning_and_a_named_one_is_read() -> None:
    clip = asf_amc.parse(ASF, RADIANS)
    assert clip.fps == asf_amc.FALLBACK_FPS
    assert any("rate" in warning for warning in clip.warnings)
    named = RADIANS.replace(b":RADIANS", b":SAMPLES-PER-SECOND 60\n:RADIANS")
    assert asf_amc.parse(ASF, named).fps == 60
    assert asf_amc.parse(ASF, RADIANS, fps=30).fps == 30


MADE = {
    "line feeds only": (lambda asf, amc: (asf.replace(b"\r", b""), amc.replace(b"\r", b"")), ""),
    "carriage returns only": (lambda asf, amc: (asf.replace(b"\r", b"").replace(b"\n", b"\r"), amc), ""),
    "a byte-order mark": (lambda asf, amc: (b"\xef\xbb\xbf" + asf, b"\xef\xbb\xbf" + amc), ""),
    "UTF-16": (lambda asf, amc: (asf.decode().encode("utf-16"), amc.decode().encode("utf-16")), ""),
    "names in other case": (lambda asf, amc: (asf, amc.replace(b"thigh", b"Thigh")), ""),
    "no header in the motion": (lambda asf, amc: (asf.replace(b"deg", b"deg"), _degrees(amc)), ""),
    "a comment behind a bone": (lambda asf, amc: (asf, amc.replace(b"shin 0.157080", b"shin 0.157080 # bent")), ""),
    "decimal commas": (lambda asf, amc: (asf, _commas(amc)), ""),
    "an empty line between frames": (lambda asf, amc: (asf, amc.replace(b"\n2\r\n", b"\n\r\n2\r\n")), ""),
    "frame numbers that jump": (lambda asf, amc: (asf, amc.replace(b"\n5\r\n", b"\n9\r\n")), "jump"),
    "a hierarchy line for a bone that is not there": (
        lambda asf, amc: (asf.replace(b"shin toe", b"shin toe tail"), amc),
        "'tail'",
    ),
    "a direction that is not of unit length": (
        lambda asf, amc: (asf.replace(b"direction 0.26 -0.9656 0", b"direction 0.52 -1.9312 0"), amc),
        "unit",
    ),
    "tabs and no indents": (lambda asf, amc: (re.sub(rb"(?m)^ +| +", b"\t", asf), re.sub(rb" +", b"\t", amc)), ""),
    "sections in capitals": (lambda asf, amc: (re.sub(rb":\w+", lambda m: m[0].upper(), asf), amc), ""),
    "degrees of freedom between commas": (lambda asf, amc: (asf.replace(b"rx ry rz", b"rx, ry, rz"), amc), ""),
    "degrees of freedom in brackets": (lambda asf, amc: (asf.replace(b"rx ry rz", b"(RX RY RZ)"), amc), ""),
    "an axis glued to its order": (lambda asf, amc: (asf.replace(b"15 XYZ", b"15XYZ"), amc), ""),
    "an axis with its order apart": (lambda asf, amc: (asf.replace(b"15 XYZ", b"15 X Y Z"), amc), ""),
    "an axis without an order": (lambda asf, amc: (asf.replace(b"15 XYZ", b"15"), amc), ""),
    "radians in the skeleton": (lambda asf, amc: (_radian_axes(asf), amc), ""),
    "units on one line": (
        lambda asf, amc: (re.sub(rb":units\s+(.*)\s+(.*)\s+(.*)", rb":units \1 \2 \3", asf), amc),
        "",
    ),
    "commas between numbers": (lambda asf, amc: (asf.replace(b"0.26 -0.9656 0", b"0.26, -0.9656, 0"), amc), ""),
    "decimal commas in the skeleton": (lambda asf, amc: (asf.replace(b".", b","), amc), ""),
    "limits over lines of their own": (lambda asf, amc: (asf.replace(b"(-5 160)", b"(\n-5\n160\n)"), amc), ""),
    "limits without end": (lambda asf, amc: (asf.replace(b"(-150 30)", b"(-inf inf)"), amc), ""),
    "an end missing": (lambda asf, amc: (re.sub(rb"(-5 160\)\s+)end", rb"\1", asf), amc), ""),
    "a hierarchy with commas": (lambda asf, amc: (asf.replace(b"shin toe", b"shin,toe"), amc), ""),
    "both headers on one line": (
        lambda asf, amc: (asf, re.sub(rb":FULLY-SPECIFIED\s+", b":FULLY-SPECIFIED ", amc)),
        "",
    ),
    "frames called frame": (lambda asf, amc: (asf, re.sub(rb"(?m)^(\d)\r$", rb"frame \1\r", amc)), ""),
    "frames that begin at -2": (
        lambda asf, amc: (asf, re.sub(rb"(?m)^(\d)\r$", lambda m: b"%d\r" % (int(m[1]) - 3), amc)),
        "",
    ),
    "frames that are all the first": (lambda asf, amc: (asf, re.sub(rb"(?m)^\d\r$", b"1\r", amc)), "jump"),
    "a bone over two lines": (lambda asf, amc: (asf, re.sub(rb"(thigh \S+) ", rb"\1\r\n  ", amc)), ""),
    "numbers glued to names and to each other": (lambda asf, amc: (asf, amc.replace(b" -", b"-")), ""),
    "a colon behind each bone": (lambda asf, amc: (asf, re.sub(rb"(?m)^([a-z]+) ", rb"\1: ", amc)), ""),
    "three numbers for one degree of freedom": (
        lambda asf, amc: (asf, re.sub(rb"(shin \S+)", rb"\1 0.5 0.2", amc)),
        "three numbers",
    ),
    "a bone without dof that has numbers": (
        lambda asf, amc: (asf, re.sub(rb"(shin \S+)", rb"\1\r\ntoe 1 2 3", amc)),
        "expected 0 numbers",
    ),
    "bones in any order": (lambda asf, amc: (_reversed_bones(asf), amc), ""),
}


def _degrees(amc: bytes) -> bytes:
    return DEGREES.replace(b":DEGREES", b"").replace(b":FULLY-SPECIFIED", b"").replace(b"tail 1.000000\r\n", b"")


def _radian_axes(asf: bytes) -> bytes:
    turned = asf.replace(b"angle deg", b"angle radians").replace(b"0 0 15 XYZ", b"0 0 0.2617994 XYZ")
    return turned.replace(b"90 0 15 XYZ", b"1.5707963 0 0.2617994 XYZ")


def _commas(amc: bytes) -> bytes:
    return amc.replace(b".", b",")


def _reversed_bones(asf: bytes) -> bytes:
    head, rest = asf.split(b":bonedata")
    bones, tail = rest.split(b":hierarchy")
    blocks = [b"  begin" + block for block in bones.split(b"  begin")[1:]]
    return head + b":bonedata\r\n" + b"".join(reversed(blocks)) + b":hierarchy" + tail


@pytest.mark.parametrize("name", slow_except(MADE, *list(MADE)[::3]))
def test_what_can_be_read_is_read_as_the_plain_file(name: str) -> None:
    make, expected = MADE[name]
    clip = asf_amc.parse(*make(ASF, RADIANS), "odd")
    wanted = asf_amc.parse(ASF, RADIANS)
    assert clip.names == wanted.names
    assert np.abs(global_pose(clip)[1] - global_pose(wanted)[1]).max() < 1e-3
    others = [warning for warning in clip.warnings if "rate" not in warning]
    assert any(expected in warning for warning in others) if expected else others == []


def test_missing_lines_are_interpolated_and_reported() -> None:
    without = RADIANS.replace(b"shin 0.471239\r\n", b"")
    clip = asf_amc.parse(ASF, without, amc_source="walk.amc")
    assert clip.repaired == (2,)
    assert any("walk.amc, frame 3, bone shin" in warning for warning in clip.warnings)
    shin = clip.names.index("shin")
    angle = 2 * np.arccos(np.clip(clip.rotations[:, shin, 0], -1, 1))
    assert angle[2] == pytest.approx((angle[1] + angle[3]) / 2, abs=1e-3)


def test_a_bone_that_no_frame_lists_stays_at_rest_and_costs_no_frames() -> None:
    clip = asf_amc.parse(ASF, re.sub(rb"shin.*\n", b"", RADIANS))
    shin = clip.names.index("shin")
    assert clip.repaired == ()
    assert np.allclose(clip.rotations[:, shin], [1, 0, 0, 0])
    assert any("no frame has a line for shin" in warning for warning in clip.warnings)


def test_a_cut_off_last_frame_is_dropped() -> None:
    clip = asf_amc.parse(ASF, RADIANS[: RADIANS.rindex(b"thigh")])
    assert clip.frames == 4
    assert any("incomplete" in warning for warning in clip.warnings)


def test_the_order_of_dof_is_the_order_of_rotation() -> None:
    swapped = ASF.replace(b"dof rx ry rz", b"dof rz ry rx")
    clip = asf_amc.parse(swapped, RADIANS)
    plain = plain_positions(
        swapped.decode().replace("\r", ""), plain_frames(RADIANS.decode().replace("\r", ""))[2], True
    )
    ours = far_ends(clip, asf_amc.parse_skeleton(swapped), 2)
    assert all(np.allclose(ours[name], plain[name], atol=1e-6) for name in plain)


REFUSED = {
    "an empty skeleton": (b"", RADIANS, "empty"),
    "an empty motion": (ASF, b"", "empty"),
    "a skeleton that is none": (b"hello\nworld\n", RADIANS, "not an ASF file"),
    "a motion that is none": (ASF, b"hello\nworld\n", "not an AMC file"),
    "a motion of another skeleton": (
        ASF,
        RADIANS.replace(b"thigh", b"x").replace(b"shin", b"y").replace(b"root", b"z"),
        "no bone",
    ),
    "a hierarchy above an unknown bone": (ASF.replace(b"thigh shin", b"knee shin"), RADIANS, "line 43"),
    "a direction of words": (ASF.replace(b"direction 0.26 -0.9656 0", b"direction down"), RADIANS, "thigh"),
    "bones before the first frame": (ASF, RADIANS.replace(b"\n1\r\n", b"\n"), "frame number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_with_a_message(name: str) -> None:
    asf, amc, expected = REFUSED[name]
    with pytest.raises(ValueError, match=r"(skeleton\.asf|motion\.amc)") as error:
        asf_amc.parse(asf, amc)
    assert expected in str(error.value)


def test_lines_that_fit_no_bone_cost_few_calls_each() -> None:
    amc = RADIANS.replace(b"\r", b"").replace(b"\n2\n", b"\n" + b"a\n" * 20_000 + b"2\n")
    found: list[Clip] = []
    calls = counted_calls(lambda: found.append(asf_amc.parse(ASF, amc)))
    assert calls < 10 * 2 * 20_000  # the text is read twice
    (clip,) = found
    assert clip.frames == asf_amc.parse(ASF, RADIANS).frames
    assert np.array_equal(clip.rotations, asf_amc.parse(ASF, RADIANS).rotations)
    assert any("no bone 'a'" in warning for warning in clip.warnings)


@pytest.mark.parametrize(
    ("amc", "asf"),
    [
        ("walk.amc", "walk.asf"),
        ("02_01.amc", "02.asf"),
        ("07_05-walk.amc", "07-walk.asf"),
        ("02_01.AMC", "02.ASF"),
        ("heroRun3.amc", "hero.asf"),
    ],
)
def test_the_skeleton_beside_a_motion_is_found_by_its_name(tmp_path: Path, amc: str, asf: str) -> None:
    for name in (amc, asf, "zzz.asf"):
        (tmp_path / name).write_bytes(b"")
    assert asf_amc.find_skeleton(tmp_path / amc).name == asf


def test_the_skeleton_named_in_the_motion_or_the_only_one_is_used(tmp_path: Path) -> None:
    for name in ("a.amc", "male.asf"):
        (tmp_path / name).write_bytes(b"")
    assert asf_amc.find_skeleton(tmp_path / "a.amc").name == "male.asf"
    (tmp_path / "female.asf").write_bytes(b"")
    assert asf_amc.find_skeleton(tmp_path / "a.amc", rb"#!OML:ASF C:\data\female.ASF").name == "female.asf"
    with pytest.raises(ValueError, match=r"expected a\.asf"):
        asf_amc.find_skeleton(tmp_path / "a.amc")
