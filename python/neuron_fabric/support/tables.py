"""Tables as text."""


def align(rows: list[list[str]], left: int) -> str:
    """Aligned columns: the first `left` to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) if place < left else cell.rjust(width)
                       for place, (cell, width) in enumerate(zip(row, widths, strict=True)))
             for row in rows]
    return "\n".join(line.rstrip() for line in lines)
