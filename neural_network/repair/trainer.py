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
from .draws import Take
from .network import SIZES

Say = Callable[[str], None]
ACKNOWLEDGEMENT = """The data used in this project was obtained from mocap.cs.cmu.edu.
The database was created with funding from NSF EIA-0196217."""
JUDGED_EVERY = 9  # one take of so many is not learned from, and chooses the best weights
JUDGED = 8  # batches of such takes
LOOKED = 16  # batches from which means and spreads of the inputs are taken
LEAST_SPREAD = 0.02
MADE, SHARE = "gait", 0.35  # before the underscore of walks that were made, not captured, and their share of windows


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
    for path in args.more:
        takes += draws.takes_of(pose_set.load(path))[1]
    takes = [t for t in takes if len(t.root) >= draws.FEWEST]
    takes = sorted((t for t in takes if t.subject not in args.leave_out), key=lambda t: t.name)
    if len(takes) < 3:
        raise ValueError(f"--data: expected three takes of {draws.FEWEST} frames or more, got {len(takes)}")
    held = [t for t in takes if t.subject in args.judge] if args.judge else takes[JUDGED_EVERY // 2 :: JUDGED_EVERY]
    held = held or takes[:1]
    names = {t.name for t in held}
    kept = [t for t in takes if t.name not in names]
    if not kept:
        raise ValueError("--judge: expected takes that are left to learn from, got none")
    frames = sum(len(t.root) for t in kept)
    say(f"Repair trainer: {counted(len(kept), 'take')}, {frames} frames; {len(held)} takes to judge on")
    sizes = {name: SIZES[name] for name in args.networks}
    about = {
        "data": poses.content_hash(),
        "more": [pose_set.load(path).content_hash() for path in args.more],
        "left_out": list(args.leave_out),
        "takes": [t.name for t in kept],
        "judged_on": sorted(names),
        "sizes": network.in_words(sizes),
        "batch": args.batch_size,
        "physics": args.lambda_physics,
        "dropout": args.dropout,
        "feet": args.feet,
    }
    state, machine, cancelled, number, task = _trained(args, say, complain, skeleton, sizes, (kept, held), about)
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
    own = _by_network(task, state)
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
    args: argparse.Namespace, say: Say, complain: Say, skeleton: Any, sizes: Any, takes: tuple[list[Take], list[Take]],
    about: dict[str, Any],
) -> tuple[Any, str, bool, int, Any]:  # fmt: skip
    """The state of the training, the machine in words, whether it was stopped, by which signal, and what was learned."""
    import torch

    from ..learning import torch_training
    from ..learning.torch_layers import load_tensors
    from . import torch_draws, torch_networks
    from .torch_body import Body

    begun = None if args.begin is None else network.load(args.begin)
    if begun is not None and not set(sizes) <= set(begun):
        raise ValueError(f"--begin {args.begin.name}: expected {', '.join(sizes)}, got {', '.join(begun)}")
    torch.set_num_threads(args.threads)
    device = torch_training.device_of(args.device)
    body = Body(skeleton).to(device)
    kept, held = (torch_draws.Store(skeleton, own, _shares(own).tolist()).to(device) for own in takes)
    generator = torch.Generator(device)

    def drawn(store: Any, *seed: int) -> torch_draws.Batch:
        generator.manual_seed(int(np.random.default_rng((args.seed, *seed)).integers(2**31)))
        with torch.no_grad():
            return torch_draws.batch(store, body, args.batch_size, generator, varied=store is kept)

    def draw(chance: torch.Generator) -> torch_draws.Batch:
        count, bodies = torch_networks.TOGETHER * args.batch_size, 0.0 if args.feet else torch_draws.OTHER_BODIES
        return torch_draws.batch(kept, body, count, chance, bodies=bodies)

    judged = [drawn(held, 7, k) for k in range(JUDGED)]
    flat = [batch["numbers"][batch["mask"] > 0] for batch in (drawn(kept, 5, k) for k in range(LOOKED))]
    numbers = torch.cat(flat)
    mean, spread = numbers.mean(0).cpu().numpy(), numbers.std(0).clamp(min=LEAST_SPREAD).cpu().numpy()
    if "gated" in sizes:
        made = torch_draws.joined([drawn(kept, 3, k) for k in range(args.pool)])
        made, last = (torch_draws.with_plain(skeleton, one, args.jobs) for one in (made, torch_draws.joined(judged)))
        judged = [last]

        def draw(chance: torch.Generator) -> torch_draws.Batch:
            count = torch_networks.TOGETHER * args.batch_size
            chosen = torch.randint(len(made["mask"]), (count,), generator=chance, device=device)
            return {name: values[chosen] for name, values in made.items()}

    def make() -> Any:
        made = dict(torch_networks.networks(sizes, mean, spread, args.dropout))
        for name, module in made.items():
            if begun is not None:
                load_tensors(module, {**dict(begun[name].tensors), **network.fixed()})
        return torch_networks.Several(made)

    only = "contacts" if args.feet else ""
    task = torch_networks.RepairTask(body, make, draw, judged, about, args.lambda_physics, only)
    result = torch_training.fit(task, steps_of(args), args, say, complain)
    machine = f"{platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, {device.type}"
    return result.state, machine, result.cancelled, result.signal, task


def _shares(takes: list[Take]) -> np.ndarray:
    """(N) by how much a take counts beside others of its length, so that those that were made are a share of all."""
    made = np.array([t.subject == MADE for t in takes])
    size = np.sqrt([len(t.root) for t in takes])
    if not made.any() or made.all():
        return np.ones(len(takes))
    return np.where(made, SHARE / size[made].sum(), (1 - SHARE) / size[~made].sum())


def _by_network(task: Any, state: Any) -> dict[str, network.Network]:
    from ..learning.torch_layers import tensors_of
    from ..learning.torch_training import with_weights

    module: Any = with_weights(task.module(), state.best)
    return {name: network.Network(name, tensors_of(own)) for name, own in module.networks.items()}


def _words(args: argparse.Namespace) -> list[str]:
    """The command line without the folders of this machine."""
    out = [f"--data {args.data.name}", f"--seed {args.seed}", f"--batch-size {args.batch_size}", f"--jobs {args.jobs}"]
    out += [f"--leave-out {','.join(args.leave_out)}", f"--networks {','.join(args.networks)}", f"--lr {args.lr:g}"]
    out += [f"--more {path.name}" for path in args.more] + [f"--dropout {args.dropout:g}"]
    out += [f"--judge {','.join(args.judge)}"] if args.judge else []
    out += [f"--decay {args.decay:g}", f"--round {args.round}"]
    out += [f"--begin {args.begin.name}"] if args.begin else []
    out += ["--feet"] if args.feet else []
    out += [f"--pool {args.pool}"] if "gated" in args.networks else []
    out += [f"--lambda-physics {args.lambda_physics:g}", f"--steps {args.steps}", f"--device {args.device}"]
    return out + ([f"--time-limit {args.time_limit:g}"] if args.time_limit else [])
