# SPDX-License-Identifier: GPL-3.0-or-later
"""Print the rooms of the house and the arrows between them: which package imports which, and how often.

``python -m tools.rooms [REPOSITORY] [--within blender]``, from the root of the repository. A room is a package, or a module
that stands alone, directly inside ``neural_network`` (or inside the package named by ``--within``). An arrow from one room to
another is drawn where at least one file of the first imports something of the second; its number counts the modules that
are imported, once for each importing file. Imports inside functions and for type checkers count too.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
PACKAGE = "neural_network"


@dataclass(frozen=True)
class Survey:
    """The rooms of one package and the arrows between them."""

    rooms: dict[str, int]
    """Room -> how many files it has, ``__init__.py`` of a package not counted."""
    arrows: dict[tuple[str, str], int]
    """(from, to) -> how many modules of ``to`` the files of ``from`` import."""


def imported(path: Path, package: tuple[str, ...], modules: set[tuple[str, ...]]) -> set[tuple[str, ...]]:
    """The modules that the file at ``path``, in ``package``, imports relatively, wherever in the file."""
    found: set[tuple[str, ...]] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1] + tuple(
                (node.module or "").split(".") if node.module else ()
            )
            found |= {(*base, alias.name) if (*base, alias.name) in modules else base for alias in node.names}
    return found


def survey(repository: Path, within: str = "") -> Survey:
    """Rooms and arrows of ``neural_network`` in ``repository``, or of its package ``within`` (such as "blender")."""
    top = (PACKAGE, *(within.split("/") if within else ()))
    files = {path: path.relative_to(repository).with_suffix("").parts for path in repository.glob(f"{PACKAGE}/**/*.py")}
    modules = {parts[:-1] if parts[-1] == "__init__" else parts for parts in files.values()}
    rooms: Counter[str] = Counter()
    arrows: Counter[tuple[str, str]] = Counter()
    for path, parts in files.items():
        own = parts[len(top)] if parts[: len(top)] == top and len(parts) > len(top) else "__init__"
        if own == "__init__":  # the package's own file, or a file outside of it
            continue
        rooms[own] += parts[-1] != "__init__"
        for module in imported(path, parts[:-1], modules):
            if module[: len(top)] == top and len(module) > len(top) and module[len(top)] != own:
                arrows[own, module[len(top)]] += 1
    return Survey(dict(sorted(rooms.items())), dict(sorted(arrows.items())))


def lines(found: Survey) -> list[str]:
    """The survey as text: a room in each line with its files and its arrows, then the sums."""
    out = []
    for room, files in found.rooms.items():
        targets = ", ".join(f"{to} {n}" for (start, to), n in found.arrows.items() if start == room)
        out.append(f"{room:20s} {files:3d} files  -> {targets or '-'}")
    imports = sum(found.arrows.values())
    out.append(f"{len(found.rooms)} rooms, {len(found.arrows)} arrows between them, {imports} imports along them")
    return out


def main(arguments: list[str] | None = None) -> int:
    """Print the survey of a checkout; 2 where it has no such package."""
    parser = argparse.ArgumentParser(description="Print the rooms of neural_network and the arrows between them.")
    parser.add_argument("repository", nargs="?", type=Path, default=REPO, help="default: this one")
    parser.add_argument("--within", default="", help="a package inside neural_network, such as blender")
    args = parser.parse_args(arguments)
    found = survey(args.repository.resolve(), args.within)
    if not found.rooms:
        sys.stderr.write(
            f"rooms.py: expected {PACKAGE}/{args.within} in {args.repository}, got no Python files there\n"
        )
        return 2
    sys.stdout.write("\n".join(lines(found)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
