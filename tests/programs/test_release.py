# SPDX-License-Identifier: GPL-3.0-or-later
"""A release is what the changelog describes, under the manifest's version."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import REPO

from tools import release

MANIFEST = 'id = "neural_ik"\nversion = "1.2.3"\n'
TOP = "# Changelog\n\n## Unreleased\n\n"


def test_the_newest_version_of_the_changelog_is_released_where_the_manifest_says_the_same() -> None:
    assert release.check(MANIFEST, TOP + "## 1.2.3 - 2000-01-31\n\n- new\n\n## 1.2.2\n\n- old\n") == "1.2.3"
    assert release.check(MANIFEST, "# Changelog\n\n## [1.2.3]\n\n- new\n") == "1.2.3"


@pytest.mark.parametrize(
    ("manifest", "changelog", "words"),
    [
        (MANIFEST, TOP + "- waits\n- too\n\n## 1.2.3\n\n- new\n", "2 changes stand under Unreleased"),
        (MANIFEST, TOP + "## 1.2.2\n\n- old\n", "the newest version in CHANGELOG.md is 1.2.2"),
        (MANIFEST, TOP + "## 1.2.4\n\n- newer\n\n## 1.2.3\n\n- new\n", "says 1.2.3, the newest version .* 1.2.4"),
        (MANIFEST, TOP, "CHANGELOG.md is none"),
        (MANIFEST, TOP + "## 1.2.3\n\n## 1.2.2\n\n- old\n", "says nothing about 1.2.3"),
        ('version = "1.2"\n', TOP, "expected a version such as 1.2.3, got '1.2'"),
    ],
)
def test_a_version_that_the_changelog_does_not_describe_is_refused(manifest: str, changelog: str, words: str) -> None:
    with pytest.raises(release.Refused, match=words):
        release.check(manifest, changelog)


def test_the_manifest_of_this_project_has_a_version() -> None:
    assert release.version_of((REPO / "blender_manifest.toml").read_text("utf-8"))


def test_a_folder_with_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "neural_ik-1.2.2.zip").touch()
    with pytest.raises(release.Refused, match=r"holds neural_ik-1\.2\.2\.zip"):
        release.build(tmp_path, "1.2.3")


def test_without_blender_the_script_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("BLENDER", "NIK_BLENDER_GUI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(release.shutil, "which", lambda name: None)
    assert release.main(["--unreleased"]) == 2
    assert "no Blender" in capsys.readouterr().err
