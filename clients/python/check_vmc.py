# SPDX-License-Identifier: GPL-3.0-or-later
"""Print a pose received as VMC, with python-osc: ``python check_vmc.py [PORT [BONES]]``.

The first line is the port it listens on (PORT 0 uses any free one). Once BONES (1) different bones have arrived, the second
line has the newest of each as JSON: name -> x, y, z of its position and x, y, z, w of its rotation, in Unity's space.
"""

import json
import sys

from pythonosc.dispatcher import Dispatcher
from pythonosc.osc_server import BlockingOSCUDPServer


def main() -> None:
    """Listen until enough bones have arrived."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 39539
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    bones = {}

    def bone(_, name, *numbers):
        bones[name] = numbers

    dispatcher = Dispatcher()
    dispatcher.map("/VMC/Ext/Bone/Pos", bone)
    with BlockingOSCUDPServer(("127.0.0.1", port), dispatcher) as server:
        print(server.server_address[1], flush=True)  # noqa: T201
        while len(bones) < count:
            server.handle_request()
    print(json.dumps(bones), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
