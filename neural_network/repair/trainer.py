# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainer of repairs: clean motion in, networks out. It says what happens; its caller prints."""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import signal
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.files import write_whole
from ..core.messages import counted
from ..ik.trainer import Cancelled
from ..learning.arguments import require_torch, require_writable
from ..learning.loop import state_path
from ..learning.steps import steps_of
from ..learning.stopping import clear_cancel_file
from ..motion import pose_set
from . import draws, network
from .arguments import rivals_path
from .batches import Batches
from .network import SIZES

Say = Callable[[str], None]
ACKNOWLEDGEMENT = """The data used in this project was obtained from mocap.cs.cmu.edu.
The database was created with funding from NSF EIA-0196217."""
JUDGED_EVERY = 9  # one take of so many is not learned from, and chooses the best weights
JUDGED = 6  # batches of such takes
LOOKED = 4  # batches from which means and spreads of the inputs are taken
LEAST_SPREAD = 0.02


def run(args: argparse.Namespace, say: Say, tell: Say, complain: Say) -> int:
    """Train and save; returns the exit code 0. Raises ValueError and OSError for bad input before anything is trained, and
    Cancelled when asked to stop."""
    require_torch()
    for path in (args.weights, rivals_path(args.weights)):
        require_writable(path, ".npz")
    for path in (state_path(args.weights), args.json, args.progress):
        require_writable(path)
    unknown = set(args.networks) - set(SIZES)
    if unknown:
        raise ValueError(f"--networks: expected some of {', '.join(SIZES)}, got {', '.join(sorted(unknown))}")
    clear_cancel_file(args.cancel_file)
    poses = pose_set.load(args.data)
    skeleton, takes = draws.takes_of(poses)
    takes = [t for t in takes if len(t.root) >= draws.FEWEST]
    takes = sorted((t for t in takes if t.subject not in args.leave_out), key=lambda t: t.name)
    if len(takes) < 3:
        raise ValueError(f"--data: expected three takes of {draws.FEWEST} frames or more, got {len(takes)}")
    held = takes[JUDGED_EVERY // 2 :: JUDGED_EVERY] or takes[:1]
    names = {t.name for t in held}
    kept = [t for t in takes if t.name not in names]
    say(
        f"Repair trainer: {counted(len(kept), 'take')}, {sum(len(t.root) for t in kept)} frames; {len(held)} takes to judge on"
    )
    gated = "gated" in args.networks
    judged = [
        draws.batch(skeleton, held, args.batch_size, np.random.default_rng((args.seed, 7, k)), gated=gated)
        for k in range(JUDGED)
    ]
    looked = [
        draws.batch(skeleton, kept, args.batch_size, np.random.default_rng((args.seed, 5, k)))["numbers"]
        for k in range(LOOKED)
    ]
    flat = np.concatenate(looked).reshape(-1, looked[0].shape[-1]).astype(np.float32)
    mean, spread = flat.mean(axis=0), np.maximum(flat.std(axis=0), LEAST_SPREAD)
    sizes = {name: SIZES[name] for name in args.networks}
    about = {
        "data": poses.content_hash(),
        "left_out": list(args.leave_out),
        "takes": [t.name for t in kept],
        "judged_on": sorted(names),
        "sizes": network.in_words(sizes),
        "batch": args.batch_size,
        "physics": args.lambda_physics,
    }
    batches = Batches(skeleton, kept, args.batch_size, args.seed, args.jobs, gated)
    try:
        state, machine, cancelled, number = _trained(
            args, say, complain, skeleton, sizes, mean, spread, batches, judged, about
        )
    finally:
        batches.close()
    meta = {
        **about,
        "seed": args.seed,
        "steps": state.step,
        "validation": state.best_value,
        "command": "standalone_trainer.py repair " + " ".join(_words(args)),
        "machine": machine,
        "acknowledgement": ACKNOWLEDGEMENT,
        "licence": "weights of this project; learned from CMU motion capture: free for all uses, not to be resold directly",
    }
    own = _by_network(args, sizes, mean, spread, state)
    rivals = {k: v for k, v in own.items() if k != "convolution"} if "convolution" in own else {}
    network.save(args.weights, {k: v for k, v in own.items() if k not in rivals}, meta)
    if rivals:
        network.save(rivals_path(args.weights), rivals, meta)
    if args.json is not None:
        write_whole(args.json, (json.dumps(meta, indent=1) + "\n").encode())
    if cancelled:
        words = f"The best weights so far are in {args.weights}. To continue, add --resume to the same command."
        raise Cancelled(f"Stopped after step {state.step}. {words}", True, 128 + (number or signal.SIGINT))
    state_path(args.weights).unlink(missing_ok=True)
    digest = hashlib.sha256(args.weights.read_bytes()).hexdigest()[:16]
    tell(f"{state.step} steps, validation {state.best_value:.4f}; {args.weights} ({digest})")
    return 0


def _trained(
    args: argparse.Namespace, say: Say, complain: Say, skeleton: Any, sizes: Any, mean: np.ndarray, spread: np.ndarray,
    batches: Batches, judged: list[draws.Batch], about: dict[str, Any],
) -> tuple[Any, str, bool, int]:  # fmt: skip
    """The state of the training, the machine in words, whether it was stopped, and by which signal."""
    from ..learning import torch_training
    from . import torch_networks

    def make() -> Any:
        return torch_networks.Several(dict(torch_networks.networks(sizes, mean, spread)))

    task = torch_networks.RepairTask(skeleton, make, batches, judged, about, args.lambda_physics)
    result = torch_training.fit(task, steps_of(args), args, say, complain)
    device = torch_training.device_of(args.device)
    machine = f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, {device.type}"
    return result.state, machine, result.cancelled, result.signal


def _by_network(
    args: argparse.Namespace, sizes: Any, mean: np.ndarray, spread: np.ndarray, state: Any
) -> dict[str, network.Network]:
    from ..learning.torch_layers import tensors_of
    from ..learning.torch_training import with_weights
    from . import torch_networks

    module = with_weights(torch_networks.Several(dict(torch_networks.networks(sizes, mean, spread))), state.best)
    assert isinstance(module, torch_networks.Several)
    return {name: network.Network(name, tensors_of(own)) for name, own in module.networks.items()}


def _words(args: argparse.Namespace) -> list[str]:
    """The command line without the folders of this machine."""
    out = [f"--data {args.data.name}", f"--seed {args.seed}", f"--batch-size {args.batch_size}", f"--jobs {args.jobs}"]
    out += [f"--leave-out {','.join(args.leave_out)}", f"--networks {','.join(args.networks)}", f"--lr {args.lr:g}"]
    out += [f"--lambda-physics {args.lambda_physics:g}", f"--steps {args.steps}", f"--device {args.device}"]
    return out + ([f"--time-limit {args.time_limit:g}"] if args.time_limit else [])
