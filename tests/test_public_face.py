# SPDX-License-Identifier: GPL-3.0-or-later
"""``from neural_network import Solver, Goals``: every public name is there, loads only its own rooms, and its examples run."""

from __future__ import annotations

import doctest
import json

import pytest
from conftest import REPO, run_cli

import neural_network

NAMES = ("Drag", "Goals", "PoseSet", "Session", "Skeleton", "Solution", "Solver")

BELOW = {
    "Drag": {"core", "motion", "learning", "ik"},
    "Skeleton": {"core"},
    "PoseSet": {"core", "motion"},
    "Goals": {"core", "motion", "ik"},
    "Solver": {"core", "motion", "learning", "ik"},
    "Session": {"core", "motion", "learning", "ik"},
    "Solution": {"core", "motion", "learning", "ik"},
}
"""The rooms that a name may load."""

LOADED = """
import json, sys
import neural_network
print(json.dumps([m for m in sys.modules if m.startswith("neural_network.") or m == "numpy"]))
found = {}
for name in sys.argv[1:]:
    for module in [m for m in sys.modules if m.startswith("neural_network")]:
        del sys.modules[module]
    exec(f"from neural_network import {name}")
    found[name] = sorted(m for m in sys.modules if m.startswith("neural_network."))
print(json.dumps(found))
"""


def test_the_public_names_are_these_and_each_is_a_documented_class() -> None:
    assert tuple(neural_network.__all__) == NAMES
    for name in NAMES:
        found = getattr(neural_network, name)
        assert found.__name__ == name
        assert (found.__doc__ or "").strip()
        assert name in dir(neural_network)


@pytest.mark.slow
def test_a_public_name_loads_no_room_beside_those_it_needs() -> None:
    done = run_cli("-c", LOADED, *NAMES)
    assert done.returncode == 0, done.stderr
    at_once, found = map(json.loads, done.stdout.splitlines())
    assert at_once == []  # the package itself loads nothing, not even NumPy
    for name, modules in found.items():
        assert {module.split(".")[1] for module in modules} <= BELOW[name], name
    assert "neural_network.ik.solver" not in found["Goals"]


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        AttributeError, match="has no attribute 'Sovler'; the public names are Drag, Goals, PoseSet, Session, Skeleton"
    ):
        neural_network.Sovler  # noqa: B018 - the access is the test


@pytest.mark.parametrize("name", ["Goals", "Solver.load", "Solver.solve", "Solver.solve_batch", "Solver.session"])
def test_the_example_in_a_docstring_gives_what_it_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPO)  # the examples load the shipped weights by a relative path
    owner, _, method = name.partition(".")
    subject = getattr(neural_network, owner)
    subject = getattr(subject, method) if method else subject
    parsed = doctest.DocTestParser().get_doctest(subject.__doc__, {}, name, None, 0)
    assert parsed.examples
    said: list[str] = []
    assert doctest.DocTestRunner(verbose=False).run(parsed, out=said.append).failed == 0, "".join(said)
