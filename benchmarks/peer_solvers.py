# SPDX-License-Identifier: GPL-3.0-or-later
"""Other solvers on our skeleton: mink, pink, SciPy and JAX, each set up as its own documentation recommends.

The function of each solver takes the rig and the pose that serves as posture prior and returns a :class:`Peer`; it raises
ImportError where the package is not installed. Targets are in the axes of the Hips, with the Hips fixed at the origin, in
metres, and a pose is the core rotations (J, 3) [rad] with zeros in the Hips' row.

Joints are ball joints in core axes, so that a joint's rotation is our core rotation and no solver loses to gimbal lock; where
a solver can keep limits, the same rig with three limited hinges per joint is tried as well.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from neural_network.core import forward_kinematics as fk
from neural_network.core import rotations
from neural_network.core.skeleton import Skeleton

ITERATIONS = 50  # at most, for every solver that takes steps
NEAR = 1e-4  # [m] and [rad] * 10: errors below this count as converged
POSTURE = 1e-3  # [cost / rad] of the posture prior beside 1 [cost / m] for a target


@dataclass(frozen=True)
class Ask:
    """The targets of one pose, in the axes of the Hips."""

    positions: np.ndarray
    """(E, 3) [m] target positions of the effectors' heads."""
    turned: np.ndarray | None
    """(E, 3, 3) target rotations from the T-pose, or None for positions alone."""


@dataclass(frozen=True)
class Peer:
    """One solver; ``solve`` alone is timed."""

    how: str
    """How it was set up, for the report."""
    kept: int
    """[bytes] that it must keep in memory besides the rig."""
    load: Callable[[np.ndarray], Any]
    """Converts a pose (J, 3) to what the solver starts from."""
    solve: Callable[[Any, Ask], Any]
    """From there to the solver's answer."""
    pose: Callable[[Any], np.ndarray]
    """Converts an answer to a pose (J, 3)."""


def hinge_angles(rig: Skeleton, rot: np.ndarray) -> np.ndarray:
    """(J - 1, 3) [rad] about bone X, Z, Y, in this order, of core rotations (J, 3), within a half turn each."""
    local = np.einsum("jba,jb->ja", rig.basis, rot)
    m = rotations.matrix_from_axis_angle(local)[1:]
    # R = X(a) Z(b) Y(c): its second column is (-sin b, cos a cos b, sin a cos b), its first row (cos b cos c, -sin b, cos b sin c)
    b = np.arcsin(np.clip(-m[:, 0, 1], -1, 1))
    return np.stack([np.arctan2(m[:, 2, 1], m[:, 1, 1]), b, np.arctan2(m[:, 0, 2], m[:, 0, 0])], axis=1)


def hinge_rotations(rig: Skeleton, angles: np.ndarray) -> np.ndarray:
    """Core rotations (J, 3) of hinge angles (J - 1, 3) about bone X, Z, Y."""
    axes = np.eye(3)[[0, 2, 1]]
    x, z, y = (rotations.matrix_from_axis_angle(angles[:, k, None] * axes[k]) for k in range(3))
    out = np.zeros((rig.count, 3))
    out[1:] = np.einsum("jab,jb->ja", rig.basis[1:], rotations.axis_angle_from_matrix(x @ z @ y))
    return out


def hinge_limits(rig: Skeleton) -> np.ndarray:
    """(J - 1, 3, 2) [rad] range of each hinge: the rig's swing and twist limits as a box."""
    if rig.limits is None:
        raise ValueError("expected a rig with joint limits")
    return rig.limits[1:].reshape(-1, 3, 2)[:, [0, 2, 1]]


def mjcf(rig: Skeleton, hinges: bool = False) -> str:
    """The rig as MuJoCo XML: bodies named as bones, the Hips fixed at the origin, a ball joint or three hinges each."""
    children: dict[int, list[int]] = {}
    for j, parent in enumerate(rig.parents):
        children.setdefault(int(parent), []).append(j)

    def numbers(values: np.ndarray) -> str:
        return " ".join(f"{v:.9g}" for v in values)

    def body(j: int) -> str:
        if j == 0:
            joints = ""
        elif hinges:
            axes, limits = rig.basis[j][:, [0, 2, 1]].T, hinge_limits(rig)[j - 1]
            joints = "".join(
                f'<joint name="{rig.names[j]}.{c}" type="hinge" axis="{numbers(axis)}" range="{numbers(between)}"/>'
                for c, axis, between in zip("XZY", axes, limits, strict=True)
            )
        else:
            joints = f'<joint name="{rig.names[j]}" type="ball"/>'
        inertia = '<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'
        inner = "".join(body(c) for c in children.get(j, []))
        return f'<body name="{rig.names[j]}" pos="{numbers(rig.offsets[j])}">{joints}{inertia}{inner}</body>'

    return (
        f'<mujoco><compiler angle="radian" autolimits="true"/><option gravity="0 0 0"/>'
        f"<worldbody>{body(0)}</worldbody></mujoco>"
    )


def mink(rig: Skeleton, prior: np.ndarray, hinges: bool = False) -> Peer:
    """mink on MuJoCo: a frame task per effector, a posture task to the prior, steps until convergence."""
    import mink as library
    import mujoco
    from mink import SE3, SO3

    model = mujoco.MjModel.from_xml_string(mjcf(rig, hinges))
    configuration = library.Configuration(model)
    names = [rig.names[e] for e in rig.effectors]
    frames = [library.FrameTask(n, "body", position_cost=1.0, orientation_cost=1.0, lm_damping=1.0) for n in names]
    posture = library.PostureTask(model, cost=POSTURE)
    limits = [library.ConfigurationLimit(model)] if hinges else []

    def load(rot: np.ndarray) -> np.ndarray:
        if hinges:
            angles = np.clip(hinge_angles(rig, rot), *np.moveaxis(hinge_limits(rig), -1, 0))
            return angles.ravel()
        return rotations.quaternion_from_axis_angle(rot[1:]).ravel()

    def pose(q: np.ndarray) -> np.ndarray:
        if hinges:
            return hinge_rotations(rig, q.reshape(-1, 3))
        out = np.zeros((rig.count, 3))
        out[1:] = rotations.axis_angle_from_quaternion(q.reshape(-1, 4))
        return out

    def solve(q: np.ndarray, ask: Ask) -> np.ndarray:
        configuration.update(q)
        for e, task in enumerate(frames):
            if ask.turned is None:  # costs nothing, but the task's error is in the axes of the target
                turn = configuration.get_transform_frame_to_world(names[e], "body").rotation()
            else:
                turn = SO3.from_matrix(ask.turned[e])
            task.set_orientation_cost(0.0 if ask.turned is None else 1.0)
            task.set_target(SE3.from_rotation_and_translation(turn, ask.positions[e]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning that a problem without limits needs no quadratic program
            for _ in range(ITERATIONS):
                velocity = library.solve_ik(configuration, [*frames, posture], 1.0, "daqp", 1e-6, limits=limits)
                configuration.integrate_inplace(velocity, 1.0)
                errors = np.array([task.compute_error(configuration) for task in frames])
                if converged(errors[:, :3], None if ask.turned is None else errors[:, 3:]):
                    break
        return configuration.q.copy()

    posture.set_target(load(prior))
    kind = (
        "three hinges per joint with the rig's limits as configuration limits" if hinges else "ball joints, no limits"
    )
    how = (
        f"{kind}; FrameTask per effector (position cost 1, orientation cost 1 with orientations, lm_damping 1), "
        f"PostureTask to the mean pose (cost {POSTURE:g}, as in its documentation), solver daqp, full steps until every "
        f"target is within 0.1 mm (1 mrad), at most {ITERATIONS}"
    )
    return Peer(how, prior.size * 4, load, solve, pose)


def converged(apart: np.ndarray, turned: np.ndarray | None) -> bool:
    """Whether errors (E, 3) [m] and, with orientations, (E, 3) [rad] are below the tolerance of all solvers."""
    near = bool((apart * apart).sum(axis=1).max() < NEAR**2)
    return near and (turned is None or bool((turned * turned).sum(axis=1).max() < (10 * NEAR) ** 2))


def pink(rig: Skeleton, prior: np.ndarray, hinges: bool = False) -> Peer:
    """pink on Pinocchio: the same tasks on a model built joint by joint."""
    import pink as library
    import pinocchio as pin
    from pink.limits import ConfigurationLimit

    model = pinocchio_model(rig, hinges)
    data = model.createData()
    names = [rig.names[e] for e in rig.effectors]
    posture = library.tasks.PostureTask(cost=POSTURE)
    frames = {
        turned: [
            library.tasks.FrameTask(n, position_cost=1.0, orientation_cost=float(turned), lm_damping=1.0) for n in names
        ]
        for turned in (False, True)
    }

    def load(rot: np.ndarray) -> np.ndarray:
        if hinges:
            low, high = np.moveaxis(hinge_limits(rig), -1, 0)
            return np.clip(hinge_angles(rig, rot), low + 1e-6, high - 1e-6).ravel()
        return rotations.quaternion_from_axis_angle(rot[1:])[:, [1, 2, 3, 0]].ravel()

    def pose(q: np.ndarray) -> np.ndarray:
        if hinges:
            return hinge_rotations(rig, q.reshape(-1, 3))
        out = np.zeros((rig.count, 3))
        out[1:] = rotations.axis_angle_from_quaternion(q.reshape(-1, 4)[:, [3, 0, 1, 2]])
        return out

    def solve(q: np.ndarray, ask: Ask) -> np.ndarray:
        configuration = library.Configuration(model, data, q, copy_data=False)
        tasks = frames[ask.turned is not None]
        for e, task in enumerate(tasks):
            turn = (
                configuration.get_transform_frame_to_world(names[e]).rotation if ask.turned is None else ask.turned[e]
            )
            task.set_target(pin.SE3(turn, ask.positions[e]))
        limits = [model.configuration_limit] if hinges else []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(ITERATIONS):
                velocity = library.solve_ik(
                    configuration, [*tasks, posture], 1.0, "daqp", 1e-6, limits=limits, safety_break=False
                )
                configuration.integrate_inplace(velocity, 1.0)
                errors = np.array([task.compute_error(configuration) for task in tasks])
                if converged(errors[:, :3], None if ask.turned is None else errors[:, 3:]):
                    break
        return np.array(configuration.q)

    posture.set_target(load(prior))
    model.configuration_limit = ConfigurationLimit(model, config_limit_gain=1.0)
    kind = (
        "three hinges per joint with the rig's limits as configuration limits" if hinges else "ball joints, no limits"
    )
    how = (
        f"{kind}; FrameTask per effector and PostureTask to the mean pose with the costs of mink's row, solver daqp, "
        f"full steps until every target is within 0.1 mm (1 mrad), at most {ITERATIONS}"
    )
    return Peer(how, prior.size * 4, load, solve, pose)


def pinocchio_model(rig: Skeleton, hinges: bool = False) -> Any:
    """The rig as a Pinocchio model with a frame at each bone's head; the Hips are the universe."""
    import pinocchio as pin

    model = pin.Model()
    ids = {0: 0}
    for j in range(1, rig.count):
        placed = pin.SE3(np.eye(3), rig.offsets[j])
        parent = ids[int(rig.parents[j])]
        if hinges:
            for c, axis, (low, high) in zip("XZY", rig.basis[j][:, [0, 2, 1]].T, hinge_limits(rig)[j - 1], strict=True):
                joint, free, bounds = pin.JointModelRevoluteUnaligned(axis), np.full(1, 1e3), np.array([low, high])
                parent = model.addJoint(
                    parent, joint, placed, f"{rig.names[j]}.{c}", free, free, bounds[:1], bounds[1:]
                )
                placed = pin.SE3.Identity()
        else:
            parent = model.addJoint(parent, pin.JointModelSpherical(), placed, rig.names[j] + ".joint")
        ids[j] = parent
        model.addFrame(pin.Frame(rig.names[j], parent, 0, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    return model


def scipy(rig: Skeleton, prior: np.ndarray) -> Peer:
    """scipy.optimize.least_squares with the exact Jacobian, and the posture prior as further residuals."""
    from scipy.optimize import least_squares

    bones = np.array(rig.effectors)
    free = rig.count - 1

    def residual_and_jacobian(x: np.ndarray, ask: Ask) -> tuple[np.ndarray, np.ndarray]:
        width = 3 if ask.turned is None else 6
        rot = np.zeros((3, rig.count, 1))
        rot[:, 1:, 0] = x.reshape(free, 3).T
        turned, heads = fk.forward_components(rig, rot)
        rows = width * len(bones)
        out = np.empty(rows + x.size)
        apart = (heads[:, bones, 0].T - ask.positions).ravel()
        out[: len(apart)] = apart
        # each row is what the joints feel of a unit force or torque on one coordinate of one effector
        force, torque = np.zeros((3, len(bones), rows)), np.zeros((3, len(bones), rows))
        effector, coordinate = np.divmod(np.arange(3 * len(bones)), 3)
        force[coordinate, effector, np.arange(3 * len(bones))] = 1
        if ask.turned is not None:
            way = np.einsum("abe,ecb->eac", turned[:, :, bones, 0], ask.turned)  # D target^T
            log = rotations.axis_angle_from_matrix(way)
            out[len(apart) : rows] = log.ravel()
            into = left_jacobian_inverse(log)
            torque[:, effector, 3 * len(bones) + np.arange(3 * len(bones))] = into[effector, coordinate].T
        rot, turned, heads = (np.repeat(a, rows, axis=-1) for a in (rot, turned, heads))
        found = fk.backward_components(rig, rot, turned, heads, bones, force, torque)
        jacobian = np.empty((rows + x.size, x.size))
        jacobian[:rows] = found[:, 1:].transpose(2, 1, 0).reshape(rows, -1)
        out[rows:] = POSTURE * (x - prior[1:].ravel())
        jacobian[rows:] = POSTURE * np.eye(x.size)
        return out, jacobian

    def solve(x: np.ndarray, ask: Ask) -> np.ndarray:
        memory: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

        def at(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            key = y.tobytes()
            if key not in memory:
                memory.clear()
                memory[key] = residual_and_jacobian(y, ask)
            return memory[key]

        return least_squares(
            lambda y: at(y)[0], x, lambda y: at(y)[1], method="lm", xtol=1e-6, ftol=1e-6, max_nfev=ITERATIONS
        ).x

    def pose(x: np.ndarray) -> np.ndarray:
        return np.concatenate([np.zeros((1, 3)), x.reshape(-1, 3)])

    how = (
        "axis-angle variables; residuals: effector positions [m], orientation logarithms [rad] if given, and "
        f"{POSTURE:g} times the distance to the mean pose; the exact Jacobian; method lm (MINPACK), tolerances 1e-6, "
        f"at most {ITERATIONS} evaluations"
    )
    return Peer(how, prior.size * 4, lambda rot: rot[1:].ravel().copy(), solve, pose)


def left_jacobian_inverse(log: np.ndarray) -> np.ndarray:
    """(E, 3, 3) derivative of log(exp(d) R) at d = 0 for rotations with logarithm (E, 3)."""
    angle = np.linalg.norm(log, axis=-1)[:, None, None]
    x, y, z = log.T
    zero = np.zeros_like(x)
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero], axis=-1).reshape(-1, 3, 3)
    safe = np.maximum(angle, 1e-4)
    factor = 1 / safe**2 - (1 + np.cos(safe)) / (2 * safe * np.sin(safe))
    return np.eye(3) - 0.5 * cross + factor * (cross @ cross)


def jax(rig: Skeleton, prior: np.ndarray) -> Peer:
    """Levenberg-Marquardt in JAX (optimistix), compiled, with the costs that pyroki's examples use."""
    import jax as library
    import jax.numpy as jnp
    import optimistix

    library.config.update("jax_enable_x64", False)
    offsets = jnp.asarray(rig.offsets, jnp.float32)
    bones = np.array(rig.effectors)
    posture = jnp.asarray(prior[1:], jnp.float32)

    def exp(v: Any) -> Any:
        square = jnp.sum(v * v) + 1e-12
        angle = jnp.sqrt(square)
        x, y, z = v
        cross = jnp.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
        return jnp.eye(3) + jnp.sin(angle) / angle * cross + (1 - jnp.cos(angle)) / square * (cross @ cross)

    def forward(x: Any) -> tuple[Any, Any]:
        turns = library.vmap(exp)(x)
        turned = jnp.tile(jnp.eye(3), (rig.count, 1, 1))
        heads = jnp.zeros((rig.count, 3))
        for index, parent in rig.levels:
            heads = heads.at[index].set(heads[parent] + jnp.einsum("jab,jb->ja", turned[parent], offsets[index]))
            turned = turned.at[index].set(turned[parent] @ turns[index - 1])
        return turned[bones], heads[bones]

    def residual(x: Any, ask: Any) -> Any:
        positions, goal_turned, weight = ask
        turned, heads = forward(x)
        way = jnp.einsum("eab,ecb->eac", turned, goal_turned)
        axis = jnp.stack(
            [way[:, 2, 1] - way[:, 1, 2], way[:, 0, 2] - way[:, 2, 0], way[:, 1, 0] - way[:, 0, 1]], axis=1
        )
        scale = 1 / jnp.sqrt(jnp.maximum(1 + jnp.trace(way, axis1=1, axis2=2), 0.05))
        return (
            (50.0 * (heads - positions)).ravel(),
            weight * (axis * scale[:, None]).ravel(),
            50.0 * POSTURE * (x - posture),
        )

    solver = optimistix.LevenbergMarquardt(rtol=1e-4, atol=1e-4)

    @library.jit
    def run(x: Any, ask: Any) -> Any:
        return optimistix.least_squares(residual, solver, x, ask, max_steps=ITERATIONS, throw=False).value

    def solve(x: np.ndarray, ask: Ask) -> np.ndarray:
        turned = np.broadcast_to(np.eye(3), (len(bones), 3, 3)) if ask.turned is None else ask.turned
        weight = np.float32(0.0 if ask.turned is None else 10.0)
        asked = (ask.positions.astype(np.float32), turned.astype(np.float32), weight)
        return np.asarray(run(x, asked))

    def pose(x: np.ndarray) -> np.ndarray:
        return np.concatenate([np.zeros((1, 3)), np.asarray(x, np.float64)])

    how = (
        "axis-angle variables, float32, compiled (compiling is not timed); optimistix's Levenberg-Marquardt with pyroki's "
        f"costs: position weight 50, orientation weight 10 if given, rest cost {50 * POSTURE:g} to the mean pose; tolerances "
        f"1e-4, at most {ITERATIONS} steps. pyroki itself is not on PyPI"
    )
    return Peer(how, prior.size * 4, lambda rot: rot[1:].astype(np.float32), solve, pose)
