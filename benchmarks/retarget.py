# SPDX-License-Identifier: GPL-3.0-or-later
"""One walk and one pick-up on fifteen rigs of different families and proportions: python -m benchmarks.retarget [--pictures DIR]

Prints for every rig the deepest penetration of the floor, its skate and the source's, knees and elbows bent the wrong way,
and the twist of the wrists. The exit code is 1 if a rig exceeds a limit. Needs the motion capture folder (NIK_MOCAP).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from neural_network.core.contacts import GROUND, central_speed
from neural_network.core.forward_kinematics import armature_matrices
from neural_network.core.messages import require
from neural_network.core.reference_rig import reference
from neural_network.core.rotations import axis_angle_from_matrix, matrix_from_axis_angle, twist_about
from neural_network.core.skeleton import Skeleton
from neural_network.formats import bvh
from neural_network.motion.clip import Clip
from neural_network.rigs import foot_placement, retarget, rig_body, t_pose
from neural_network.rigs.bone_tree import ancestors

from .rigs import FamilyRig, a_pose, all_rigs, proportioned, skeleton, true_bones, turned

PENETRATION = 0.010  # [m]
SKATE = 1.1  # times the source's
WRONG_WAY = np.radians(5)  # overstretch of a knee or elbow from which on it counts as bent the wrong way
WRIST = np.radians(100)  # twist of a hand relative to its forearm beyond which the skin collapses


@dataclass(frozen=True)
class Figures:
    """Measurements of one retargeted take; lengths in metres of the rig, speeds scaled to a leg of 0.945 m."""

    penetration: float
    skate: float
    source_skate: float
    knees: float
    elbows: float
    wrist: float


def targets() -> dict[str, tuple[Skeleton, dict[str, int]]]:
    """Rigs of many families, each with other proportions, some in A-pose, some facing another way."""
    rigs = all_rigs()
    chosen: dict[str, FamilyRig] = {
        "mixamo": rigs["mixamo"],
        "rigify metarig, A-pose": a_pose(proportioned(rigs["rigify metarig"], legs=1.06), 40),
        "vroid, long legs": proportioned(rigs["vroid"], legs=1.15, trunk=0.92, arms=0.95),
        "unreal 5, A-pose": a_pose(proportioned(rigs["unreal mannequin 5"], legs=1.04, arms=1.05), 50),
        "unity, small": turned(proportioned(rigs["unity humanoid"], legs=0.8, arms=0.9), unit=0.7),
        "mpfb game engine": a_pose(rigs["mpfb game engine"], 35),
        "daz genesis 8, A-pose": a_pose(proportioned(rigs["daz genesis 8"], legs=1.1), 45),
        "3ds max biped, facing +Y": turned(proportioned(rigs["3ds max biped"], trunk=1.1), 180),
        "reallusion cc": a_pose(proportioned(rigs["reallusion cc"], width=1.2), 30),
        "rokoko, facing +X": turned(rigs["rokoko"], 90),
        "xsens, tall": turned(rigs["xsens mvn"], unit=1.15),
        "second life, short legs": proportioned(rigs["second life bento"], legs=0.85, arms=0.9),
        "auto-rig pro, giant": turned(rigs["auto-rig pro"], unit=2.5),
        "stylised, short legs": proportioned(rigs["stylised, few bones"], legs=0.55, arms=0.75, width=1.5),
    }
    out = {name: (skeleton(rig), true_bones(rig)) for name, rig in chosen.items()}
    own = reference()
    out["reference"] = (own, {n: j for j, n in enumerate(own.names)})
    return out


def without_first(clip: Clip) -> Clip:
    """The take without its first frame, in which many files have a T-pose that is not part of the motion."""
    return replace(clip, rotations=clip.rotations[1:], root_pos=clip.root_pos[1:])


def measure(clip: Clip, target: Skeleton, bones: dict[str, int]) -> Figures:
    """Retarget one clip and measure the result."""
    source, motion = rig_body.clip_motion(clip, rig_body.clip_roles(clip))
    rot, root_pos = retarget.retarget(clip, target, bones)
    matrices = armature_matrices(target, rot, root_pos)
    rest = target.rest_arm[:, :3, :3]
    body = rig_body.skeleton_body(target, bones)
    moved = rig_body.RigMotion(matrices[..., :3, :3] @ np.swapaxes(rest, -1, -2), matrices[..., :3, 3], clip.fps)
    return Figures(
        penetration=max(0.0, -lowest(body, moved, skeleton_floor(body)), -lowest_hand(body, moved)),
        skate=skate(body, moved),
        source_skate=skate(source, motion),
        knees=wrong_way(body, moved, ("Thigh", "Shin", "Foot")),
        elbows=wrong_way(body, moved, ("Arm", "ForeArm", "Hand")),
        wrist=wrists(target, bones, matrices),
    )


def skeleton_floor(body: rig_body.RigBody) -> dict[str, float]:
    """Rest height [m] of ankles and toes."""
    floor = foot_placement.rest_floor(body)
    return {r: float(body.heads[j, 2] - floor) for r, j in body.bones.items() if r.endswith(("Foot", "ToeBase"))}


def lowest(body: rig_body.RigBody, motion: rig_body.RigMotion, rest: dict[str, float]) -> float:
    """Lowest position [m] of an ankle or toe, relative to its own rest height above z = 0."""
    return min(float((motion.heads[:, body.bones[r], 2] - height).min()) for r, height in rest.items())


def lowest_hand(body: rig_body.RigBody, motion: rig_body.RigMotion) -> float:
    """Lowest position [m] of a hand or a bone below it."""
    hands = [body.bones[r] for r in ("LeftHand", "RightHand") if r in body.bones]
    bones = [j for j in range(len(body.parents)) if j in hands or set(hands) & set(ancestors(body.parents, j))]
    return float(motion.heads[:, bones, 2].min()) if bones else 0.0


def skate(body: rig_body.RigBody, motion: rig_body.RigMotion) -> float:
    """Mean speed [m/s, scaled] of the toes along the floor while their foot is grounded."""
    scale = rig_body.leg_length(body) / GROUND.reference_leg
    speeds = []
    for side in ("Left", "Right"):
        end = body.bones.get(side + "ToeBase", body.bones[side + "Foot"])
        grounded = foot_placement.standing_frames(body, motion, side)
        speeds.append(central_speed(motion.heads[:, end, :2], motion.fps)[grounded] / scale)
    found = np.concatenate(speeds)
    return float(np.mean(found)) if len(found) else 0.0


def wrong_way(body: rig_body.RigBody, motion: rig_body.RigMotion, parts: Sequence[str]) -> float:
    """Share of frames in which a knee or an elbow is bent the wrong way by more than WRONG_WAY."""
    bad = []
    in_t_pose = t_pose.rest_to_t_pose(body)
    for side, sign in (("Left", 1.0), ("Right", -1.0)):
        if not all(side + p in body.bones for p in parts):
            continue
        upper, middle, end = (body.bones[side + p] for p in parts)
        a = motion.heads[:, middle] - motion.heads[:, upper]
        b = motion.heads[:, end] - motion.heads[:, middle]
        hinge = np.array([1.0, 0, 0]) if parts[0] == "Thigh" else np.array([0, 0, -sign])
        hinge = motion.turned[:, upper] @ in_t_pose[side + parts[0]].T @ hinge
        sine = np.sum(np.cross(a, b) * hinge, axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))
        bad.append(sine < -np.sin(WRONG_WAY))
    return float(np.mean(bad)) if bad else 0.0


def wrists(target: Skeleton, bones: dict[str, int], matrices: np.ndarray) -> float:
    """Largest twist [rad] of a hand relative to its forearm, since rest."""
    worst = 0.0
    for side in ("Left", "Right"):
        if side + "Hand" not in bones:
            continue
        hand, arm = bones[side + "Hand"], bones[side + "ForeArm"]
        rest = target.rest_arm[:, :3, :3]
        turn = rest[arm] @ np.swapaxes(matrices[:, arm, :3, :3], -1, -2) @ matrices[:, hand, :3, :3] @ rest[hand].T
        along = target.rest_arm[hand, :3, 3] - target.rest_arm[arm, :3, 3]
        twist = twist_about(axis_angle_from_matrix(turn), along / np.linalg.norm(along))
        worst = max(worst, float(np.abs(twist).max()))
    return worst


def draw(path: Path, clip: Clip, target: Skeleton, bones: dict[str, int], shown: int = 8) -> None:
    """Write a picture of the source above the target, from the front and from the left, with the feet on a line."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    source, motion = rig_body.clip_motion(clip, rig_body.clip_roles(clip))
    matrices = armature_matrices(target, *retarget.retarget(clip, target, bones))
    rows = [(motion.heads, clip.parents, source.bones), (matrices[..., :3, 3], target.parents, bones)]
    frames = _shown(motion, source.bones, shown)
    figure, axes = pyplot.subplots(4, shown, figsize=(2 * shown, 9))
    for r, (heads, parents, roles) in enumerate(rows):
        size = np.ptp(heads[0, :, 2])
        floor = min(np.percentile(heads[:, roles[s + "Foot"], 2], 2) for s in ("Left", "Right"))
        # the view turns with the body, by the line of the hips
        side = {j: "r" for role, j in roles.items() if role.startswith("Left")}
        side.update({j: "b" for role, j in roles.items() if role.startswith("Right")})
        for c, f in enumerate(frames):
            across = heads[f, roles["LeftThigh"]] - heads[f, roles["RightThigh"]]
            turn = matrix_from_axis_angle(np.array([0, 0, -np.arctan2(across[1], across[0])]))
            points = (heads[f] - heads[f, roles["Hips"]] * [1, 1, 0] - [0, 0, floor]) @ turn.T / size
            for v, (a, label) in enumerate(((0, "front"), (1, "left: faces left"))):
                ax = axes[2 * r + v, c]
                for j, p in enumerate(parents):
                    if p >= 0 and (j in roles.values() or p in roles.values()):
                        ax.plot(points[[p, j], a], points[[p, j], 2], "-", color=side.get(j, "k"), lw=1.4)
                ax.axhline(0, color="g", lw=0.5)
                ax.set(xlim=(-0.7, 0.7), ylim=(-0.1, 1.3), xticks=[], yticks=[], aspect="equal")
                if c == 0:
                    ax.set_ylabel(f"{('source', 'target')[r]}, {label}", fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=55)
    pyplot.close(figure)


def _shown(motion: rig_body.RigMotion, bones: Mapping[str, int], count: int) -> np.ndarray:
    """Frames for a picture: half over the whole take, half in the second around the lowest position of a hand."""
    last = len(motion.heads) - 1
    hands = [motion.heads[:, bones[s + "Hand"], 2] for s in ("Left", "Right") if s + "Hand" in bones]
    low = int(np.argmin(np.min(hands, axis=0))) if hands else last // 2
    near = np.clip(low + np.linspace(-0.5, 0.5, count // 2) * motion.fps, 0, last)
    return np.sort(np.concatenate([np.linspace(0, last, count - len(near)), near])).astype(int)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; returns 0 if every rig keeps every limit."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = Path(__file__).resolve().parent.parent
    parser.add_argument(
        "--mocap", type=Path, default=Path(os.environ.get("NIK_MOCAP", here.parent / "shared" / "mocap"))
    )
    parser.add_argument("--walk", default="bvh/cmu_mb/02_01.bvh")
    parser.add_argument("--pick-up", default="bvh/cmu_mb/02_06.bvh")
    parser.add_argument("--pictures", type=Path, help="folder for pictures (needs matplotlib)")
    options = parser.parse_args(argv)
    if options.pictures:
        require("matplotlib", "uv run --group report python -m benchmarks.retarget installs it; leave --pictures out")
    if not options.mocap.is_dir():
        print(f"expected motion capture in {options.mocap}; set NIK_MOCAP or --mocap")
        return 2
    failed = 0
    print(
        f"{'rig':28s}{'take':9s}{'below floor':>12s}{'skate':>9s}{'source':>8s}{'knees':>7s}{'elbows':>8s}{'wrist':>7s}"
    )
    for what, name in (("walk", options.walk), ("pick-up", options.pick_up)):
        clip = without_first(bvh.read(options.mocap / name))
        for rig, (target, bones) in targets().items():
            found = measure(clip, target, bones)
            good = found.penetration <= PENETRATION and found.skate <= SKATE * found.source_skate
            good = good and found.knees == 0 and found.elbows == 0 and found.wrist <= WRIST
            failed += not good
            print(
                f"{rig:28s}{what:9s}{found.penetration * 1e3:9.1f} mm{found.skate * 1e3:8.0f}{found.source_skate * 1e3:8.0f}"
                f"{found.knees:7.1%}{found.elbows:8.1%}{np.degrees(found.wrist):6.0f}°{'' if good else '  MISSED'}"
            )
            if options.pictures:
                options.pictures.mkdir(parents=True, exist_ok=True)
                draw(options.pictures / f"{what} {rig}.png".replace(" ", "_"), clip, target, bones)
    print("skate in mm/s, scaled to a leg of 0.945 m; knees and elbows: share of frames bent the wrong way")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
