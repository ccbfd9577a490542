"""Tables for people."""


def align(rows: list[list[str]], left: int) -> str:
    """Columns as wide as they must be, the first `left` of them to the left."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) if place < left else cell.rjust(width)
                       for place, (cell, width) in enumerate(zip(row, widths, strict=True)))
             for row in rows]
    return "\n".join(line.rstrip() for line in lines)
