# SPDX-License-Identifier: GPL-3.0-or-later
"""Sending: the pose that a character shows, as VMC, to a program that understands it."""

from __future__ import annotations

import bpy
import numpy as np

from ...live import vmc
from ...live.body import served_body, wire_pose
from ...live.server import is_loopback
from ..host import rig, runtime
from ..host.rig import Rig
from . import session
from .session import Sending, state

SEND_EVERY = 0.5
"""[s] between two packets of a pose at rest, for receivers that started late or lost one."""


def send(ob: bpy.types.Object, host: str = "127.0.0.1", port: int = vmc.PORT_OUT) -> None:
    """Send the pose of ``ob`` whenever it changes, until ``stop_sending``. Raises ValueError where it cannot be sent.

    Another computer requires Online Access.
    """
    if state.send is not None:
        raise ValueError(f"the pose of {state.send.ob} is already sent: press Stop Sending first")
    if not is_loopback(host) and not session.online():
        raise ValueError(
            "Blender is not allowed to go online: enable Allow Online Access (Preferences > System), or send to 127.0.0.1"
        )
    own = rig.read(ob)
    if not _humanoid(own):
        raise ValueError(f"{ob.name} has no bones that VMC knows: VMC is for humanoids only")
    try:
        to = vmc.Sender(host, port)
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{host} is not an address that can be reached: {error}") from error
    state.send = Sending(ob.name, own, session.rig_key(ob), to, f"{host}:{port}")
    state.problem = ""
    session.start_timer()


def stop_sending() -> None:
    """Stop sending."""
    sending, state.send = state.send, None
    if sending is not None:
        sending.to.close()
    session.stop_timer_if_idle()


def step(now: float) -> None:
    """Send the pose if it has changed or was sent ``SEND_EVERY`` ago. Raises ValueError where sending has to stop."""
    sending = state.send
    assert sending is not None
    if not is_loopback(sending.address.rpartition(":")[0]) and not session.online():
        raise ValueError("stopped sending: Blender is not allowed to go online any more")
    ob = session.find_object(sending.ob)
    if ob.mode == "EDIT":
        return
    if sending.key != session.rig_key(ob):
        sending.rig, sending.key = rig.read(ob), session.rig_key(ob)
    root, turns = wire_pose(sending.rig.skeleton, *runtime.read_pose(ob, sending.rig))
    pose = np.concatenate([root, turns.ravel()])
    last = sending.pose
    same = last is not None and last.shape == pose.shape and bool(np.abs(pose - last).max() <= 1e-6)
    if same and 0 <= now - sending.moment < SEND_EVERY:
        return
    sending.pose, sending.moment = pose, now
    body = served_body(sending.rig.skeleton)
    humanoid = _humanoid(sending.rig)
    sending.to.send(vmc.vmc_messages(body.names, body.parents, body.offsets, root, turns, now, humanoid))


def _humanoid(own: Rig) -> dict[str, str]:
    """Names of the rig's bones that VMC knows -> their names in VMC."""
    pairs = zip(own.skeleton.names, own.roles, strict=True)
    return {name: vmc.HUMANOID[role] for name, role in pairs if role in vmc.HUMANOID}
