# SPDX-License-Identifier: GPL-3.0-or-later
"""What is printed: nobody's file or bone name can move the cursor or turn what a line says."""

from __future__ import annotations

import pytest

from neural_network.core import messages

HARMFUL = {
    "\x1b[31m": "\\x1b[31m",
    "\r": "\\r",
    "\x07": "\\x07",
    "\u202e": "\\u202e",
    "\u2028": "\\u2028",
    "\udc83": "\\udc83",
}


@pytest.mark.parametrize("letters", HARMFUL, ids=ascii)
def test_what_is_no_text_is_printed_escaped(letters: str, capsys: pytest.CaptureFixture[str]) -> None:
    for error in (False, True):
        messages.show(f"take{letters}.bvh: refused", error=error)
    printed = capsys.readouterr()
    assert printed.out == printed.err == f"take{HARMFUL[letters]}.bvh: refused\n"


def test_letters_of_all_languages_are_printed_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    text = "Hüfte 左足\u3000ひざ العربية\nsecond line"
    messages.show(text)
    assert capsys.readouterr().out == text + "\n"


def test_a_name_of_two_lines_is_shown_in_one() -> None:
    assert messages.shown("a\nb\tc") == "a\\nb\\tc"


def test_the_system_s_errors_are_words_without_numbers() -> None:
    assert (
        messages.in_words(OSError(36, "File name too long", "a\x1b.npz")) == "cannot use a\\x1b.npz: File name too long"
    )
    assert messages.in_words(ValueError("expected\nwords")) == "expected\\nwords"
