# SPDX-License-Identifier: GPL-3.0-or-later
"""Print a pose received as VMC, with python-osc: ``python check_vmc.py [PORT [BONES]]``.

The first line is the port it listens on (PORT 0 uses any free one). Once BONES (1) different bones have arrived, the second
line has the newest of each as JSON: name -> x, y, z of its position and x, y, z, w of its rotation, in Unity's space.
"""

import json
import sys

try:
    from pythonosc.dispatcher import Dispatcher
    from pythonosc.osc_server import BlockingOSCUDPServer
except ImportError:
    sys.exit("check_vmc.py needs python-osc, which this Python does not have: python -m pip install python-osc")

USAGE = "usage: check_vmc.py [PORT [BONES]], a port to listen on (39539; 0 uses any) and how many bones to wait for (1)"


def main() -> None:
    """Listen until enough bones have arrived."""
    words = sys.argv[1:]
    if len(words) > 2 or not all(word.isdecimal() for word in words):
        sys.exit(USAGE)
    port, count = (*(int(word) for word in words), *(39539, 1)[len(words) :])
    bones = {}

    def bone(_, name, *numbers):
        bones[name] = numbers

    dispatcher = Dispatcher()
    dispatcher.map("/VMC/Ext/Bone/Pos", bone)
    try:
        server = BlockingOSCUDPServer(("127.0.0.1", port), dispatcher)
    except (OSError, OverflowError) as error:
        sys.exit(f"check_vmc.py cannot listen on port {port}: {error}")
    with server:
        print(server.server_address[1], flush=True)  # noqa: T201
        while len(bones) < count:
            server.handle_request()
    print(json.dumps(bones), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
