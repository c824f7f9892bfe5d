# SPDX-License-Identifier: GPL-3.0-or-later
"""What every ``WING eval`` does alike: its arguments, a line for each figure, the JSON document, the page, the exit code."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from ..core.files import keep_apart, write_whole
from ..core.messages import Say
from . import card, page
from .arguments import require_writable
from .card import Card, Data, Figure, NotReached

EXITS = "Exit codes: 0 all bars met, 1 a bar missed, 2 bad input."
"""The last words of every ``eval --help``."""
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Why: TypeAlias = Mapping[str, tuple[str, str]]
"""What was tried for a figure that is missed, and what holds it back, by words of its name."""


def add_command(
    commands: Commands, say: Say, run: Callable[[argparse.Namespace, Say], int], name: str, **texts: Any
) -> argparse.ArgumentParser:
    """Add the command ``name``, which ``run`` carries out; ``texts`` are its help, description and epilog."""
    parser = commands.add_parser(name, **texts)
    parser.set_defaults(run=lambda args: run(args, say))
    return parser


def add_eval(
    commands: Commands, say: Say, run: Callable[[argparse.Namespace, Say], int], **texts: Any
) -> argparse.ArgumentParser:
    """Add ``eval``, with the files that every wing's writes."""
    parser = add_command(commands, say, run, "eval", epilog=EXITS, **texts)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--report", type=Path, metavar="FILE.html", help="write them as a page")
    return parser


def require_files(args: argparse.Namespace, read: dict[str, Path | None]) -> None:
    """Raise ValueError or OSError, before anything is measured, where an output cannot be written or would overwrite an input."""
    keep_apart(read, {"--json": args.json, "--report": args.report})
    for path in (args.json, args.report):
        require_writable(path)


def line(figure: Figure) -> str:
    """A figure beside its bar and its rivals, as one line of a terminal."""
    bar = "" if figure.bar is None else f" (bar {figure.bar:.4g})"
    rivals = "".join(f"; {name} {value:.4g}" for name, value in figure.rivals.items())
    return f"{'ok  ' if figure.met else 'MISS'} {figure.name}: {figure.value:.4g} {figure.unit}{bar}{rivals}"


def evaluate(
    args: argparse.Namespace,
    say: Say,
    wing: str,
    version: str,
    data: Data,
    figures: Iterable[Figure],
    why: Why,
    sections: Callable[[], list[str]] = list,
) -> int:
    """Measure, say each figure as it comes, and write what was asked for; 1 where a bar is missed.

    ``figures`` measures as it is gone through; the longest key of ``why`` that a missed figure's name holds explains it,
    else the wing's page under docs does; ``sections`` makes further ones of the page (see :mod:`.page`), where ``--report``
    asks for it.
    """
    began = time.process_time()
    found: list[Figure] = []
    for figure in figures:
        found.append(figure)
        say(line(figure))
    missed = tuple(NotReached(f.name, *_reason(f.name, wing, why)) for f in found if not f.met)
    document = Card(wing, version, data, args.seed, time.process_time() - began, tuple(found), missed)
    if args.json is not None:
        write_whole(args.json, card.dumps(document))
    if args.report is not None:
        write_whole(args.report, _page(document, sections()).encode("utf-8", "backslashreplace"))
    say(f"{len(found) - len(missed)} of {len(found)} bars met or not set; {document.cpu_s:.0f} CPU s")
    return document.exit_code


def _reason(name: str, wing: str, why: Why) -> tuple[str, str]:
    key = max((part for part in why if part in name), key=len, default=None)
    return (f"see docs/{wing}.md",) * 2 if key is None else why[key]


def _page(document: Card, sections: list[str]) -> str:
    title = document.wing.capitalize()
    parts = [page.section(title, page.figures_table(document.figures)), *sections]
    if document.not_reached:
        rows = [page.TableRow(one.name, (one.tried, one.holds_back)) for one in document.not_reached]
        parts.append(page.section("What is missed", page.table(("Missed", "Tried", "What holds it back"), rows)))
    return page.page(title, parts)
