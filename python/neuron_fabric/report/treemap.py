"""Rectangles with areas in proportion to sizes, as square as possible."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rect:
    x: float
    y: float
    width: float
    height: float


def squarify(sizes: Sequence[float], room: Rect) -> list[Rect]:
    """One rectangle per size; sizes are positive and in descending order. Rows are laid along the
    shorter side, and grow while that makes their rectangles squarer."""
    total = sum(sizes)
    result: list[Rect] = []
    place = 0
    while place < len(sizes):
        scale = room.width * room.height / total if total else 0
        side = min(room.width, room.height)
        end = place + 1
        row = sizes[place] * scale
        while end < len(sizes):
            longer = row + sizes[end] * scale
            if _worst(sizes[place], sizes[end], longer, side, scale) > \
                    _worst(sizes[place], sizes[end - 1], row, side, scale):
                break
            row, end = longer, end + 1
        laid, room = _lay(sizes[place:end], row, scale, room)
        result += laid
        total -= sum(sizes[place:end])
        place = end
    return result


def _worst(largest: float, smallest: float, row: float, side: float, scale: float) -> float:
    """The worst aspect ratio in a row of this area."""
    if not row or not side or not smallest * scale:
        return float("inf")
    return max(side * side * largest * scale / (row * row),
               row * row / (side * side * smallest * scale))


def _lay(sizes: Sequence[float], row: float, scale: float, room: Rect) -> tuple[list[Rect], Rect]:
    """The rectangles of one row, and the remaining room."""
    is_wide = room.width >= room.height
    side = room.height if is_wide else room.width
    depth = row / side if side else 0
    rects, at = [], 0.0
    for size in sizes:
        length = size * scale / depth if depth else 0
        rects.append(Rect(room.x, room.y + at, depth, length) if is_wide
                     else Rect(room.x + at, room.y, length, depth))
        at += length
    left = (Rect(room.x + depth, room.y, max(room.width - depth, 0), room.height) if is_wide
            else Rect(room.x, room.y + depth, room.width, max(room.height - depth, 0)))
    return rects, left
