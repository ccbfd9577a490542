"""plot_quality.py draws valid results and rejects others."""

import io
import json

import pytest
from plot_quality import draw, family, points, read


def row(codec, topology, bits, vnmse):
    return {"codec": codec, "bits": bits, "ranks": 8, "topology": topology, "elements": 4096,
            "trials": 1, "vnmse": vnmse, "parameter_vnmse": vnmse, "worst_parameter_vnmse": vnmse,
            "gradients": "mixture:1", "correlation": 0.5}


ROWS = [row("waterfill:4", "ring", 4, 1e-3), row("waterfill:5", "ring", 5, 2e-4),
        row("waterfill:4", "direct", 4, 5e-4), row("dynamiq:4", "ring", 4, 6e-3),
        row("mxfp8", "ring", 8.25, 2e-3), row("mxfp6", "ring", 6.25, 9e-3),
        row("fp32", "ring", 32, 0.0), row("newcomer:3+odd", "spiral", 3, None),
        row("newcomer:4+odd", "spiral", 4, 1e-2)]


@pytest.mark.parametrize("name, start", [("plot.png", b"\x89PNG"), ("plot.svg", b"<?xml")])
def test_it_draws_every_codec_and_topology(tmp_path, name, start):
    draw(ROWS, "vnmse", str(tmp_path / name))
    drawn = (tmp_path / name).read_bytes()
    assert drawn.startswith(start)
    assert len(drawn) > 10_000


def test_exact_and_infinite_errors_have_no_point():
    lines = points(ROWS, "vnmse")
    assert sorted(lines) == [("dynamiq", "", "ring"), ("mxfp", "", "ring"),
                             ("newcomer", "odd", "spiral"), ("waterfill", "", "direct"),
                             ("waterfill", "", "ring")]
    assert [line["codec"] for line in lines["mxfp", "", "ring"]] == ["mxfp6", "mxfp8"]


def test_a_family_is_the_name_without_width_and_options():
    assert [family(codec) for codec in ("waterfill:4+ef", "mxfp8+headroom=3", "bf16", "g_binary")
            ] == ["waterfill", "mxfp", "dense", "g_binary"]


def test_a_malformed_line_is_reported_with_its_number():
    file = io.StringIO(json.dumps(ROWS[0]) + "\n\n{}\n")
    file.name = "lines"
    with pytest.raises(ValueError, match="lines, line 3"):
        read([file])


def test_nothing_to_draw_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no row"):
        draw(ROWS[-3:-1], "vnmse", str(tmp_path / "plot.png"))
