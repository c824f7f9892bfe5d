# SPDX-License-Identifier: GPL-3.0-or-later
"""Training data: there and back, every kind of bad file, files whole or not at all, and the splits as the contract has them."""

from __future__ import annotations

import errno
import io
import os
import time
import tracemalloc
import weakref
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import RIGS, make_poses, make_rig

from neural_network.core import files
from neural_network.core import skeleton as skeletons
from neural_network.core.skeleton import SkeletonMismatch
from neural_network.motion import cleaning, pose_set, splits
from neural_network.motion.pose_set import PoseSet
from neural_network.motion.splits import TEST, TRAIN, UNUSED, VALIDATION
from neural_network.motion.tasks import guess_task


def small() -> PoseSet:
    return make_poses(make_rig("reference"), clips=3, frames=8)


def fields(tmp_path: Path) -> dict[str, np.ndarray]:
    """The arrays of a sound file."""
    path = tmp_path / "sound.npz"
    pose_set.save(path, small())
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def lengths(*frames: int, fps: float = 30.0) -> PoseSet:
    """Clips of these many frames."""
    base = make_poses(make_rig("tentacle"), clips=1, frames=1)
    total = sum(frames)
    clip = np.repeat(np.arange(len(frames)), frames)
    rot = np.repeat(base.rot, total, axis=0)
    rot[:, 0, 0] = np.arange(total) * 1e-3
    names = [f"c{i}" for i in range(len(frames))]
    return pose_set.make(base.skeleton, rot, np.repeat(base.root_pos, total, axis=0), clip, names, clip_fps=fps)


# ---------------------------------------------------------------- there and back


@pytest.mark.parametrize("name", RIGS)
def test_poses_come_back_as_they_were_saved(name: str, tmp_path: Path) -> None:
    poses = make_poses(make_rig(name), clips=3, frames=8)
    poses = replace(poses, ground=np.array([0.0, 0.5, -1.0]), clip_fps=np.array([30.0, 60, 23.976]))
    pose_set.save(tmp_path / "a.npz", poses)
    found = pose_set.load(tmp_path / "a.npz")
    for field in ("rot", "root_pos", "clip", "clip_fps", "ground"):
        np.testing.assert_array_equal(getattr(found, field), getattr(poses, field))
    assert (found.clip_names, found.clip_tasks) == (poses.clip_names, poses.clip_tasks)
    rig, other = poses.skeleton, found.skeleton
    assert (rig.names, rig.effectors, rig.feet) == (other.names, other.effectors, other.feet)
    np.testing.assert_array_equal(other.rest_arm, rig.rest_arm)
    np.testing.assert_array_equal(other.t_pose, rig.t_pose)
    np.testing.assert_array_equal(*(np.nan if r.limits is None else r.limits for r in (rig, other)))
    assert found.content_hash() == poses.content_hash()


def test_the_file_has_the_fields_of_the_contract(tmp_path: Path) -> None:
    found = fields(tmp_path)
    assert int(found["schema"]) == 1
    frames, bones, clips = 24, 23, 3
    shapes = {
        "bone_names": (bones,),
        "parents": (bones,),
        "rest_arm": (bones, 4, 4),
        "rot": (frames, bones, 3),
        "root_pos": (frames, 3),
        "clip": (frames,),
        "clip_names": (clips,),
        "clip_tasks": (clips,),
        "clip_fps": (clips,),
        "effectors": (5,),
        "feet": (2,),
        "limits": (bones, 6),
    }
    assert {name: found[name].shape for name in shapes} == shapes
    assert not any(a.dtype.hasobject for a in found.values())


def test_the_same_poses_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pose_set.save(tmp_path / "a.npz", small())
    monkeypatch.setattr("time.time", lambda: 1e9)
    monkeypatch.setattr("time.localtime", lambda *_: (2001, 9, 9, 1, 46, 40, 6, 252, 0))
    pose_set.save(tmp_path / "b.npz", small())
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_clips_hash_is_its_content_wherever_it_stands() -> None:
    poses = small()
    alone = pose_set.make(poses.skeleton, poses.rot[8:16], poses.root_pos[8:16], np.zeros(8, int), ["renamed"])
    assert alone.clip_hash(0) == poses.clip_hash(1)
    assert len({poses.clip_hash(c) for c in range(3)}) == 3
    rot = poses.rot.copy()
    rot[9, 4, 1] += 1e-5
    assert replace(poses, rot=rot).clip_hash(1) != poses.clip_hash(1)
    assert replace(poses, rot=rot).clip_hash(0) == poses.clip_hash(0)


def test_rotations_beyond_half_a_turn_come_in_the_short_way() -> None:
    poses = small()
    rot = poses.rot.copy()
    rot[0, 3], rot[1, 3], rot[2, 3] = [4.0, 0, 0], [0, 9.0, 0], [0, 0, 3.0]
    found = pose_set.make(poses.skeleton, rot, poses.root_pos, poses.clip, poses.clip_names).rot
    expected = [[4 - 2 * np.pi, 0, 0], [0, 9 - 2 * np.pi, 0], [0, 0, 3]]
    np.testing.assert_allclose(found[:3, 3], expected, atol=1e-5)
    np.testing.assert_array_equal(found[3:], rot[3:])


def test_joined_sets_keep_their_clips_and_another_skeleton_is_refused() -> None:
    poses = small()
    both = pose_set.join([poses, poses])
    assert both.frames == 48
    assert both.clip_names == poses.clip_names * 2
    assert [both.clip_hash(c) for c in range(6)] == [poses.clip_hash(c) for c in range(3)] * 2
    with pytest.raises(SkeletonMismatch, match="another skeleton"):
        pose_set.join([poses, make_poses(make_rig("creature"))])


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("Walk_forward", "locomotion"),
        ("backflip", "acrobatics"),
        ("high KICK", "combat"),
        ("salsa", "dance"),
        ("jump2", "jump"),
        ("getup_facedown", "crouch"),
        ("pick_up_box_left", "combat"),  # the first word of the table that fits; the task can be edited
        ("Idle", "idle"),
        ("quux", "other"),
    ],
)
def test_the_task_is_guessed_from_the_name(name: str, task: str) -> None:
    assert guess_task(name) == task


# ---------------------------------------------------------------- joint limits


def limited(name: str = "reference") -> PoseSet:
    """Poses of a rig with limits of its own, none of them what any rule would find."""
    poses = make_poses(make_rig(name), clips=2, frames=8)
    rig = poses.skeleton
    narrow = np.random.default_rng(11).uniform(0.1, 0.9, (rig.count, 6)) * [-1, 1, -1, 1, -1, 1]
    narrow[0] = np.nan
    names = ([rig.names[e] for e in rig.effectors], [rig.names[f] for f in rig.feet])
    rig = skeletons.make(rig.names, rig.parents, rig.rest_arm, *names, t_pose=rig.t_pose, limits=narrow)
    np.testing.assert_array_equal(rig.limits, narrow)
    return replace(poses, skeleton=rig)


def through_a_file(poses: PoseSet, tmp_path: Path) -> PoseSet:
    pose_set.save(tmp_path / "a.npz", poses)
    return pose_set.load(tmp_path / "a.npz")


def block_by_block(poses: PoseSet, tmp_path: Path) -> PoseSet:
    motion = [(poses.rot[rows], poses.root_pos[rows]) for rows in (poses.rows(0), poses.rows(1))]
    pose_set.save_blocks(tmp_path / "a.npz", poses.skeleton, lambda: motion, [8, 8], poses.clip_names, None, 30.0)
    return pose_set.load(tmp_path / "a.npz")


KEEPING: dict[str, Callable[[PoseSet, Path], PoseSet]] = {
    "saved and loaded": through_a_file,
    "written block by block": block_by_block,
    "joined": lambda poses, _: pose_set.join([poses, poses]),
    "on another body": lambda poses, _: pose_set.on_body(limited(), poses.skeleton),
    "without an overlap": lambda poses, _: pose_set.without_overlap(poses, make_poses(poses.skeleton, seed=8)) or poses,
    "made anew": lambda p, _: pose_set.make(p.skeleton, p.rot, p.root_pos, p.clip, p.clip_names),
    "with mirrored copies": lambda p, _: cleaning.with_mirrored(p, skeletons.mirrored_bones(p.skeleton)),
}


@pytest.mark.parametrize("way", KEEPING)
def test_joint_limits_survive(way: str, tmp_path: Path) -> None:
    poses = limited()
    assert poses.skeleton.limits is not None
    found = KEEPING[way](poses, tmp_path)
    assert found.skeleton.limits is not None
    np.testing.assert_array_equal(found.skeleton.limits, poses.skeleton.limits)


# ---------------------------------------------------------------- block by block


def test_poses_written_block_by_block_give_the_bytes_of_poses_written_at_once(tmp_path: Path) -> None:
    poses = replace(small(), ground=np.array([0.0, 0.5, -1.0]))
    pose_set.save(tmp_path / "once.npz", poses)
    about = (poses.clip_names, poses.clip_tasks, poses.clip_fps, poses.ground)
    for size in (1, 5, 8):
        motion = [(poses.rot[at : at + size], poses.root_pos[at : at + size]) for at in range(0, 24, size)]
        pose_set.save_blocks(tmp_path / "blocks.npz", poses.skeleton, lambda m=motion: m, [8, 8, 8], *about)  # type: ignore[misc]
        assert (tmp_path / "blocks.npz").read_bytes() == (tmp_path / "once.npz").read_bytes()


def test_blocks_are_asked_for_one_at_a_time(tmp_path: Path) -> None:
    poses, alive, most = small(), 0, 0

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        nonlocal alive, most
        for clip in range(3):
            block = poses.rot[poses.rows(clip)].copy()
            alive += 1
            weakref.finalize(block, lambda: release())
            most = max(most, alive)
            yield block, poses.root_pos[poses.rows(clip)]
            del block

    def release() -> None:
        nonlocal alive
        alive -= 1

    pose_set.save_blocks(tmp_path / "a.npz", poses.skeleton, blocks, [8, 8, 8], poses.clip_names, None, 30.0)
    assert most <= 2


def test_blocks_that_do_not_fit_their_clips_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    poses = small()

    def write(lengths: list[int], rot: np.ndarray = poses.rot, names: tuple[str, ...] = poses.clip_names) -> None:
        motion = [(rot, poses.root_pos)]
        pose_set.save_blocks(tmp_path / "a.npz", poses.skeleton, lambda: motion, lengths, names, None, 30.0)

    with pytest.raises(ValueError, match="rot: expected 25 frames, got 24"):
        write([8, 8, 9])
    with pytest.raises(ValueError, match=r"rot: expected \(24, 23, 3\), got a block of \(24, 22, 3\)"):
        write([8, 8, 8], poses.rot[:, 1:])
    with pytest.raises(ValueError, match="lengths: expected 3 numbers of frames for 3 clips, got 2"):
        write([12, 12])
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_making_stands_in_the_folder_given(tmp_path: Path) -> None:
    poses, seen = small(), []
    (tmp_path / "parts").mkdir()

    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        seen.append((len(list((tmp_path / "parts").iterdir())), (tmp_path / "a.npz").exists()))
        yield poses.rot, poses.root_pos

    about = ([8, 8, 8], poses.clip_names, None, 30.0)
    pose_set.save_blocks(tmp_path / "a.npz", poses.skeleton, blocks, *about, folder=tmp_path / "parts")
    assert seen == [(1, False)] * 2
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["a.npz"]
    assert list((tmp_path / "parts").iterdir()) == []


# ---------------------------------------------------------------- bad files


def test_a_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no training data at .*none.npz: extract it in Blender, or import"):
        pose_set.load(tmp_path / "none.npz")


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises((ValueError, OSError), match=tmp_path.name):
        pose_set.load(tmp_path)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npz").touch()
    with pytest.raises(ValueError, match=r"a.npz: expected training data \(.npz\), got an empty file"):
        pose_set.load(tmp_path / "a.npz")


def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    pose_set.save(tmp_path / "a.npz", small())
    whole = (tmp_path / "a.npz").read_bytes()
    for share in np.linspace(0, 1, 60, endpoint=False):
        (tmp_path / "a.npz").write_bytes(whole[: int(share * len(whole)) + 1])
        with pytest.raises(ValueError, match=r"^a.npz: "):
            pose_set.load(tmp_path / "a.npz")


@pytest.mark.slow
def test_a_damaged_file_is_refused_or_read_but_never_crashes(tmp_path: Path, rng: np.random.Generator) -> None:
    pose_set.save(tmp_path / "a.npz", small())
    whole = np.frombuffer((tmp_path / "a.npz").read_bytes(), np.uint8)
    words = []
    for _ in range(150):
        bad = whole.copy()
        bad[rng.integers(0, len(bad), rng.integers(1, 9))] ^= rng.integers(1, 256, dtype=np.uint8)
        (tmp_path / "a.npz").write_bytes(bad.tobytes())
        try:
            pose_set.load(tmp_path / "a.npz")
        except ValueError as error:
            words.append(str(error))
    assert len(words) > 100
    assert all(w.startswith("a.npz: ") and "\n" not in w for w in words)


@pytest.mark.parametrize(
    "content", [b"\0", b"hello\n", b"PK\3\4" + b"\0" * 40, b"\x93NUMPY" + b"\0" * 40, b"\x80\4K\1.", os.urandom(500)]
)
def test_what_is_no_npz_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"a.npz: expected training data \(.npz\) without pickled objects, got"):
        pose_set.load(tmp_path / "a.npz")


def test_a_single_array_is_refused(tmp_path: Path) -> None:
    with open(tmp_path / "a.npz", "wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ValueError, match="single array"):
        pose_set.load(tmp_path / "a.npz")


class Trap:
    """Pickled, it makes a file when opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return (open, (str(self.path), "w"))


def test_pickled_content_is_refused_unopened(tmp_path: Path) -> None:
    found = fields(tmp_path)
    found["clip_names"] = np.array([Trap(tmp_path / "sprung")] * 3, dtype=object)
    np.savez(tmp_path / "a.npz", **found)
    with pytest.raises(ValueError, match=r"a.npz: .*pickled content, which is refused unopened"):
        pose_set.load(tmp_path / "a.npz")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("name", ["parents", "rot", "bone_names", "clip"])
def test_a_member_that_is_no_array_is_refused(name: str, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as out:
        for field, array in fields(tmp_path).items():
            data = io.BytesIO()
            np.save(data, array)
            out.writestr(f"{field}.npy", b"X" * (field == name) + data.getvalue())
    with pytest.raises(ValueError, match=rf"^a.npz: expected training data .* \({name}: no NumPy array\)$"):
        pose_set.load(tmp_path / "a.npz")


def member(descr: str, shape: tuple[int, ...], megabytes: int = 0) -> Iterator[bytes]:
    """A .npy of zeros in pieces, whatever its size."""
    data = io.BytesIO()
    np.lib.format.write_array_header_1_0(data, {"descr": descr, "fortran_order": False, "shape": shape})
    yield data.getvalue()
    for _ in range(megabytes):
        yield bytes(1_000_000)


@pytest.mark.parametrize(
    ("name", "descr", "shape", "megabytes", "words"),
    [
        ("junk", "<f8", (25_000_000,), 200, ""),
        ("rot", "<f4", (724_638, 23, 3), 200, "rot: expands to 200 MB"),
        ("clip_names", "<U0", (10**13,), 0, "clip_names: an array of shape"),
        ("clip_names", "<U1", (2_000_000,), 8, "clip_names: expected at most 100,000 names"),
        ("rot", "<f4", (2**61, 23, 3), 0, "rot: an array of shape"),
        ("parents", "<i4", (2**40, 0), 0, "parents: an array of shape"),
    ],
)
def test_a_small_file_of_large_arrays_takes_neither_memory_nor_time(
    name: str, descr: str, shape: tuple[int, ...], megabytes: int, words: str, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
        for field, array in fields(tmp_path).items():
            if field != name:
                data = io.BytesIO()
                np.save(data, array)
                out.writestr(f"{field}.npy", data.getvalue())
        with out.open(f"{name}.npy", "w", force_zip64=True) as file:
            for piece in member(descr, shape, megabytes):
                file.write(piece)
    tracemalloc.start()
    begin = time.process_time()
    if words:
        with pytest.raises(ValueError, match=rf"^a.npz: .*{words}"):
            pose_set.load(tmp_path / "a.npz")
    else:
        assert pose_set.load(tmp_path / "a.npz").frames == 24
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()
    assert time.process_time() - begin < 2


def test_hours_without_motion_are_saved_so_that_they_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "EXPANDS_FREELY", 4 << 10)
    still = lengths(4000)
    still = replace(still, rot=np.zeros_like(still.rot))
    pose_set.save(tmp_path / "a.npz", still)
    assert pose_set.load(tmp_path / "a.npz").frames == 4000
    monkeypatch.undo()
    pose_set.save(tmp_path / "b.npz", still)
    assert 20 * (tmp_path / "b.npz").stat().st_size < (tmp_path / "a.npz").stat().st_size


def test_checking_and_shortening_rotations_takes_little_memory() -> None:
    base = lengths(40_000)
    rot = np.full(base.rot.shape, 2.5, np.float32)  # beyond half a turn
    tracemalloc.start()
    made = pose_set.make(base.skeleton, rot, base.root_pos, base.clip, base.clip_names)
    assert tracemalloc.get_traced_memory()[1] < 2.5 * rot.nbytes
    tracemalloc.stop()
    angle = np.linalg.norm(rot[0, 0].astype(np.float64))
    np.testing.assert_allclose(made.rot, rot * (1 - 2 * np.pi / angle), rtol=1e-6)


def test_an_encrypted_archive_is_refused(tmp_path: Path) -> None:
    pose_set.save(tmp_path / "a.npz", small())
    content = bytearray((tmp_path / "a.npz").read_bytes())
    for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = content.find(mark)
        while at >= 0:
            content[at + offset] |= 1
            at = content.find(mark, at + 4)
    (tmp_path / "a.npz").write_bytes(content)
    assert zipfile.ZipFile(tmp_path / "a.npz").infolist()[0].flag_bits & 1
    with pytest.raises(ValueError, match=r"a.npz: expected training data"):
        pose_set.load(tmp_path / "a.npz")


NEEDED = ("schema", "bone_names", "parents", "rest_arm", "rot", "root_pos", "clip", "clip_names", "clip_tasks")
NEEDED += ("clip_fps", "effectors", "feet")


@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_field_is_named(name: str, tmp_path: Path) -> None:
    found = fields(tmp_path)
    del found[name]
    np.savez(tmp_path / "a.npz", **found)
    with pytest.raises(ValueError, match=f"a.npz: expected the fields of training data, missing {name}"):
        pose_set.load(tmp_path / "a.npz")


def with_value(array: np.ndarray, value: float) -> np.ndarray:
    out = np.array(array, np.float64)
    out[tuple(0 for _ in out.shape)] = value
    return out


CHANGES: dict[str, tuple[str, Callable[[np.ndarray], Any], str]] = {
    "older schema": ("schema", lambda a: 0, "expected schema 1, got 0; extract or import"),
    "newer schema": ("schema", lambda a: 2, "expected schema 1, got 2"),
    "schema of text": ("schema", lambda a: "one", "expected schema 1"),
    "many schemas": ("schema", lambda a: [1, 1], "expected schema 1"),
    "NaN": ("rot", lambda a: with_value(a, np.nan), "rot: expected finite numbers, got NaN or infinity in 1 frames"),
    "infinity": ("root_pos", lambda a: with_value(a, np.inf), "root_pos: expected finite numbers"),
    "rotations out of all bounds": ("rot", lambda a: with_value(a, 1e30), "rot: "),
    "rotations as text": ("rot", lambda a: a.astype("U9"), "rot: expected numbers"),
    "complex rotations": ("rot", lambda a: a.astype(complex), "rot: expected numbers"),
    "flat rotations": ("rot", lambda a: a.reshape(len(a), -1), r"rot: expected \(frames, 23, 3\) for this rig"),
    "quaternions": ("rot", lambda a: np.zeros((24, 23, 4)), r"got \(24, 23, 4\)"),
    "no frames": ("rot", lambda a: a[:0], "no frames"),
    "one number": ("rot", lambda a: 3.0, "rot: "),
    "fewer roots": ("root_pos", lambda a: a[:-1], r"root_pos: expected \(24, 3\), got \(23, 3\)"),
    "unsorted clips": ("clip", lambda a: a[::-1], "the frames of each clip together"),
    "clips beyond the names": (
        "clip",
        lambda a: a + 1,
        r"clip: expected numbers from 0 to 2 \(3 clip names\), got 1 to 3",
    ),
    "negative clips": ("clip", lambda a: a - 1, "got -1 to 1"),
    "fractional clips": ("clip", lambda a: a + 0.5, "clip: expected .* integers"),
    "names as numbers": ("bone_names", lambda a: np.arange(23), "bone_names: expected a list of names"),
    "names as bytes": ("clip_names", lambda a: a.astype("S9"), "clip_names: expected a list of names"),
    "repeated bones": ("bone_names", lambda a: np.array(["Hips"] * 23), "must differ"),
    "another task": (
        "clip_tasks",
        lambda a: np.array(["flying"] * 3),
        "clip_tasks: expected 3 of idle, .*, got flying",
    ),
    "fewer tasks": ("clip_tasks", lambda a: a[:2], "clip_tasks: expected 3 of"),
    "fewer names": ("clip_names", lambda a: a[:2], "clip: expected numbers from 0 to 1"),
    "zero frame rate": ("clip_fps", lambda a: a * 0, "clip_fps: expected positive frame rates, got 0"),
    "an endless frame rate": ("clip_fps", lambda a: a * np.inf, "clip_fps: expected positive"),
    "a frame rate beyond all": ("clip_fps", lambda a: a * 1e300, "clip_fps: expected positive"),
    "places beyond the moon": ("root_pos", lambda a: a + 4e9, "root_pos: expected metres"),
    "a rest beyond the moon": ("rest_arm", lambda a: with_value(a, 1e300), "rest matrices must be finite, in metres"),
    "a T-pose out of all bounds": ("t_pose", lambda a: a + 1e30, "T-pose .* in radians"),
    "limits out of all bounds": ("limits", lambda a: a * 1e30, "limits in radians"),
    "a ground beyond the moon": ("ground", lambda a: np.full(3, 1e30), "ground: expected .* finite heights in metres"),
    "NaN frame rate": ("clip_fps", lambda a: a * np.nan, "clip_fps: expected positive"),
    "fewer frame rates": ("clip_fps", lambda a: a[:2], r"clip_fps: expected .*\(2,\)"),
    "a cycle of parents": ("parents", lambda a: np.roll(a, 1), "parents before children"),
    "fractional parents": ("parents", lambda a: a.astype(float), "parents: expected integers"),
    "a scaled rest": ("rest_arm", lambda a: a * 2, "without scale"),
    "unknown effector": ("effectors", lambda a: np.array(["Tail"]), "no bone called Tail"),
    "no effector": ("effectors", lambda a: a[:0], "at least one effector"),
    "unknown foot": ("feet", lambda a: np.array(["Tail"]), "no bone called Tail"),
    "limits upside down": ("limits", lambda a: -a, "lower, upper"),
    "a T-pose of another rig": ("t_pose", lambda a: a[:-1], "T-pose"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_a_bad_field_is_refused_in_words(name: str, tmp_path: Path) -> None:
    field, change, words = CHANGES[name]
    found = fields(tmp_path)
    found[field] = np.asarray(change(found.get(field, np.zeros(3))))
    np.savez(tmp_path / "a.npz", **found)
    with pytest.raises(ValueError, match=f"^a.npz: .*{words}"):
        pose_set.load(tmp_path / "a.npz")


def test_zero_frames_are_refused(tmp_path: Path) -> None:
    found = fields(tmp_path)
    for name in ("rot", "root_pos", "clip"):
        found[name] = found[name][:0]
    np.savez(tmp_path / "a.npz", **found)
    with pytest.raises(ValueError, match=r"a.npz: no frames: expected at least one pose"):
        pose_set.load(tmp_path / "a.npz")


def test_unknown_fields_of_a_later_hand_do_no_harm(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", comment=np.array("by hand"), **fields(tmp_path))
    assert pose_set.load(tmp_path / "a.npz").frames == 24


# ---------------------------------------------------------------- whole or not at all


def no_space(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("call", ["os.fsync", "os.replace"])
def test_a_full_disk_leaves_the_old_file_and_no_rest(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(b"precious")
    monkeypatch.setattr(call, no_space)
    with pytest.raises(OSError, match=r"cannot write .*a.npz: No space left on device; nothing was changed there"):
        pose_set.save(path, small())
    assert path.read_bytes() == b"precious"
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def test_an_interrupted_write_leaves_no_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        pose_set.save(tmp_path / "a.npz", small())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_a_disk_that_fills_while_writing_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, mode: str) -> io.BufferedWriter:
        Path(path).touch()
        return open("/dev/full", "wb")  # type: ignore[return-value]

    monkeypatch.setattr(files, "open", full, raising=False)
    with pytest.raises(OSError, match="No space left on device; nothing was changed"):
        pose_set.save(tmp_path / "a.npz", small())
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"cannot make the folder .*file/deeper: Not a directory; choose another place"):
        pose_set.save(tmp_path / "file" / "deeper" / "a.npz", small())
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(OSError, match=r"cannot write .*folder.npz"):
        pose_set.save(tmp_path / "folder.npz", small())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "folder.npz"]


def test_missing_folders_are_made(tmp_path: Path) -> None:
    pose_set.save(tmp_path / "new" / "deeper" / "a.npz", small())
    assert pose_set.load(tmp_path / "new" / "deeper" / "a.npz").frames == 24


# ---------------------------------------------------------------- splits


def runs(parts: np.ndarray) -> list[tuple[int, int]]:
    """(part, frames) of one clip, in order."""
    ends = np.flatnonzero(np.diff(parts, append=-1)) + 1
    return [(int(parts[end - 1]), int(end - start)) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


@pytest.mark.parametrize(
    ("frames", "fps", "expected"),
    [
        (100, 30, [(TRAIN, 72), (UNUSED, 3), (VALIDATION, 11), (UNUSED, 3), (TEST, 11)]),
        (100, 60, [(TRAIN, 66), (UNUSED, 6), (VALIDATION, 11), (UNUSED, 6), (TEST, 11)]),
        (100, 5, [(TRAIN, 76), (UNUSED, 1), (VALIDATION, 11), (UNUSED, 1), (TEST, 11)]),
        (20, 30, [(TRAIN, 8), (UNUSED, 3), (VALIDATION, 3), (UNUSED, 3), (TEST, 3)]),
        (15, 30, [(TRAIN, 3), (UNUSED, 3), (VALIDATION, 3), (UNUSED, 3), (TEST, 3)]),
        (14, 30, [(TRAIN, 14)]),
    ],
)
def test_blocks_are_the_ends_of_clips_with_gaps(frames: int, fps: float, expected: list[tuple[int, int]]) -> None:
    poses = lengths(frames, 60, fps=fps)
    parts = splits.split(poses, "block")
    assert runs(parts[:frames]) == expected


def test_a_share_other_than_the_usual_is_kept_to() -> None:
    parts = splits.split(lengths(100), "block", share=0.2)
    assert runs(parts) == [(TRAIN, 54), (UNUSED, 3), (VALIDATION, 20), (UNUSED, 3), (TEST, 20)]


def test_whole_clips_are_held_out_by_the_seed() -> None:
    poses = lengths(*[10] * 20)
    parts = splits.split(poses, "clip", seed=4)
    of_clip = parts.reshape(20, 10)
    assert np.all(of_clip == of_clip[:, :1])
    assert [int(np.sum(of_clip[:, 0] == p)) for p in (TRAIN, VALIDATION, TEST)] == [16, 2, 2]
    order = np.random.default_rng(4).permutation(20)
    assert set(np.flatnonzero(of_clip[:, 0] == TEST)) == set(order[:2])
    np.testing.assert_array_equal(parts, splits.split(poses, "clip", seed=4))
    assert np.any(parts != splits.split(poses, "clip", seed=5))


def test_random_frames_are_held_out() -> None:
    poses = lengths(100, 100)
    parts = splits.split(poses, "frame", seed=1)
    assert [int(np.sum(parts == p)) for p in (UNUSED, TRAIN, VALIDATION, TEST)] == [0, 156, 22, 22]
    assert len(runs(parts)) > 50


@pytest.mark.parametrize("count", [2, 3, 5, 9])
def test_folds_test_every_clip_once(count: int) -> None:
    poses = lengths(*range(5, 15))
    found = splits.folds(poses, count, seed=2)
    tested = np.array([parts == TEST for parts in found])
    np.testing.assert_array_equal(tested.sum(axis=0), 1)
    order = np.random.default_rng(2).permutation(10)
    for i, parts in enumerate(found):
        assert {int(c) for c in np.unique(poses.clip[parts == TEST])} == set(order[i::count].tolist())
        for part in (TRAIN, VALIDATION):
            assert np.any(parts == part)
        for c in range(10):
            assert len(set(parts[poses.rows(c)].tolist())) == 1
        assert not np.any(parts == UNUSED)


def test_two_folds_of_three_clips_leave_something_to_train_on() -> None:
    for parts in splits.folds(lengths(30, 30, 30), 2):
        assert {TEST, TRAIN, VALIDATION} >= set(parts.tolist()) >= {TEST, VALIDATION}
    with pytest.raises(ValueError, match="folds: expected 2 to 2 folds for 3 clips, got 3"):
        splits.folds(lengths(30, 30, 30), 3)
    with pytest.raises(ValueError, match="folds: expected"):
        splits.folds(lengths(30, 30, 30), 1)


@pytest.mark.parametrize(
    ("kind", "frames"),
    [("block", (14,)), ("block", (1,)), ("block", (10, 12, 14)), ("clip", (50,)), ("clip", (50, 50)), ("frame", (8,))],
)
def test_nothing_left_to_hold_out_is_said(kind: str, frames: tuple[int, ...]) -> None:
    got = f"{len(frames)} clip{'s' * (len(frames) > 1)} with"
    with pytest.raises(ValueError, match=f"nothing left to hold out: the split '{kind}' needs .*, got {got}"):
        splits.split(lengths(*frames), kind)


def test_an_unknown_split_and_a_senseless_share_are_refused() -> None:
    with pytest.raises(ValueError, match="split: expected one of block, clip, frame, got 'half'"):
        splits.split(lengths(50), "half")
    for share in (0.0, 0.5, -1, float("nan")):
        with pytest.raises(ValueError, match=r"share held out: expected a number between 0 and 0.5"):
            splits.split(lengths(50), "block", share)


def test_thinning_keeps_evenly_spaced_training_frames_and_the_rest_untouched() -> None:
    parts = splits.split(lengths(100, 100), "block")
    thin = splits.thin(parts, 20)
    kept, rows = np.flatnonzero(thin == TRAIN), np.flatnonzero(parts == TRAIN)
    assert len(kept) == 20
    assert set(kept) <= set(rows)
    places = np.searchsorted(rows, kept)
    assert set(np.diff(places)) <= {7, 8}
    assert (kept[0], kept[-1]) == (rows[0], rows[-1])
    np.testing.assert_array_equal(thin[parts != TRAIN], parts[parts != TRAIN])
    np.testing.assert_array_equal(splits.thin(parts, 0), parts)
    np.testing.assert_array_equal(splits.thin(parts, 1000), parts)
    assert np.sum(splits.thin(parts, 1) == TRAIN) == 1


@pytest.mark.parametrize("name", ["reference", "a_pose", "creature"])
def test_another_body_turns_every_bone_as_it_did_and_strides_with_its_leg(name: str) -> None:
    poses = make_poses(make_rig(name), clips=2, frames=20)
    rig = poses.skeleton
    rest = rig.rest_arm.copy()
    rest[:, :3, 3] *= 0.4
    small_body = replace(rig, rest_arm=rest)
    found = pose_set.on_body(poses, small_body)
    np.testing.assert_allclose(small_body.to_core(found.rot), rig.to_core(poses.rot), atol=1e-5)
    np.testing.assert_allclose(found.root_pos, 0.4 * poses.root_pos, atol=1e-5)
    with pytest.raises(SkeletonMismatch, match="another skeleton"):
        pose_set.on_body(poses, make_rig("tentacle"))
