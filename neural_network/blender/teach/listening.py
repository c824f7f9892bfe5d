# SPDX-License-Identifier: GPL-3.0-or-later
"""Listening: Blender as a live server that engines connect to, served from the timer without waiting."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence

import bpy
import numpy as np

from ...core.skeleton import SkeletonMismatch
from ...ik.solver import Solver
from ...live.body import ServedBody, served_body, solving_body, wire_pose
from ...live.server import LEAST_TOKEN, PORT, Event, Server
from ...live.trainee import Settings
from ..host import evaluating, jobs, rig, rig_checks, runtime
from ..host.characters import weights_for
from ..host.rig import Rig
from . import driving, lessons, session
from .session import Lesson, state

WORK = 0.003
"""[s] of learning in a tick; reading and answering come on top."""
EVERYWHERE, HERE = "0.0.0.0", "127.0.0.1"
"""Addresses to listen on; the first requires a token and Online Access."""


def new_token() -> str:
    """Create a random token."""
    state.token = secrets.token_urlsafe(18)
    return state.token


def listen(
    ob: bpy.types.Object | None,
    port: int = PORT,
    everywhere: bool = False,
    token: str = "",
    threshold: float = Settings().threshold,
) -> int:
    """Let engines connect: to teach their rigs, to request predictions, and to see and solve the character ``ob``.

    ``everywhere`` lets other computers connect; it requires Online Access and a token. Port 0 uses any free port. Returns
    the port. Raises ValueError.
    """
    if state.server is not None:
        raise ValueError(f"already listening on port {state.server.port}: press Stop Listening first")
    if everywhere and not session.online():
        raise ValueError(
            "Blender is not allowed to go online: enable Allow Online Access (Preferences > System), or This Computer Only"
        )
    if everywhere and len(token) < LEAST_TOKEN:
        raise ValueError(f"other computers need a token of at least {LEAST_TOKEN} characters: press New Token")
    body, own, note = _body(ob)
    notes = lessons.save_all()
    try:
        server = Server(
            EVERYWHERE if everywhere else HERE,
            port,
            token=token or None,
            folder=session.folder(),
            settings=Settings(threshold=threshold),
            body=body,
        )
    except OSError as error:
        raise ValueError(
            f"port {port}: {error.strerror or error}; another program may be using it: choose another port"
        ) from error
    state.server, state.everywhere, state.problem = server, everywhere, notes
    state.served, state.served_rig, state.served_key = "", None, ()
    if ob is not None and own is not None:
        state.served, state.served_rig, state.served_key = ob.name, own, session.rig_key(ob)
    state.published = state.solved = None
    state.lines.clear()
    if note:
        state.lines.append(note)
    session.start_timer()
    return server.port


def stop_listening() -> None:
    """Save what clients have taught, close every connection and free the port."""
    server, state.server = state.server, None
    if server is None:
        return
    problem = ""
    try:
        server.close()
    except (OSError, ValueError) as error:
        problem = f"what clients taught could not be saved: {error}"
    finally:
        state.served, state.served_rig, state.solved = "", None, None
        _add_lines(server.poll_events())
        state.problem = problem or state.problem
        if state.drive is not None and state.drive.source == "CLIENT":
            driving.stop_driving()
        session.stop_timer_if_idle()
        jobs.redraw()


def serve(now: float) -> bool:
    """Serve every client once; whether the panel has to be redrawn."""
    server = state.server
    assert server is not None
    if state.everywhere and not session.online():
        stop_listening()
        state.problem = "stopped listening: Blender is not allowed to go online any more"
        return True
    events = server.poll(now, WORK)
    _add_lines(events)
    changed = bool(events)
    for fingerprint, taught in server.rigs.items():
        lesson = state.lessons.get(fingerprint)
        if lesson is None or lesson.trainee is not taught.trainee:
            lesson = Lesson(taught.name, taught.layout, taught.trainee, taught.file)
            state.lessons[fingerprint] = lesson
        if lesson.add_to_curve():
            state.latest = fingerprint
            changed = True
    if server.clients() and state.served_rig is not None and not evaluating.under_way():
        try:
            publish(server, now, any(event.kind == "handshake" for event in events))
        except ValueError as error:  # listening goes on without the character
            state.served_rig, state.problem = None, f"clients no longer see {state.served}: {error}"
    return changed


def publish(server: Server, now: float, unchanged: bool = False) -> None:
    """Send the character's pose to clients that watch, when it has changed, or also ``unchanged``.

    Raises ValueError where the character or its bones are gone.
    """
    ob = session.find_object(state.served)
    own = state.served_rig
    assert own is not None
    if ob.mode == "EDIT" or len(ob.pose.bones) != len(own.bones):
        return
    if state.served_key != session.rig_key(ob):
        found = session.refit(ob, own)
        if found is None:
            raise ValueError("its bones have changed; press Stop Listening, then Listen")
        own = found
        state.served_rig, state.served_key = own, session.rig_key(ob)
    root, turns = wire_pose(own.skeleton, *runtime.read_pose(ob, own))
    pose = np.concatenate([root, turns.ravel()])
    if unchanged or state.published is None or np.abs(pose - state.published).max() > 1e-6:
        state.published = pose
        server.publish(root, turns, now)


def _body(ob: bpy.types.Object | None) -> tuple[ServedBody | None, Rig | None, str]:
    """The character as clients see it, its rig, and a note where clients cannot see or solve it."""
    if ob is None:
        return None, None, "No character is selected for clients"
    try:
        net = weights_for(ob)
        own = rig_checks.usable(ob, net)
        body = solving_body(Solver(net, own.skeleton))
    except (SkeletonMismatch, ValueError, OSError) as error:
        try:
            own = rig.read(ob)
        except ValueError as worse:
            return None, None, f"Clients cannot see {ob.name}: {worse}"
        return served_body(own.skeleton), own, f"Clients can see {ob.name}, but not solve it: {error}"
    solve = body.solve
    assert solve is not None

    def solve_and_keep(*goals: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        root, turns, errors = solve(*goals)
        state.solved = root, turns
        return root, turns, errors

    return dataclasses.replace(body, solve=solve_and_keep), own, ""


def _add_lines(events: Sequence[Event]) -> None:
    for event in events:
        state.lines.append(f"Client {event.client}: {event.text}" if event.client else event.text)
        if event.kind == "error" and not event.client:  # of a file, or of learning: too long for a line
            state.problem = event.text
