"""plot_cxl.py draws both plots and rejects invalid input."""

import io
import json

import pytest
from plot_cxl import MAP_KEYS, OVERHEAD_KEYS, draw_map, draw_overhead, read, short, speedup


def run(mode, latency, miss, outstanding, overhead):
    return {"mode": mode, "workers": 8, "llc_miss": miss, "outstanding": outstanding,
            "clock_ghz": 1.0, "latency_ns": latency, "exposed_overhead": overhead,
            "formula_overhead": overhead}


def replay(workers, size, gbps, low_bit, reason="2 times as fast as bf16"):
    return {"reducer": "cxl", "codec": "g_binary", "workers": workers, "bucket_bytes": size,
            "link_gbps": gbps, "bf16_us": 100.0, "low_bit_us": low_bit, "reason": reason}


RUNS = [run(mode, latency, miss, outstanding, 4.7 / latency * miss / outstanding)
        for mode in ("g_binary", "g_ternary") for latency in (150.0, 300.0)
        for miss, outstanding in ((0, 1), (0.5, 1), (1, 1), (1, 2), (1, 64))]
REPLAYS = [replay(workers, size, gbps, low_bit)
           for workers in (2, 8, 64) for size, gbps, low_bit in
           ((65536, 1, 10.0), (65536, 100, 90.0), (1 << 20, 1, 50.0), (1 << 20, 100, 3000.0))]
REPLAYS[-1]["reason"] = "capacity: counters for at most 64 workers"


@pytest.mark.parametrize("draw, rows", [(draw_overhead, RUNS), (draw_map, REPLAYS)])
@pytest.mark.parametrize("name, start", [("plot.png", b"\x89PNG"), ("plot.svg", b"<?xml")])
def test_it_draws(tmp_path, draw, rows, name, start):
    draw(rows, str(tmp_path / name))
    drawn = (tmp_path / name).read_bytes()
    assert drawn.startswith(start)
    assert len(drawn) > 10_000


def test_buckets_beyond_the_capacity_have_no_speedup():
    assert speedup(REPLAYS[0]) == 10
    assert speedup(REPLAYS[-1]) is None


@pytest.mark.parametrize("low_bit", [0.0, 10.0])
def test_one_worker_has_no_speedup(tmp_path, low_bit):
    alone = replay(1, 65536, 1, low_bit) | {"bf16_us": 0.0}
    assert speedup(alone) is None
    draw_map([alone, *REPLAYS], str(tmp_path / "plot.svg"))


def test_sizes_are_short():
    assert [short(size) for size in (100, 65536, 1 << 20, 3 << 29)] == ["100", "64K", "1M", "1.5G"]


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"mode": "g_binary"}', ""])
def test_other_lines_are_rejected(text):
    for keys in (OVERHEAD_KEYS, MAP_KEYS):
        file = io.StringIO(text)
        file.name = "lines"
        with pytest.raises(ValueError, match="lines, line 1|no rows to plot"):
            read([file], keys)


def test_lines_are_read():
    file = io.StringIO(json.dumps(RUNS[0]) + "\n\n" + json.dumps(RUNS[1]))
    file.name = "lines"
    assert read([file], OVERHEAD_KEYS) == RUNS[:2]
