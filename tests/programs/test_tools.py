# SPDX-License-Identifier: GPL-3.0-or-later
"""The tools that keep the documentation whole, and what a type checker sees of the package."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from conftest import REPO, run_cli

import neural_network
from tools import check_links, rooms


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text, encoding="utf-8")


@pytest.mark.parametrize(
    ("module", "words", "missing"),
    [
        ("tools.bench_live", [], "bpy"),
        ("tools.bench_live", [], "numpy"),
        ("tools.bench_extract", [], "bpy"),
        ("tools.film", [], "bpy"),
        ("tools.live_picture", [], "bpy"),
        ("tests.fuzz", ["blender"], "bpy"),
        ("benchmarks.retarget", ["--pictures", "there"], "matplotlib"),
    ],
)
def test_a_program_without_a_module_that_it_needs_is_one_sentence(
    module: str, words: list[str], missing: str, tmp_path: Path
) -> None:
    hide = "import importlib.util as u, runpy, sys; f = u.find_spec; u.find_spec = lambda n, *a: None if n == "
    code = f"{hide}{missing!r} else f(n, *a); sys.argv = ['x', *{words!r}]; runpy.run_module({module!r}, run_name='__main__')"
    done = run_cli("-c", code, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"this Python has no {missing}: " in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ("other.md", ""),
        ("other.md#two-words", ""),
        ("other.md#two-words-1", ""),
        ("other.md#by-hand", ""),
        ("#here-and-now", ""),
        ("page.html#part", ""),
        ("https://example.com/nowhere", ""),
        ("missing.md", "leads to no file"),
        ("other.md#three-words", "leads to no anchor in other.md"),
        ("#elsewhere", "leads to no anchor in start.md"),
        ("page.html#other", "leads to no anchor in page.html"),
    ],
)
def test_a_link_leads_to_a_file_and_an_anchor_or_is_reported(link: str, fault: str, tmp_path: Path) -> None:
    write(
        tmp_path,
        start_md=f"# Here, and `now`\n\nSee [there]({link}).\n\n```\n[not a link](nowhere.md)\n```\n`[nor](this.md)`\n",
        other_md='# Two words\n# Two words\n<a id="by-hand"></a>\n',
        page_html="<h1 id='part'>Part</h1>",
    )
    check_links.read.cache_clear()
    found = list(check_links.broken(tmp_path / "start.md"))
    assert [fault in line for line in found] == ([True] if fault else [])
    assert all(line.startswith(f"{tmp_path / 'start.md'}:3: ") for line in found)


def test_a_broken_link_of_a_page_is_reported(tmp_path: Path) -> None:
    write(tmp_path, a_html='<a href="b.html#x">b</a>\n<img src="c.png">', b_html="<p id='y'></p>")
    check_links.read.cache_clear()
    faults = list(check_links.broken(tmp_path / "a.html"))
    assert [fault.split("a.html:")[1] for fault in faults] == [
        "1: b.html#x leads to no anchor in b.html",
        "2: c.png leads to no file",
    ]


def test_every_relative_link_in_the_documentation_leads_somewhere() -> None:
    files = check_links.markdown_files()
    assert REPO / "README.md" in files
    assert [fault for path in files for fault in check_links.broken(path)] == []


def test_a_site_that_is_not_there_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_links.main([str(tmp_path / "site")]) == 2
    assert "expected HTML pages" in capsys.readouterr().err


@pytest.mark.slow
def test_the_site_begins_with_the_public_face_and_its_links_lead_somewhere(tmp_path: Path) -> None:
    if importlib.util.find_spec("pdoc") is None:
        pytest.skip("needs the package pdoc (group docs)")
    done = run_cli("-m", "tools.build_docs", tmp_path / "site")
    assert done.returncode == 0, done.stderr
    first = (tmp_path / "site" / "index.html").read_text(encoding="utf-8")
    for name in neural_network.__all__:
        assert f'href="neural_network.html#{name}"' in first
    assert first.index("neural_network.html#Solver") < first.index("neural_network/core.html")
    assert (tmp_path / "site" / "neural_network" / "ik" / "solver.html").exists()
    done = run_cli("-m", "tools.check_links", tmp_path / "site")
    assert done.returncode == 0, done.stdout


def test_rooms_are_counted_with_the_arrows_between_them(tmp_path: Path) -> None:
    package = tmp_path / "neural_network"
    for room in ("core", "ik"):
        (package / room).mkdir(parents=True)
        (package / room / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "core" / "files.py").write_text("import os\n")
    (package / "ik" / "solver.py").write_text(
        "from ..core import files\nfrom ..core.files import x\nfrom . import goals\n"
    )
    (package / "ik" / "goals.py").write_text("def f():\n    from ..core.files import x\n")
    found = rooms.survey(tmp_path)
    assert found.rooms == {"core": 1, "ik": 2}
    assert found.arrows == {("ik", "core"): 2}


@pytest.mark.slow
def test_the_house_has_rooms_and_arrows() -> None:
    found = rooms.survey(REPO)
    assert ("ik", "learning") in found.arrows
    assert ("learning", "ik") not in found.arrows


TYPED = """
from neural_network import Goals, Solver
import numpy as np

solver = Solver.load("best.npy")
solution = solver.solve(Goals(np.zeros((5, 3)), np.zeros(3), np.zeros(3)))
reveal_type(solver)
reveal_type(solution)
wrong: int = Solver.load("best.npy")
"""


@pytest.mark.slow
def test_type_checkers_see_the_public_names(tmp_path: Path) -> None:
    assert (REPO / "neural_network" / "py.typed").exists()
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("needs the package mypy (group lint)")
    (tmp_path / "script.py").write_text(TYPED)
    words = ("-m", "mypy", "--strict", "--follow-imports", "silent", "--cache-dir", tmp_path / "cache", "script.py")
    done = run_cli(*words, cwd=tmp_path, env={"MYPYPATH": str(REPO)})
    assert 'Revealed type is "neural_network.ik.solver.Solver"' in done.stdout, done.stdout
    assert 'Revealed type is "neural_network.ik.solver.Solution"' in done.stdout, done.stdout
    assert [line for line in done.stdout.splitlines() if ": error: " in line] == [
        'script.py:9: error: Incompatible types in assignment (expression has type "Solver", variable has type "int")  '
        "[assignment]"
    ]
