# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules on files: which room may import which, what code outside ``blender/`` never does, and what no file may contain.

Modules are found by walking the tree. Only the order of the rooms is written down, in LEVELS and FEATURES.
"""

from __future__ import annotations

import ast
import functools
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import REPO, run_cli, without_host

CORE = REPO / "neural_network"

LEVELS = (
    ("__main__",),
    ("blender",),
    ("live", "shot"),
    ("formats", "gait", "prediction", "repair", "physics"),
    ("ik",),
    ("rigs",),
    ("motion", "learning"),
    ("core",),
)
"""Rooms of neural_network from top to bottom. A room may import itself and the rooms of the rows below it: never one above,
and never another of its own row, so the wings do not know each other. A new room gets its place here."""

FEATURES = (
    ("teach",),
    ("posing",),
    ("learn", "motion", "repair", "physics"),
    ("data", "roles", "effectors", "gait"),
    ("host",),
)
"""Folders of neural_network/blender from top to bottom, one for each thing an animator does; the same rule."""

LEARNING_KNOWS = ("files", "messages")
"""Modules of ``core`` that ``learning`` may import: it uses no skeleton and no rotation."""


@functools.cache
def repository_files() -> list[Path]:
    """Every file that git tracks or would add; without git, every file outside hidden folders."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=REPO,
            capture_output=True,
            check=True,
        ).stdout.decode()
        found = [REPO / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        found = [p for p in REPO.rglob("*") if not any(part.startswith(".") for part in p.relative_to(REPO).parts[:-1])]
    return sorted(p for p in found if p.is_file())


def python_files(folder: Path = REPO) -> list[Path]:
    return [p for p in repository_files() if p.suffix == ".py" and folder in (p, *p.parents)]


def parts_of(path: Path) -> tuple[str, ...]:
    """("neural_network", "formats", "bvh") of a file; a package's own file is named by its folder."""
    parts = path.relative_to(REPO).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


def is_blender(path: Path) -> bool:
    return parts_of(path)[:2] == ("neural_network", "blender")


def outside_blender() -> list[Path]:
    return [p for p in python_files(CORE) if not is_blender(p)]


def modules_of(paths: list[Path]) -> set[tuple[str, ...]]:
    return {parts_of(p) for p in paths}


def where(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(REPO).as_posix()}:{getattr(node, 'lineno', 1)}"


# ---- imports as the source has them


def import_faults(tree: ast.AST, path: Path) -> Iterator[str]:
    """Imports that would break where neural_network has another name, or that leave it."""
    depth = len(parts_of(path)) if path.name == "__init__.py" else len(parts_of(path)) - 1
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "neural_network":
                    yield f"{where(path, node)} imports {alias.name} by its full name: write a relative import"
        elif isinstance(node, ast.ImportFrom):
            if node.level == 0 and (node.module or "").split(".")[0] == "neural_network":
                yield f"{where(path, node)} imports {node.module} by its full name: write a relative import"
            elif node.level > depth:
                yield f"{where(path, node)} climbs above neural_network"


def imported(tree: ast.AST, path: Path, modules: set[tuple[str, ...]]) -> Iterator[tuple[ast.AST, tuple[str, ...]]]:
    """The modules of this repository that a file of neural_network imports, wherever in the file."""
    package = parts_of(path) if path.name == "__init__.py" else parts_of(path)[:-1]
    for node in nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1] + tuple(
                (node.module or "").split(".") if node.module else ()
            )
            for alias in node.names:
                yield node, ((*base, alias.name) if (*base, alias.name) in modules else base)


def level_faults(
    tree: ast.AST,
    path: Path,
    modules: set[tuple[str, ...]],
    levels: tuple[tuple[str, ...], ...] = LEVELS,
    package: tuple[str, ...] = ("neural_network",),
) -> Iterator[str]:
    """Imports that point up or sideways between the rooms of ``package``, and rooms that have no place in ``levels`` yet."""
    level = {name: row for row, names in enumerate(levels) for name in names}

    def room(module: tuple[str, ...]) -> str | None:
        return module[len(package)] if len(module) > len(package) else None

    own = room(parts_of(path))
    if own is not None and own not in level:
        yield f"{where(path, tree)}: the room {own!r} has no place yet, give it one in LEVELS of tests/test_walls.py"
        return
    for node, target in imported(tree, path, modules):
        if target[: len(package)] != package:
            continue  # the rule for all of neural_network covers it
        other = room(target)
        if other == own or (other is not None and other not in level):
            continue  # a room without a place is reported once, where it is
        if own is None:
            if not is_lazy(tree, node):
                yield f"{where(path, node)}: {'/'.join(package)}/__init__.py comes with every room: import inside functions only"
        elif other is None:
            yield f"{where(path, node)}: import from the room that has the name, not from the package itself"
        elif level[own] >= level[other]:
            side = "above" if level[own] > level[other] else "beside"
            yield f"{where(path, node)}: {own} may not import {other}, which is {side} it"


def is_lazy(tree: ast.AST, wanted: ast.AST) -> bool:
    """True where an import runs inside a function, or only for type checkers."""
    for node in nodes(tree):
        lazy = isinstance(node, ast.FunctionDef) or (
            isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        )
        if lazy and any(inner is wanted for inner in ast.walk(node)):
            return True
    return False


def circles(graph: dict[tuple[str, ...], set[tuple[str, ...]]]) -> list[str]:
    """Modules in a circle of imports: what is left when modules that import nothing are removed, again and again."""
    left = {module: {t for t in targets if t in graph and t != module} for module, targets in graph.items()}
    while free := [module for module, targets in left.items() if not targets & left.keys()]:
        for module in free:
            del left[module]
    return sorted(".".join(module) for module in left)


# ---- what the source never does

BANNED_MODULES = {
    "pickle": "pickle executes what it reads",
    "marshal": "marshal trusts what it reads",
    "shelve": "shelve is pickle",
    "dill": "dill is pickle",
    "joblib": "joblib is pickle",
    "threading": "threads crash Blender; long work is a generator",
    "_thread": "threads crash Blender; long work is a generator",
    "concurrent": "threads crash Blender; long work is a generator",
}


def habit_faults(tree: ast.AST, path: Path, *, may_print: bool) -> Iterator[str]:
    """Uses of pickle, eval, exec and threads, and of print where it is not allowed."""
    for node in nodes(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        for name in names:
            if name.split(".")[0] in BANNED_MODULES:
                yield f"{where(path, node)} imports {name}: {BANNED_MODULES[name.split('.')[0]]}"
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in {"eval", "exec", "__import__"}:
                yield f"{where(path, node)} calls {node.func.id}"
            if isinstance(node.func, ast.Name) and node.func.id == "print" and not may_print:
                yield f"{where(path, node)} prints: code outside blender/ yields or returns, and its caller prints"
            for keyword in node.keywords:
                if keyword.arg == "allow_pickle" and not (
                    isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                ):
                    yield f"{where(path, node)} allows pickle"


def is_main_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def sys_path_faults(tree: ast.Module, path: Path, *, main_guard_may: bool) -> Iterator[str]:
    """Uses of sys.path, except in the main guard where that is allowed."""
    for statement in tree.body:
        if main_guard_may and is_main_guard(statement):
            continue
        for node in nodes(statement):
            if isinstance(node, ast.Attribute) and node.attr == "path" and ast.unparse(node) == "sys.path":
                yield f"{where(path, node)} uses sys.path"
            if isinstance(node, ast.ImportFrom) and node.module == "sys" and any(a.name == "path" for a in node.names):
                yield f"{where(path, node)} uses sys.path"


MACHINE = {
    "a path of one machine": re.compile(r"(?<![\w.])/(?:work|root|home/\w+|Users/\w+|tmp/\w+)/|[A-Z]:\\+Users\\"),
    "the host of a package registry": re.compile(
        r"pypi\.org|pythonhosted\.org|deb\.debian\.org|debian\.org/debian|registry\.npmjs|npmjs\.(?:org|com)",
        re.I,
    ),
}


def machine_faults(text: str, name: str) -> Iterator[str]:
    found_in = {what: pattern for what, pattern in MACHINE.items() if pattern.search(text)}
    for number, line in enumerate(text.splitlines() if found_in else (), 1):
        for what, pattern in found_in.items():
            if found := pattern.search(line):
                yield f"{name}:{number} holds {what}: {found[0]}"


def has_licence_line(text: str) -> bool:
    lines = text.splitlines()[:2]
    return "# SPDX-License-Identifier: GPL-3.0-or-later" in (
        lines[1:] if lines and lines[0].startswith("#!") else lines[:1]
    )


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@functools.cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a tree; the trees of files are shared, so each is walked once."""
    return tuple(ast.walk(tree))


def complain(faults: list[str]) -> None:
    assert not faults, "\n" + "\n".join(faults)


# ---- the rules

ALONE = """
import importlib, importlib.machinery, json, sys, types
import numpy

allowed = set(sys.stdlib_module_names) | {"numpy", "neural_network", "bl_ext"}

class Wall:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in allowed:
            raise ImportError(name + " is neither NumPy nor a part of Python")

sys.meta_path.insert(0, Wall())
root, (prefixes, names, alone) = sys.argv[1], map(json.loads, sys.argv[2:])
faults = []
for prefix in prefixes:
    for name in names:
        for loaded in [m for m in sys.modules if alone and m.split(".")[0] in ("neural_network", "bl_ext")]:
            del sys.modules[loaded]
        above = ""
        for part in prefix.split(".")[:-1]:  # packages as Blender makes them for an extension
            above = above + "." + part if above else part
            sys.modules[above] = types.ModuleType(above)
            sys.modules[above].__path__ = [root] if part == "neural_ik" else []
        before = list(sys.path)
        try:
            importlib.import_module(prefix + name)
        except BaseException as error:
            faults.append(f"{prefix}{name}: {type(error).__name__}: {error}")
        if sys.path != before:
            faults.append(f"{prefix}{name} changed sys.path")
        if prefix and any(m.split(".")[0] == "neural_network" for m in sys.modules):
            faults.append(f"{prefix}{name} imported neural_network by its full name")
print(json.dumps(faults))
"""


AS_EXTENSION = "bl_ext.user_default.neural_ik."
"""What Blender puts before the name neural_network."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prefix", "alone"),
    [
        ("", False),
        pytest.param("", True, marks=pytest.mark.slow),
        pytest.param(AS_EXTENSION, True, marks=pytest.mark.slow),
    ],
    ids=["one after another", "each alone", "each alone in an extension"],
)
def test_every_module_outside_blender_imports_with_numpy_and_nothing_else(prefix: str, alone: bool) -> None:
    """In a fresh interpreter where importing bpy, or anything but NumPy, raises; under the name Blender gives it, too."""
    names = sorted(".".join(parts_of(p)) for p in outside_blender() if not p.name.startswith("torch_"))
    assert {"neural_network.core.rotations", "neural_network.learning.sequence"} <= set(names)
    done = run_cli("-c", ALONE, REPO, json.dumps([prefix]), json.dumps(names), json.dumps(alone))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 1, f"importing printed: {lines[:-1]}"
    complain(json.loads(lines[0]))


@pytest.mark.slow
def test_an_import_of_anything_else_is_seen(tmp_path: Path) -> None:
    package = tmp_path / "neural_network"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "guilty.py").write_text("import bpy\n")
    (package / "sly.py").write_text("from neural_network import innocent\n")
    (package / "innocent.py").write_text("try:\n    import psutil\nexcept ImportError:\n    psutil = None\n")
    names = [f"neural_network.{name}" for name in ("guilty", "sly", "innocent")]
    prefixes = json.dumps(["", AS_EXTENSION])
    words = (tmp_path, prefixes, json.dumps(names), "true")
    done = run_cli("-c", ALONE, *words, cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    faults = json.loads(done.stdout)
    assert [fault.split(":")[0] for fault in faults] == [
        "neural_network.guilty",
        "bl_ext.user_default.neural_ik.neural_network.guilty",
        "bl_ext.user_default.neural_ik.neural_network.sly imported neural_network by its full name",
    ]


def test_imports_inside_neural_network_are_relative_and_never_climb_above_it() -> None:
    complain([fault for path in python_files(CORE) for fault in import_faults(parse(path), path)])


def test_imports_point_down_only() -> None:
    paths = python_files(CORE)
    complain([fault for path in paths for fault in level_faults(parse(path), path, modules_of(paths))])


def test_features_in_blender_import_only_those_below_them() -> None:
    paths = [path for path in python_files(CORE) if is_blender(path)]
    package = ("neural_network", "blender")
    complain([f for path in paths for f in level_faults(parse(path), path, modules_of(paths), FEATURES, package)])


def skeleton_faults(tree: ast.AST, path: Path, modules: set[tuple[str, ...]]) -> Iterator[str]:
    """What ``learning`` imports beside itself and the few modules it may."""
    for node, target in imported(tree, path, modules):
        if target[1:2] != ("learning",) and not (
            target[1:2] == ("core",) and target[2:3] and target[2] in LEARNING_KNOWS
        ):
            yield f"{where(path, node)}: learning uses no skeleton, so it may not import {'.'.join(target)}"


def test_learning_uses_no_skeleton() -> None:
    paths = python_files(CORE)
    own = [path for path in paths if parts_of(path)[1:2] == ("learning",)]
    assert own
    complain([fault for path in own for fault in skeleton_faults(parse(path), path, modules_of(paths))])


def test_no_imports_go_in_a_circle() -> None:
    paths = python_files(CORE)
    modules = modules_of(paths)
    graph = {parts_of(path): {target for _, target in imported(parse(path), path, modules)} for path in paths}
    complain(circles(graph))


def test_code_outside_blender_has_no_print_no_pickle_no_eval_and_no_threads() -> None:
    complain(
        [
            fault
            for path in outside_blender()
            for fault in habit_faults(parse(path), path, may_print=path == CORE / "__main__.py")
        ]
    )


def test_the_rest_of_the_product_has_no_pickle_no_eval_and_no_threads_either() -> None:
    others = [p for p in python_files() if CORE not in p.parents or is_blender(p)]
    product = [p for p in others if p.relative_to(REPO).parts[0] != "tests"]
    complain([fault for path in product for fault in habit_faults(parse(path), path, may_print=True)])


def host_faults(tree: ast.Module, path: Path) -> Iterator[str]:
    """Imports of bpy by a test file outside of functions marked host."""
    marked = [node for node in tree.body if isinstance(node, ast.FunctionDef) and is_host(node)]
    inside = {id(node) for function in marked for node in nodes(function)}
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        if id(node) not in inside and any(name.split(".")[0] in ("bpy", "mathutils") for name in names):
            yield f"{where(path, node)} imports Blender: mark the test host, and import inside it"


def is_host(function: ast.FunctionDef) -> bool:
    return any("mark.host" in ast.unparse(decorator) for decorator in function.decorator_list)


def test_quick_tests_do_not_import_bpy(request: pytest.FixtureRequest) -> None:
    """Tests in ``host`` are all marked so by their conftest.py; those in ``window`` run inside Blender."""
    hosted = [REPO / "tests" / name for name in ("host", "window", "creature_rigs.py")]
    files = [
        path for path in python_files(REPO / "tests") if not any(place in (path, *path.parents) for place in hosted)
    ]
    assert Path(__file__) in files
    named = [path for path in files if re.search("bpy|mathutils", path.read_text(encoding="utf-8"))]
    complain([fault for path in named for fault in host_faults(parse(path), path)])
    if without_host(request.config):
        assert sys.modules["bpy"] is None  # so what slips through the rule above fails


def test_only_the_main_guards_of_the_programs_use_sys_path() -> None:
    product = [p for p in python_files() if p.relative_to(REPO).parts[0] != "tests"]
    programs = (REPO / "standalone_trainer.py", REPO / "batch_extract.py")
    named = [p for p in product if "path" in p.read_text(encoding="utf-8")]
    complain([f for p in named for f in sys_path_faults(parse(p), p, main_guard_may=p in programs)])


def test_importing_the_extension_does_not_import_bpy() -> None:
    door = REPO / "__init__.py"
    if not door.exists():
        pytest.skip("the repository has no __init__.py: it is not an extension yet")
    script = (
        "import importlib.util, sys\n"
        "sys.modules['bpy'] = None  # importing it raises\n"
        "door, root = sys.argv[1:]\n"
        "find = importlib.util.spec_from_file_location\n"
        "spec = find('neural_ik', door, submodule_search_locations=[root])\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "sys.modules['neural_ik'] = module\n"
        "spec.loader.exec_module(module)\n"
        "assert callable(module.register) and callable(module.unregister)\n"
    )
    done = run_cli("-c", script, door, REPO)
    assert done.returncode == 0, done.stderr


def test_every_python_file_begins_with_its_licence() -> None:
    files = python_files()
    assert files
    complain([p.relative_to(REPO).as_posix() for p in files if not has_licence_line(p.read_text(encoding="utf-8"))])


@pytest.mark.slow
def test_no_file_names_a_machine_or_a_registry() -> None:
    faults: list[str] = []
    for path in repository_files():
        content = path.read_bytes()
        if path.name == "LICENSE" or b"\0" in content[:4096]:
            continue
        faults += machine_faults(content.decode("utf-8", "replace"), path.relative_to(REPO).as_posix())
    complain(faults)


# ---- each rule can fail


@pytest.mark.parametrize(
    ("source", "file", "faults"),
    [
        ("from ..ik import solver", "neural_network/core/rotations.py", 1),
        ("from ..motion.clip import Clip", "neural_network/core/rotations.py", 1),
        ("def f():\n    from ..formats import bvh", "neural_network/core/rotations.py", 1),
        ("from ..learning import loop", "neural_network/motion/clip.py", 1),
        ("from ..repair import contacts", "neural_network/gait/panel.py", 1),
        ("from ..ik import solver", "neural_network/formats/bvh.py", 0),
        ("from ..core import rotations, files", "neural_network/motion/clip.py", 0),
        ("from . import rotations", "neural_network/core/skeleton.py", 0),
        ("from .. import __version__", "neural_network/core/skeleton.py", 1),
        ("from .core import rotations", "neural_network/__init__.py", 1),
        ("def f():\n    from .core import rotations", "neural_network/__init__.py", 0),
        ("", "neural_network/shed.py", 1),
        ("", "neural_network/shed/inner.py", 1),
    ],
)
def test_an_import_that_points_up_or_sideways_is_seen(source: str, file: str, faults: int) -> None:
    modules = {("neural_network", name) for row in LEVELS for name in row}
    modules |= {("neural_network", *name.split(".")) for name in ("motion.clip", "core.rotations", "formats.bvh")}
    assert len(list(level_faults(ast.parse(source), REPO / file, modules))) == faults


def test_a_feature_that_imports_one_above_it_is_seen() -> None:
    package = ("neural_network", "blender")
    modules = {(*package, name) for row in FEATURES for name in row}
    up = ast.parse("from ..posing import live_ik")
    assert len(list(level_faults(up, REPO / "neural_network/blender/host/rig.py", modules, FEATURES, package))) == 1
    assert not list(level_faults(up, REPO / "neural_network/blender/teach/driving.py", modules, FEATURES, package))


@pytest.mark.parametrize(
    ("source", "faults"),
    [("from ..core import skeleton", 1), ("from ..core.files import write_whole", 0), ("import os", 0)],
)
def test_a_skeleton_in_learning_is_seen(source: str, faults: int) -> None:
    modules = {("neural_network", "core", name) for name in ("skeleton", "files")}
    assert len(list(skeleton_faults(ast.parse(source), REPO / "neural_network/learning/loop.py", modules))) == faults


@pytest.mark.parametrize(
    ("source", "file", "faults"),
    [
        ("import neural_network.core", "neural_network/ik/solver.py", 1),
        ("from neural_network import core", "neural_network/ik/solver.py", 1),
        ("from ... import standalone_trainer", "neural_network/ik/solver.py", 1),
        ("from ..core import rotations", "neural_network/formats/bvh.py", 0),
        ("from ..core import rotations", "neural_network/formats/__init__.py", 0),
        ("from ... import x", "neural_network/formats/bvh.py", 1),
        ("from . import x\nimport numpy as np", "neural_network/__init__.py", 0),
    ],
)
def test_an_import_that_climbs_is_seen(source: str, file: str, faults: int) -> None:
    assert len(list(import_faults(ast.parse(source), REPO / file))) == faults


@pytest.mark.parametrize(
    "source",
    [
        "print(1)",
        "import pickle",
        "from pickle import loads",
        "import threading",
        "from concurrent.futures import ThreadPoolExecutor",
        "eval('1')",
        "exec('1')",
        "np.load(f, allow_pickle=True)",
        "np.load(f, allow_pickle=trust)",
    ],
)
def test_a_bad_habit_is_seen(source: str) -> None:
    assert len(list(habit_faults(ast.parse(source), REPO / "x.py", may_print=False))) == 1


def test_a_good_habit_is_left_alone() -> None:
    source = "np.load(f, allow_pickle=False)\nmodel.eval()\nre.compile('x')\nimport numpy"
    assert not list(habit_faults(ast.parse(source), REPO / "x.py", may_print=False))
    assert not list(habit_faults(ast.parse("print(1)"), REPO / "x.py", may_print=True))


def test_a_use_of_sys_path_is_seen_outside_of_the_main_guard_only() -> None:
    guarded = ast.parse("if __name__ == '__main__':\n    sys.path.insert(0, here)")
    assert not list(sys_path_faults(guarded, REPO / "x.py", main_guard_may=True))
    assert list(sys_path_faults(guarded, REPO / "x.py", main_guard_may=False))
    assert list(sys_path_faults(ast.parse("def f():\n    sys.path += [here]"), REPO / "x.py", main_guard_may=True))
    assert not list(sys_path_faults(ast.parse("os.path.join(a, sys.prefix)"), REPO / "x.py", main_guard_may=False))


def test_a_test_that_imports_bpy_without_a_mark_is_seen() -> None:
    marked = "@pytest.mark.host\ndef test_a():\n    import bpy"
    for source, faults in (("import bpy", 1), ("def test_a():\n    from mathutils import Matrix", 1), (marked, 0)):
        assert len(list(host_faults(ast.parse(source), REPO / "tests/test_x.py"))) == faults


def test_a_circle_is_seen() -> None:
    a, b, c = ("n", "a"), ("n", "b"), ("n", "c")
    assert circles({a: {b}, b: {c}, c: {a}}) == ["n.a", "n.b", "n.c"]
    assert circles({a: {b, c}, b: {c}, c: set()}) == []


def test_a_machine_path_and_a_registry_are_seen() -> None:
    dot = "."  # or this file would hold what it forbids
    bad = [f"/{'root'}/{dot}cache", f"see /{'work'}/main", f"https://pypi{dot}org/simple", f"C:\\{'Users'}\\me"]
    assert [len(list(machine_faults(line, "x"))) for line in bad] == [1] * len(bad)
    assert not list(machine_faults("the frame/" + "work/of art, ../shared/mocap, /usr/bin/env bash, /tmp", "x"))


def test_a_missing_licence_line_is_seen() -> None:
    line = "# SPDX-License-Identifier: GPL-3.0-or-later\n"
    assert has_licence_line(line + "x = 1")
    assert has_licence_line("#!/usr/bin/env python3\n" + line)
    assert not has_licence_line("")
    assert not has_licence_line("x = 1\n" + line)
