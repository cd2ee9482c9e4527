"""Text from data made safe to print: nothing in it can command a terminal, hide, or turn the order of what is read around.

Data may hold any character. Escape sequences move the cursor, write to the clipboard (OSC 52) or retitle the window, and so do
single characters of the block C1; overrides of the writing direction show another text than there is. Each such character is
shown as one visible sign, so that the rest of the text keeps its place.
"""

from __future__ import annotations

import json
import re
from typing import Any

_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters but line break and tab, what changes the writing direction, other line ends, and halves of characters."""
_PICTURES = 0x2400


def visible(text: str) -> str:
    """The text with a sign in place of each unsafe character: ␛ for an escape, � where there is no picture of it."""
    return _UNSAFE.sub(_sign, text)


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    return chr(_PICTURES + code) if code < 0x20 else "␡" if code == 0x7F else "�"


def one_line(text: str, most: int) -> str:
    """The text safe, on one line and at most so long."""
    line = " ".join(visible(text[: 4 * most]).split())
    return line if len(line) <= most and len(text) <= 4 * most else line[: most - 1] + "…"


def json_text(value: Any) -> str:
    """JSON that is as exact as any and safe to print: unsafe characters are written as their escapes."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=str)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
