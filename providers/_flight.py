"""Data that Next.js pages carry as JavaScript strings (``self.__next_f.push([1,"..."])``)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

_PIECE = re.compile(r'self\.__next_f\.push\(\[1,("(?:[^"\\]|\\.)*")\]\)')
_ESCAPED = re.compile(r'\\(["\\])')


def unescaped(page: str) -> str:
    """The text in the page's strings, joined: a piece may end anywhere, within a word as well.

    Of a page, or a part of one, without such pieces: its text with quotes unescaped.
    """
    pieces = []
    for found in _PIECE.finditer(page):
        try:
            pieces.append(str(json.loads(found[1])))
        except ValueError:
            continue
    return "".join(pieces) or _ESCAPED.sub(r"\1", page)


def objects(text: str, beginning: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in *text* that begin with *beginning*, none within another; what is cut off
    or broken is passed over.

    Every character is read about once: the next object is looked for behind the end of the last, or
    behind the place where it broke.
    """
    decoder = json.JSONDecoder(parse_float=Decimal)
    start = text.find(beginning)
    while start >= 0:
        end = start + 1
        try:
            found, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            found, end = None, max(error.pos, end)
        except RecursionError:
            return  # and so it would go on from each of the thousands of objects within it
        except (ValueError, ArithmeticError):  # a number that is none
            found = None
        if isinstance(found, dict):
            yield found
        start = text.find(beginning, end)
