"""Tables that are sorted by a click on a column."""

from dataclasses import dataclass
from html import escape

from .svg import colour


@dataclass(frozen=True)
class Cell:
    html: str
    key: str | float | None  # to sort by; numbers are right-aligned

    @classmethod
    def text(cls, text: str) -> "Cell":
        return cls(escape(text), text)

    @classmethod
    def number(cls, value: float | None, shown: str) -> "Cell":
        return cls(escape(shown), float("-inf") if value is None else float(value))


def swatch(name: str, text: str) -> str:
    return f'<span class="key"><i class="area" {colour(name)}></i>{escape(text)}</span>'


def table(head: list[str], rows: list[list[Cell]]) -> str:
    is_number = [bool(rows) and not isinstance(cell.key, str) for cell in (rows[0] if rows else [])]
    heads = "".join(f'<th{" class=number" if right else ""}>{escape(name)}</th>'
                    for name, right in zip(head, is_number or [False] * len(head)))
    body = "".join("<tr>" + "".join(_cell(cell, right) for cell, right in zip(row, is_number))
                   + "</tr>" for row in rows)
    return (f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody>'
            "</table></div>")


def _cell(cell: Cell, is_number: bool) -> str:
    if is_number:
        key = "-Infinity" if cell.key == float("-inf") else cell.key  # as scripts spell it
        return f'<td class=number data-key="{key}">{cell.html}</td>'
    return f"<td>{cell.html}</td>"
