# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the API pages from the docstrings into a folder of static HTML.

``uv run --group docs python -m tools.build_docs SITE``, from the root of the repository. The first page is the public face,
``neural_network``; the pages of all other modules but those for Blender, whose users press buttons, follow below it.
"""

from __future__ import annotations

import argparse
import pkgutil
import sys
import warnings
from pathlib import Path

TEMPLATES = Path(__file__).resolve().parents[1] / "docs" / "site"
LEFT_OUT = ("__main__", "blender")
WITH_TORCH = r"!.*\.torch_.*"  # modules that need PyTorch, which is not there where pages are built


def build(out: Path) -> list[Path]:
    """Write the site into the folder ``out`` and return its pages; raises ImportError where pdoc is not installed."""
    import pdoc

    import neural_network

    for name in neural_network.__all__:  # loaded on first use, and pdoc reads the module's own dictionary
        setattr(neural_network, name, getattr(neural_network, name))
    warnings.filterwarnings(
        "ignore", "Error parsing type annotation"
    )  # argparse's types have parameters for checkers only
    warnings.filterwarnings("ignore", "Cannot determine where")  # fields of a NamedTuple
    warnings.filterwarnings("ignore", r"Couldn't import [\w.]+\.torch_")  # WITH_TORCH
    pdoc.render.configure(docformat="restructuredtext", template_directory=TEMPLATES)
    packages = [module.name for module in pkgutil.iter_modules(neural_network.__path__) if module.name not in LEFT_OUT]
    pdoc.pdoc("neural_network", *(f"neural_network.{name}" for name in packages), WITH_TORCH, output_directory=out)
    return sorted(out.rglob("*.html"))


def main(arguments: list[str] | None = None) -> int:
    """Build and print how many pages there are; 2 where pdoc is missing."""
    parser = argparse.ArgumentParser(description="Build the API pages from the docstrings.")
    parser.add_argument("out", type=Path, help="folder for the pages")
    out = parser.parse_args(arguments).out
    try:
        pages = build(out)
    except ImportError as error:
        sys.stderr.write(f"build_docs.py: {error}; run with: uv run --group docs python -m tools.build_docs {out}\n")
        return 2
    sys.stdout.write(f"{len(pages)} pages: {out / 'index.html'}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
