# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that every relative link in the Markdown files, and in a built site, leads to a file that exists and an anchor in it.

``python -m tools.check_links [SITE]``, from the root of the repository. External links are not fetched. Exit code 1 names
each broken link with its file and line.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

REPO = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t]*#*$", re.MULTILINE)
ANCHOR = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")


def blanked(text: str, pattern: re.Pattern[str]) -> str:
    """``text`` with every match replaced by blanks, so that lines keep their numbers."""
    return pattern.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)


def markdown_links(text: str) -> Iterator[tuple[int, str]]:
    """Line and target of every inline link and image outside of code."""
    text = blanked(blanked(text, FENCE), CODE)
    for found in LINK.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, found[1]


def markdown_anchors(text: str) -> set[str]:
    """The anchors of a Markdown file: its headings as GitHub names them, and ``<a id>``."""
    text, found = blanked(text, FENCE), set(ANCHOR.findall(text))
    count: dict[str, int] = {}
    for heading in HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = count[slug] = count.get(slug, -1) + 1
        found.add(f"{slug}-{number}" if number else slug)
    return found


class Page(HTMLParser):
    """The links and the anchors of one HTML page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[int, str]] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect ``href``, ``src`` and ``id``."""
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append((self.getpos()[0], value))
            elif name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value or "")


@cache
def read(path: Path) -> tuple[list[tuple[int, str]], set[str]]:
    """Links with their lines, and anchors, of a Markdown or HTML file; nothing for other files."""
    if path.suffix == ".md":
        text = path.read_text(encoding="utf-8")
        return list(markdown_links(text)), markdown_anchors(text)
    if path.suffix == ".html":
        page = Page()
        page.feed(path.read_text(encoding="utf-8"))
        return page.links, page.anchors
    return [], set()


def broken(path: Path) -> Iterator[str]:
    """A sentence for each link of one file that leads nowhere."""
    for line, target in read(path)[0]:
        parts = urlsplit(target)
        if parts.scheme or parts.netloc:
            continue
        there = path if not parts.path else path.parent / unquote(parts.path)
        if not there.exists():
            yield f"{path}:{line}: {target} leads to no file"
        elif parts.fragment and there.suffix in (".md", ".html") and unquote(parts.fragment) not in read(there)[1]:
            yield f"{path}:{line}: {target} leads to no anchor in {there.name}"


def markdown_files() -> list[Path]:
    """The Markdown files that git knows or would add; without git, those in no hidden folder."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    try:
        listed = subprocess.run(words, cwd=REPO, capture_output=True, check=True).stdout.decode().split("\0")
        found = [REPO / name for name in listed if name]
    except (OSError, subprocess.CalledProcessError):
        found = [p for p in REPO.rglob("*.md") if not any(part.startswith(".") for part in p.relative_to(REPO).parts)]
    return sorted(path for path in found if path.is_file())


def main(arguments: list[str] | None = None) -> int:
    """Check and print; 1 where a link is broken, 2 where the site is missing."""
    parser = argparse.ArgumentParser(description="Check relative links in the Markdown files and in a built site.")
    parser.add_argument("site", nargs="?", type=Path, help="folder of HTML pages, from tools.build_docs")
    site = parser.parse_args(arguments).site
    pages = sorted(site.rglob("*.html")) if site else []
    if site and not pages:
        sys.stderr.write(f"check_links.py: expected HTML pages in {site}, got none\n")
        return 2
    files = [*markdown_files(), *pages]
    faults = [fault for path in files for fault in broken(path)]
    sys.stdout.write("".join(f"{fault}\n" for fault in faults))
    links = sum(len(read(path)[0]) for path in files)
    sys.stdout.write(f"{len(files)} files, {links} links, {len(faults)} broken\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
