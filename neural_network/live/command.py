# SPDX-License-Identifier: GPL-3.0-or-later
"""The ``serve`` and ``live`` commands. They pass lines to ``say``; the caller prints them."""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..core.messages import counted
from ..formats import importing
from ..formats.command import add_unit_argument, add_up_argument, given_up_axis
from ..learning.arguments import number, positive
from .body import ServedBody, solving_body
from .replay import replay
from .server import PORT, Server, is_loopback
from .stop_signals import Stop, stop_signals
from .tasks import TASKS, LegMotion, motion_from_clip
from .trainee import STATES, Settings

TOKEN = "NIK_TOKEN"
"""Environment variable that holds the token: unlike an argument, it is hidden from other users of the computer."""

MOST_FAILURES = 10
"""Polls in a row that may fail before the server saves and ends."""

Say = Callable[[str], None]


def add_parsers(commands: argparse._SubParsersAction[argparse.ArgumentParser], say: Say) -> None:
    """Add the commands ``serve`` and ``live``; their output goes to ``say``."""
    _add_serve(commands, say)
    _add_live(commands, say)


def _add_serve(commands: argparse._SubParsersAction[argparse.ArgumentParser], say: Say) -> None:
    parser = commands.add_parser(
        "serve",
        help="run a server that learns a rig while it moves, drives it, and solves poses for games",
        description="Listen for rigs that stream their motion, learn from them, and answer with predicted bones and solved "
        "poses. What is learned is saved every half minute and at the end. Ctrl-C, SIGTERM, SIGHUP and closing the console "
        "save and exit. Exit codes: 0 everything is saved, 2 wrong options or something could not be saved. "
        "docs/protocol.md describes the protocol.",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on; other than this computer requires a token"
    )
    parser.add_argument("--port", type=number(int, 0, 65535), default=PORT, help="0 uses any free port (%(default)s)")
    parser.add_argument(
        "--token",
        help=f"token that clients must know; 'new' creates one. Safer in the environment variable {TOKEN}",
    )
    parser.add_argument("--folder", type=Path, default=Path("live_weights"), help="folder for weights (%(default)s)")
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="BEST.npy",
        help="trained network with which clients may solve the whole body of its rig; without it, solves are refused (none)",
    )
    parser.add_argument(
        "--threshold",
        type=positive(float),
        metavar="ERROR",
        help="a rig may drive once its error stays below this: metres for positions, radians for rotations, so that 0.02 is "
        "2 cm or about a degree (%(default)s)",
    )
    parser.add_argument(
        "--seconds", type=positive(float, zero=True), metavar="S", help="save and exit after this time (never)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.set_defaults(run=lambda args: run_serve(args, say), threshold=Settings().threshold)


def _add_live(commands: argparse._SubParsersAction[argparse.ArgumentParser], say: Say) -> None:
    parser = commands.add_parser(
        "live",
        help="evaluate live learning on recorded clips",
        description="Stream recorded clips, learn from them frame by frame, and evaluate on whole clips that were held out, "
        "compared with baselines that need no training. Give at least two clips. Exit codes: 0, or 2 for clips that cannot "
        "be read.",
    )
    parser.add_argument(
        "--replay", nargs="+", type=Path, required=True, metavar="FILE.bvh", help="clips of one character"
    )
    parser.add_argument(
        "--holdout",
        nargs="*",
        type=Path,
        default=[],
        metavar="FILE.bvh",
        help="clips to evaluate on, which are not learned from (every fourth clip of --replay)",
    )
    parser.add_argument("--task", nargs="+", choices=TASKS, default=list(TASKS), help="tasks to learn (all)")
    parser.add_argument(
        "--skip", type=positive(int, zero=True), default=0, metavar="N", help="skip each clip's first N frames (0)"
    )
    add_unit_argument(parser)
    add_up_argument(parser)
    parser.add_argument(
        "--live-frames", type=positive(int), default=800, metavar="N", help="report after N frames (%(default)s)"
    )
    parser.add_argument(
        "--frame-ms",
        type=positive(float, zero=True),
        default=2.0,
        metavar="MS",
        help="work per frame, of wall time unless --cpu-time is given (%(default)s)",
    )
    parser.add_argument(
        "--idle-ms",
        type=positive(float, zero=True),
        default=5.0,
        metavar="MS",
        help="training between later frames (%(default)s)",
    )
    parser.add_argument("--no-rotations", action="store_true", help="knee, calf: use the feet's positions only")
    parser.add_argument(
        "--no-limbs", action="store_true", help="knee: learn the position itself, not the angle on its circle"
    )
    parser.add_argument("--cpu-time", action="store_true", help="measure processor time only, for a busy computer")
    parser.add_argument(
        "--seed", type=positive(int, zero=True), default=0, metavar="N", help="of all random numbers (%(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    parser.set_defaults(run=lambda args: run_live(args, say))


def run_serve(args: argparse.Namespace, say: Say) -> int:
    """Serve until Ctrl-C, another signal that ends programs, or ``--seconds``; returns 0.

    Raises ValueError and OSError for wrong settings, a taken port, and, in the end, for rigs that could not be saved.
    """
    token = args.token or os.environ.get(TOKEN) or None
    if args.token == "new":
        token = secrets.token_urlsafe(24)
    body = _body(args.weights) if args.weights else None
    settings = Settings(threshold=args.threshold)
    server = Server(args.host, args.port, token=token, folder=args.folder, settings=settings, body=body)
    where = "this computer only" if is_loopback(args.host) else "any computer that knows the token"
    if args.json:
        say(json.dumps({"event": "listening", "host": args.host, "port": server.port, "token": token is not None}))
    else:
        say(f"listening at {args.host}:{server.port} for {where}; weights in {args.folder}; Ctrl-C saves and exits")
        if args.token == "new":
            say(f"token: {token}")
        if body is not None:
            say(f"solving {counted(len(body.names), 'bone')} with {args.weights}")
    gc.collect()
    gc.freeze()  # what is here stays: never look through it again while somebody waits for an answer
    with stop_signals() as stop:
        try:
            _serve(server, args, say, stop)
        finally:
            try:
                server.close()
            finally:
                for event in server.poll_events():
                    _say_event(event.kind, event.client, event.text, args.json, say)
    return 0


def _serve(server: Server, args: argparse.Namespace, say: Say, stop: Stop) -> None:
    start = shown = time.monotonic()
    before = (0, 0, 0)
    failures = 0
    while not stop.asked:
        server.wait(0.1)
        now = time.monotonic()
        try:
            for event in server.poll(now):
                _say_event(event.kind, event.client, event.text, args.json, say)
            failures = 0
        except Exception as error:  # a fault of ours: serve on, unless nothing works any more
            failures += 1
            _say_event("error", 0, f"the server failed: {type(error).__name__}: {error}", args.json, say)
            if failures >= MOST_FAILURES:
                raise OSError(f"the server failed {failures} times in a row, the last time: {error}") from error
        if now - shown >= 1:
            counts = (server.frames, server.predictions, server.solves)
            rates = [(a - b) / (now - shown) for a, b in zip(counts, before, strict=True)]
            if server.clients():
                say(_line(server, rates, args.json))
            shown, before = now, counts
        if args.seconds is not None and now - start >= args.seconds:
            return


def _line(server: Server, rates: list[float], as_json: bool) -> str:
    rigs = [(rig.name, rig.trainee.status()) for rig in server.rigs.values()]
    if as_json:
        states = [
            {"rig": n, "state": STATES[s.state], "paused": s.paused, "error": error, "frames": s.frames}
            for n, s in rigs
            for error in [s.usual if math.isfinite(s.usual) else None]  # JSON has no NaN
        ]
        rate = dict(zip(("frames", "predictions", "solves"), rates, strict=True))
        return json.dumps({"event": "second", "clients": server.clients(), **rate, "rigs": states})
    parts = [
        f"{n}: {STATES[s.state]}{' (paused)' * s.paused}, error {s.usual:.4f}, {counted(s.frames, 'frame')}"
        for n, s in rigs
    ]
    rate_text = f"{rates[0]:.0f} frames/s, {rates[1]:.0f} predictions/s, {rates[2]:.0f} solves/s"
    return "; ".join([f"{counted(server.clients(), 'client')}, {rate_text}", *parts])


def _say_event(kind: str, client: int, text: str, as_json: bool, say: Say) -> None:
    if as_json:
        say(json.dumps({"event": kind, "client": client, "text": text}))
    else:
        say(f"{kind}{f', client {client}' if client else ''}: {text}")


def _body(path: Path) -> ServedBody:
    from ..ik.solver import Solver

    return solving_body(Solver.load(path))


def run_live(args: argparse.Namespace, say: Say) -> int:
    """Replay and evaluate; returns 0. Raises ValueError and OSError for clips that cannot be read."""
    for path in (*args.replay, *args.holdout):
        if not path.exists():
            raise FileNotFoundError(f"live: expected .bvh files, and there is no {path}")
    learn = [p for p in args.replay if p not in args.holdout]
    hold = list(args.holdout)
    if not hold:
        hold = learn[3::4] or learn[-1:]
        learn = [p for p in learn if p not in hold]
    if not learn:
        raise ValueError("live: expected clips to learn from besides those held out; give at least two files")
    clips, tests = ([_motion(p, args) for p in paths] for paths in (learn, hold))
    if not args.json:
        say(
            f"learning from {counted(len(clips), 'clip')}, evaluated on {len(tests)} held out: {', '.join(m.name for m in tests)}"
        )
    for task in args.task:
        for report in replay(
            task,
            clips,
            tests,
            frame_seconds=args.frame_ms / 1e3,
            idle_seconds=args.idle_ms / 1e3,
            live_frames=args.live_frames,
            rotations=not args.no_rotations,
            limbs=not args.no_limbs,
            seed=args.seed,
            clock=time.thread_time if args.cpu_time else time.perf_counter,
        ):
            for line in [json.dumps(report)] if args.json else _lines(task, report):
                say(line)
    return 0


def _motion(path: Path, args: argparse.Namespace) -> LegMotion:
    return motion_from_clip(importing.read_clip(path, up_axis=given_up_axis(args), unit=args.unit), args.skip)


_ABOUT = {
    "knee": "knees in the pelvis' space from the feet",
    "calf": "calves in their thighs' space from the feet: the thigh's length, which a constant predicts exactly",
    "legs": "63 -> 24: six rotations from the previous pose and the feet's targets",
}


def _lines(task: str, report: dict[str, Any]) -> list[str]:
    if report["stage"] == "baselines":
        lines = ["", f"{task}: {_ABOUT[task]}"]
        return lines + [
            f"  {name.replace('_', ' '):28}{_figures(v)}" for name, v in report.items() if isinstance(v, dict)
        ]
    lines = [f"  {'learned, ' + report['stage']:28}{_figures(report)}"]
    for prefix, name in (("exact_", "... feet put on targets"), ("driven_", "... its own previous pose")):
        figures = {k.removeprefix(prefix): v for k, v in report.items() if k.startswith(prefix)}
        if figures:
            lines.append(f"  {name:28}{_figures(figures)}")
    cost = f"{report['ms_a_frame_mean']:.2f} ms per frame (p99 {report['ms_a_frame_p99']:.2f}; processor time "
    cost += f"{report['cpu_ms_a_frame_mean']:.2f}), {counted(report['steps'], 'step')}"
    return [*lines, f"  {'':28}{cost}, {report['seconds']:.1f} s, {report['state']}"]


def _figures(values: dict[str, Any]) -> str:
    units = {"_mm": "mm", "_cm2": "cm^2", "_deg": "deg"}
    parts = []
    for key, value in values.items():
        for end, unit in units.items():
            if key.endswith(end) and not key.startswith(("exact_", "driven_")):
                number = f"{value:.2e}" if end == "_cm2" or 0 < value < 0.005 else f"{value:.2f}"
                parts.append(f"{key.removesuffix(end)} {number} {unit}")
    return ", ".join(parts)
