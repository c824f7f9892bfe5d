# SPDX-License-Identifier: GPL-3.0-or-later
"""Extract poses from folders of .blend, .glb, .gltf, .fbx, .bvh and .amc files, in a Blender without a window.

``blender --background --python-exit-code 1 --python batch_extract.py -- FOLDER -o data.npz``; ``-- --help`` lists all options.
With Blender as a Python module: ``python batch_extract.py FOLDER -o data.npz``.
Exit codes: 0 poses were written, 1 no file gave any, 2 bad input, 130 stopped by Ctrl-C,
143 by SIGTERM, 129 by SIGHUP.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from neural_network.core import messages

    messages.require("numpy", messages.GET_NUMPY)
    from neural_network.formats import batch_arguments

    words = sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else sys.argv[1:]
    if "--" not in sys.argv and Path(sys.argv[0]).name != Path(__file__).name:
        words = []  # these are Blender's own arguments
    batch_arguments.parser().parse_args(words)  # help and wrong arguments end here, with Blender and without
    try:
        from neural_network.blender.data import batch
    except ModuleNotFoundError as error:
        if error.name != "bpy":
            raise
        print(
            "batch_extract.py: this Python has no Blender (bpy); run it as "
            "blender --background --python-exit-code 1 --python batch_extract.py -- PATH -o data.npz",
            file=sys.stderr,
        )
        sys.exit(2)
    batch.end(batch.main(words))
