# SPDX-License-Identifier: GPL-3.0-or-later
"""However a program ends, or loses whoever was reading its output: nothing is lost, and the exit code says what happened."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from conftest import REPO, hear_hangups, make_poses, make_rig, run_cli

from neural_network.ik import network
from neural_network.learning import loop
from neural_network.motion import pose_set

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="Windows has neither these signals nor devices"),
]

ODD = REPO / "tests" / "odd"
ENDING = {getattr(signal, name): code for name, code in (("SIGTERM", 143), ("SIGHUP", 129)) if hasattr(signal, name)}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A body of three bones, which a small network learns in a second."""
    path = tmp_path_factory.mktemp("data") / "easy.npz"
    pose_set.save(path, make_poses(make_rig("tentacle")))
    return path


def trainer(data: Path, folder: Path, epochs: int, *more: str | Path) -> list[str | Path]:
    words: list[str | Path] = ["standalone_trainer.py", "--data", data, "--weights", folder / "best.npy"]
    return [*words, "--epochs", str(epochs), "--patience", "9999999", "--hidden", "8", "--no-beside", *more]


@pytest.fixture(scope="module")
def wanted(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, int]:
    """Weights and exit code of three epochs that nothing disturbed."""
    folder = tmp_path_factory.mktemp("wanted")
    code = run_cli(*trainer(data, folder, 3)).returncode
    return (folder / "best.npy").read_bytes(), code


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, int]:
    """Weights and exit code of twenty-four epochs that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    done = run_cli(*trainer(data, folder, 24))
    assert done.returncode in (0, 1), done.stderr
    return (folder / "best.npy").read_bytes(), done.returncode


@pytest.fixture(scope="module")
def stopped(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the weights of a training that was stopped, and the state to resume it from."""
    folder = tmp_path_factory.mktemp("stopped")
    words = trainer(data, folder, 300, "--cancel-file", folder / "cancel", "--progress", folder / "progress")
    with started(*words, stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: epochs_in(folder / "progress") >= 1)
        (folder / "cancel").touch()
        assert process.wait(60) == 130
    return folder


@contextmanager
def started(*words: str | Path, **settings: object) -> Iterator[subprocess.Popen[bytes]]:
    """A program under way, killed in the end if it still runs."""
    env = {**os.environ, "PYTHONPATH": str(REPO), "PYTHONUNBUFFERED": ""}
    first = [REPO / words[0], *words[1:]] if str(words[0]).endswith(".py") else list(words)
    settings.setdefault("preexec_fn", hear_hangups if os.name == "posix" else None)
    process = subprocess.Popen([sys.executable, *map(str, first)], cwd=REPO, env=env, **settings)  # type: ignore[call-overload]
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def wait_for(condition: object, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


def epochs_in(progress: Path) -> int:
    return len(progress.read_bytes().splitlines()) if progress.exists() else 0


# ---------------------------------------------------------------- nobody reads the output


@pytest.mark.parametrize("gone", ["closed", "full", "both closed"])
def test_a_training_goes_on_without_its_output_to_the_same_exit_code_and_bytes(
    gone: str, data: Path, wanted: tuple[bytes, int], tmp_path: Path
) -> None:
    words = trainer(data, tmp_path / "found", 3, "--json", tmp_path / "figures.json")
    out = open("/dev/full", "wb") if gone == "full" else subprocess.PIPE  # noqa: SIM115 - closed below
    err = subprocess.STDOUT if gone == "both closed" else subprocess.PIPE
    with started(*words, stdout=out, stderr=err) as process:
        if process.stdout is not None:
            process.stdout.readline()
            process.stdout.close()  # as head does
        said = process.stderr.read() if process.stderr is not None else b""
        assert process.wait(120) == wanted[1]
    if gone == "full":
        out.close()  # type: ignore[union-attr]
    assert said == b""
    assert (tmp_path / "found" / "best.npy").read_bytes() == wanted[0]
    assert json.loads((tmp_path / "figures.json").read_text())["tests"]
    assert sorted(p.name for p in (tmp_path / "found").iterdir()) == ["best.npy"]


@pytest.mark.parametrize("gone", ["closed", "full"])
def test_an_import_goes_on_without_its_output(gone: str, tmp_path: Path) -> None:
    words = ["-m", "neural_network", "import", ODD / "01_mixed_rotation_orders.bvh", "-o", tmp_path / "d.npz"]
    out = open("/dev/full", "wb") if gone == "full" else subprocess.PIPE  # noqa: SIM115 - closed below
    with started(*words, stdout=out, stderr=subprocess.PIPE) as process:
        if process.stdout is not None:
            process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(120) == 0
    if gone == "full":
        out.close()  # type: ignore[union-attr]
    assert pose_set.load(tmp_path / "d.npz").frames


def test_rows_that_cannot_be_written_end_no_import(tmp_path: Path) -> None:
    words = ["-m", "neural_network", "import", ODD / "01_mixed_rotation_orders.bvh", "-o", tmp_path / "d.npz"]
    done = run_cli(*words, "--json", "/dev/full")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("cannot write /dev/full: No space left on device; the import continues without it") == 1
    assert pose_set.load(tmp_path / "d.npz").frames


def test_help_for_a_reader_that_has_gone_is_no_error() -> None:
    for words in (("standalone_trainer.py", "--help"), ("-m", "neural_network", "import", "--help")):
        with started(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert (process.stderr.read(), process.wait(60)) == (b"", 0)


@pytest.mark.parametrize("flag", ["--progress", "--json"])
def test_a_full_disk_for_what_stands_beside_the_weights_is_reported_and_nothing_is_lost(
    flag: str, data: Path, tmp_path: Path
) -> None:
    done = run_cli(*trainer(data, tmp_path, 3, flag, "/dev/full"))
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert "cannot write /dev/full: No space left on device" in lines[0]
    assert done.returncode in ((2,) if flag == "--json" else (0, 1))  # the figures were asked for and are not there
    network.load(tmp_path / "best.npy")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["best.npy"]


# ---------------------------------------------------------------- signals


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_saves_a_training_as_ctrl_c_does(
    number: signal.Signals, data: Path, whole: tuple[bytes, int], tmp_path: Path
) -> None:
    progress = tmp_path / "progress"
    words = trainer(data, tmp_path / "ended", 24, "--progress", progress)
    with started(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_for(lambda: epochs_in(progress) >= 2)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == ENDING[number], (out, err)
    assert err == ""
    assert "The best weights so far" in out
    assert "To continue, add --resume to the same command." in out
    last = json.loads(progress.read_text().splitlines()[-1])
    assert last == {
        "done": True,
        "exit": ENDING[number],
        "weights": str(tmp_path / "ended" / "best.npy"),
        "saved": True,
    }
    assert sorted(p.name for p in (tmp_path / "ended").iterdir()) == ["best.npy", "best.resume.npz"]
    resumed = run_cli(*words, "--resume")
    assert resumed.returncode == whole[1], resumed.stderr
    assert (tmp_path / "ended" / "best.npy").read_bytes() == whole[0]


def test_a_signal_before_there_is_anything_to_save_changes_nothing(data: Path, tmp_path: Path) -> None:
    (tmp_path / "best.npy").write_bytes(b"mine")
    words = trainer(data, tmp_path, 9999999, "--augment", "2000000")  # an epoch takes for ever
    with started(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        while not process.stdout.readline().startswith("Samples"):
            pass
        process.terminate()
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (143, "")
    assert "Stopped at once; the weights on disk are unchanged." in out
    assert (tmp_path / "best.npy").read_bytes() == b"mine"
    assert [p.name for p in tmp_path.iterdir()] == ["best.npy"]


def test_a_training_under_nohup_survives_its_terminal(data: Path, tmp_path: Path) -> None:
    progress = tmp_path / "progress"
    words = trainer(data, tmp_path, 300, "--progress", progress)
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    with started(*words, stdout=subprocess.DEVNULL, preexec_fn=ignore) as process:
        wait_for(lambda: epochs_in(progress) >= 2)
        process.send_signal(signal.SIGHUP)
        seen = epochs_in(progress)
        wait_for(lambda: epochs_in(progress) > seen + 2 or process.poll() is not None)
        assert process.poll() in (None, 0, 1)


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_ends_an_import_which_goes_on_where_it_was(number: signal.Signals, tmp_path: Path) -> None:
    words = ["-m", "neural_network", "import", ODD, "-o", tmp_path / "d.npz"]
    with started(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for _ in range(8):
            process.stdout.readline()
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == ENDING[number]
    assert err == "stopped\n"
    assert [p.name for p in tmp_path.iterdir()] == [".d.npz.parts"]
    again = run_cli(*words)
    assert again.returncode == 0
    assert "ready from an earlier run" in again.stdout


def test_an_import_removes_its_parts_and_what_killed_ones_left_and_nothing_of_the_user(tmp_path: Path) -> None:
    folder = tmp_path / ".d.npz.parts"
    folder.mkdir()
    for name in ("0123456789abcdef01234567.npz", ".d.npz.99999999.part", "mine.npz"):
        (folder / name).write_bytes(b"half")
    words = ["-m", "neural_network", "import", ODD / "01_mixed_rotation_orders.bvh", "-o", tmp_path / "d.npz"]
    assert run_cli(*words).returncode == 0
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*")) == [
        ".d.npz.parts",
        ".d.npz.parts/mine.npz",
        "d.npz",
    ]
    (folder / "mine.npz").unlink()
    assert run_cli(*words).returncode == 0
    assert [p.name for p in tmp_path.iterdir()] == ["d.npz"]


# ---------------------------------------------------------------- the program that started it


def test_a_trainer_ends_and_saves_when_the_program_that_started_it_is_killed(data: Path, tmp_path: Path) -> None:
    progress = tmp_path / "progress"
    words = trainer(data, tmp_path, 9999999, "--progress", progress, "--end-with-input")
    script = (
        "import subprocess, sys\n"
        "process = subprocess.Popen([sys.executable, *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)\n"
        "print(process.pid, flush=True)\n"
        "process.wait()\n"
    )
    with started("-c", script, REPO / words[0], *words[1:], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        wait_for(lambda: epochs_in(progress) >= 2)
        parent.kill()
    wait_for(lambda: json.loads(progress.read_text().splitlines()[-1]).get("done"))
    assert json.loads(progress.read_text().splitlines()[-1])["saved"]
    network.load(tmp_path / "best.npy")
    assert (tmp_path / "best.resume.npz").exists()
    with pytest.raises(ProcessLookupError):
        wait_for(lambda: os.kill(child, 0))


def test_without_being_asked_a_trainer_does_not_mind_the_end_of_its_input(data: Path, tmp_path: Path) -> None:
    assert run_cli(*trainer(data, tmp_path, 3)).returncode in (0, 1)  # its input is /dev/null


# ---------------------------------------------------------------- damaged and left over


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step", None),
        ("epoch", "x"),
        ("parameters", np.zeros(3)),
        ("first", np.array(1.0)),
        ("best_value", []),
        ("spent", None),
        ("rng", {}),
        ("step", 2**70),
        ("all", np.zeros(3)),
        ("about", np.array(1 << 40)),
    ],
)
def test_a_damaged_stopped_training_is_refused_in_one_sentence(
    name: str, value: object, data: Path, stopped: Path, tmp_path: Path
) -> None:
    words = trainer(data, tmp_path, 300)
    for file in (tmp_path / "best.npy", loop.state_path(tmp_path / "best.npy")):
        shutil.copy(stopped / file.name, file)
    path = loop.state_path(tmp_path / "best.npy")
    with np.load(path) as found:
        arrays = {key: found[key] for key in found.files}
    if name == "all":
        arrays |= dict.fromkeys(loop._ARRAYS, np.asarray(value))
    elif name in arrays:
        arrays[name] = np.asarray(value)
    else:
        about = {**json.loads(bytes(arrays["about"])), name: value}
        arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez(path, **arrays)  # type: ignore[arg-type]
    before = (tmp_path / "best.npy").read_bytes()
    done = run_cli(*words, "--resume")
    assert done.returncode == 2, (done.stdout, done.stderr)
    assert len(done.stderr.strip().splitlines()) == 1
    assert "train without --resume" in done.stderr
    assert (tmp_path / "best.npy").read_bytes() == before


def test_the_next_training_removes_what_a_killed_one_left_and_nothing_of_the_user(data: Path, tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    mine = [tmp_path / name for name in (".best.npy.part", "best.npy.tmp", ".other.npy.1.part", "best.part")]
    left = [tmp_path / f".{name}.{gone.pid}.part" for name in ("best.npy", "best.resume.npz", "figures.json")]
    for path in (*mine, *left):
        path.write_bytes(b"half")
    (tmp_path / "cancel").touch()
    more = ("--json", tmp_path / "figures.json", "--cancel-file", tmp_path / "cancel")
    assert run_cli(*trainer(data, tmp_path, 2, *more)).returncode in (0, 1)
    assert sorted(tmp_path.iterdir()) == sorted([*mine, tmp_path / "best.npy", tmp_path / "figures.json"])


# ---------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("character", "tab Neural IK, Load Weights with this character selected; then"),
        ("elsewhere", "tab Neural IK, Load Weights, and as its File {}; then"),
    ],
)
def test_the_last_sentence_names_the_button_and_the_file(place: str, words: str, data: Path, tmp_path: Path) -> None:
    if place == "character":
        (tmp_path / "character.json").write_text("{}")
    done = run_cli(*trainer(data, tmp_path, 1))
    assert words.format(tmp_path.resolve() / "best.npy") in done.stdout


def test_a_trainer_that_was_stopped_twice_says_which_weights_are_there(data: Path, tmp_path: Path) -> None:
    assert run_cli(*trainer(data, tmp_path, 40)).returncode in (0, 1)
    before = (tmp_path / "best.npy").read_bytes()
    words = trainer(data, tmp_path, 9999999, "--progress", tmp_path / "progress")
    with started(*words, stdout=subprocess.PIPE, text=True) as process:
        wait_for(lambda: epochs_in(tmp_path / "progress") >= 1)
        process.terminate()
        out, _ = process.communicate(timeout=60)
    assert f"{tmp_path / 'best.npy'} already holds better ones" in out
    assert (tmp_path / "best.npy").read_bytes() == before


def test_batch_extract_shows_its_help_without_blender(tmp_path: Path) -> None:
    (tmp_path / "bpy.py").write_text("raise ModuleNotFoundError(\"No module named 'bpy'\", name='bpy')\n")
    env = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{REPO}"}
    done = run_cli("batch_extract.py", "--help", env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: batch_extract.py" in done.stdout
    done = run_cli("batch_extract.py", tmp_path, "-o", tmp_path / "d.npz", env=env)
    assert done.returncode == 2
    assert "this Python has no Blender (bpy); run it as blender --background" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["walk.fbx", "walk.glb", "walk.blend", "walk.bvh"])
def test_a_file_that_only_blender_reads_names_the_way(name: str, tmp_path: Path) -> None:
    contents = {"walk.bvh": b"Kaydara FBX Binary  \x00", "walk.blend": b"BLENDER-v500"}
    (tmp_path / name).write_bytes(contents.get(name, b"any"))
    for given in (tmp_path / name, tmp_path):
        done = run_cli("-m", "neural_network", "import", given, "-o", tmp_path / "d.npz")
        assert done.returncode == 2
        for way in ("in Blender", "Extract Data", "batch_extract.py"):
            assert way in done.stderr, (given, done.stderr)


def test_a_test_writes_json_to_its_output_where_no_file_is_named(data: Path, tmp_path: Path) -> None:
    assert run_cli(*trainer(data, tmp_path, 2)).returncode in (0, 1)
    words = ("-m", "neural_network", "test", "--weights", tmp_path / "best.npy", "--data", data)
    done = run_cli(*words, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["tests"]
    assert "PASS" in done.stderr or "FAIL" in done.stderr
    (tmp_path / "matplotlib.py").write_text("raise ImportError\n")
    done = run_cli(*words, "--report", tmp_path / "r.html", env={"PYTHONPATH": f"{tmp_path}{os.pathsep}{REPO}"})
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.strip().splitlines()) == 1
    assert "the report needs matplotlib: uv run --group report python -m neural_network test --report" in done.stderr
