#!/usr/bin/env python3
"""Draws the handshakes of a simulation: rtl/wave.py WAVE.vcd OUT.svg

Reads the ports of nf_reducer from a VCD file of the testbench, from the first request to the last
answer, one column per cycle.
"""

import html
import re
import sys

CYCLE, ROW, LEFT, TOP = 58, 30, 92, 44
BITS = ["valid_i", "ready_o", "valid_o", "ready_i"]
REQUEST, ANSWER = "request", "answer"


def read_vcd(path):
    """Returns {name: value} for every cycle, just before the rising edge of the clock."""
    names, values, cycles, depth = {}, {}, [], 0
    with open(path) as text:
        for line in text:
            if match := re.match(r"\s*\$(scope|upscope)", line):
                depth += 1 if match[1] == "scope" else -1
            elif match := re.match(r"\s*\$var\s+\w+\s+\d+\s+(\S+)\s+(\w+)", line):
                if depth == 1:  # ports of the top module; submodules use the same names
                    names.setdefault(match[1], []).append(match[2])
            elif re.match(r"[01]\S", line) or line.startswith("b"):
                value, code = (line[0], line[1:].strip()) if line[0] != "b" else line[1:].split()
                is_edge = "clk_i" in names.get(code, []) and value == "1"
                if is_edge:
                    cycles.append(dict(values))
                for name in names.get(code, []):
                    values[name] = int(value, 2)
    return cycles


def moved(cycle, valid, ready):
    return cycle.get(valid) == 1 and cycle.get(ready) == 1


def request_text(cycle):
    if not cycle["valid_i"]:
        return ""
    return f"{'w' if cycle['write_i'] else 'r'} {cycle['address_i']:x}"


def answer_text(cycle):
    if not cycle["valid_o"]:
        return ""
    if cycle["error_o"]:
        return f"error {cycle['error_o']}"
    if cycle["complete_o"]:
        return "complete"
    data = cycle["data_o"].to_bytes(64, "little")[:4]
    return data.hex() if any(data) else "ok"


def bit_path(cycles, name, y):
    high, low = y + 6, y + ROW - 8
    points, last = [], None
    for i, cycle in enumerate(cycles):
        level = high if cycle[name] else low
        if level != last:
            points.append(f"{'M' if last is None else 'L'}{LEFT + i * CYCLE} {level}")
        points.append(f"L{LEFT + (i + 1) * CYCLE} {level}")
        last = level
    return f'<path d="{" ".join(points)}"/>'


def boxes(cycles, text_of, y, is_moved):
    """Returns one box per offer, as wide as the offer stays valid."""
    parts, i = [], 0
    while i < len(cycles):
        text, end = text_of(cycles[i]), i
        while text and not is_moved(cycles[end]) and end + 1 < len(cycles):
            end += 1
        if text:
            x, width = LEFT + i * CYCLE, (end - i + 1) * CYCLE
            parts.append(f'<rect x="{x + 1}" y="{y + 4}" width="{width - 2}" height="{ROW - 10}"/>')
            parts.append(f'<text x="{x + width / 2}" y="{y + 18}">{html.escape(text)}</text>')
        i = end + 1
    return parts


def draw(cycles):
    rows = BITS[:2] + [REQUEST] + BITS[2:] + [ANSWER]
    width, height = LEFT + len(cycles) * CYCLE + 10, TOP + len(rows) * ROW + 6
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">',
        "<style>text{font:11px sans-serif;text-anchor:middle;fill:#223}.n{text-anchor:end}"
        "path{fill:none;stroke:#1f5f8b;stroke-width:1.6}rect{fill:#e4eef5;stroke:#1f5f8b}"
        "line{stroke:#d5dade}.b{fill:#fff;stroke:none}</style>",
        f'<rect class="b" width="{width}" height="{height}"/>',
        f'<text x="{LEFT - 8}" y="{TOP - 14}" class="n">cycle</text>',
    ]
    for i in range(len(cycles) + 1):
        x = LEFT + i * CYCLE
        out.append(f'<line x1="{x}" y1="{TOP - 8}" x2="{x}" y2="{height - 4}"/>')
        if i < len(cycles):
            out.append(f'<text x="{x + CYCLE / 2}" y="{TOP - 14}">{i}</text>')
    for number, name in enumerate(rows):
        y = TOP + number * ROW
        out.append(f'<text x="{LEFT - 8}" y="{y + 18}" class="n">{name}</text>')
        if name == REQUEST:
            out += boxes(cycles, request_text, y, lambda c: moved(c, "valid_i", "ready_o"))
        elif name == ANSWER:
            out += boxes(cycles, answer_text, y, lambda c: moved(c, "valid_o", "ready_i"))
        else:
            out.append(bit_path(cycles, name, y))
    return "\n".join(out + ["</svg>", ""])


def main(arguments):
    if len(arguments) != 2:
        sys.exit("usage: rtl/wave.py WAVE.vcd OUT.svg")
    cycles = read_vcd(arguments[0])
    requested = [i for i, c in enumerate(cycles) if c.get("valid_i")]
    answered = [i for i, c in enumerate(cycles) if moved(c, "valid_o", "ready_i")]
    if not requested or not answered:
        sys.exit(f"wave: no answered request in {arguments[0]}")
    with open(arguments[1], "w") as out:
        out.write(draw(cycles[requested[0] : answered[-1] + 1]))


if __name__ == "__main__":
    main(sys.argv[1:])
