"""Training over the memory-side reducer in shared memory is bit-identical to training over the ring."""

import json

import neuron_fabric as nf
import pytest
from neuron_fabric.telemetry import Reader
from ranks import on_ranks
from small_job import make, profile
from training_modes import STEPS, Run, plainly

ROUTES = ["g_binary", "g_ternary"]


def over(route: str, **options: object) -> Run:
    """Trains with a dense head, reduced by the process group, and the rest forced to `route`."""
    rules = profile({"head": "fp32", "backbone": route}, health={"error_budget": 100.0},
                    regions=[{"name": "head", "names": ["head.*"]}, {"name": "backbone"}])
    return plainly(lambda ddp: nf.attach(ddp, rules, admit="safe", **options))


@pytest.mark.parametrize("route", ROUTES)
def test_training_has_the_bits_of_the_ring(route):
    ring = on_ranks(4, over, route, topology="ring")
    shared = on_ranks(4, over, route, reducer="cxl", topology="ring")  # of the dense values
    assert len({run.digests[-1] for run in shared}) == 1, "ranks hold different parameters"
    for one, other in zip(shared, ring, strict=True):
        assert one.steps == STEPS
        assert one.digests == other.digests
        assert one.bytes_ratio < 0.7, "nothing was sent at low bits"


def test_routes_without_reducer_support_stay_between_ranks():
    shared = on_ranks(2, over, "waterfill:4", reducer="cxl", topology="ring")
    ring = on_ranks(2, over, "waterfill:4", topology="ring")
    assert [run.digests for run in shared] == [run.digests for run in ring]


def test_an_unknown_reducer_is_rejected():
    with pytest.raises(ValueError, match="reducer must be one of ranks, cxl, not 'fpga'"):
        nf.HookState(None, reducer="fpga")


class Kept(Reader):
    def __init__(self) -> None:
        self.records: list[dict] = []

    def write(self, record: dict) -> None:
        self.records.append(record)


def seconds_in_transit() -> list[float]:
    kept = Kept()
    over("g_binary", reducer="cxl", readers=[kept])
    return [region["seconds"] for record in kept.records if record["event"] == "step"
            for region in record["regions"] if region["name"] == "backbone"]


def test_every_rank_can_read_its_own_records():
    for seconds in on_ranks(2, seconds_in_transit):
        assert len(seconds) == STEPS
        assert min(seconds) > 0


def test_recording_lines_needs_a_memory_side_reducer():
    with pytest.raises(ValueError, match="attach with reducer='cxl'"):
        nf.HookState(None, record_lines="lines.trace")


def record_lines(route: str, path: str) -> int:
    return over(route, reducer="cxl", record_lines=path).steps


@pytest.mark.parametrize("route", ROUTES)
def test_the_lines_of_all_gradients_are_recorded(tmp_path, route):
    path = tmp_path / "traces" / "lines.trace"
    assert on_ranks(4, record_lines, route, str(path)) == [STEPS] * 4
    head, *items = [line.split() for line in path.read_text().splitlines()]
    assert head == ["nf_cxl_trace", "1"]
    enabled = [item for item in items if item[0] == "enable"]
    lines = {mode: sum(int(item[5]) for item in enabled if item[2] == mode)
             for mode in ("fp32", route)}  # lines of scales, lines of digits
    assert {item[3] for item in enabled} == {"4"}
    assert sum(item[0] == "w" for item in items) == 4 * sum(lines.values())
    assert all(len(item[3]) == 128 for item in items if item[0] == "w")
    # Pieces of four chunks end in partial lines. The transfers that attach() measures with are excluded.
    values_per_line = {"g_binary": 512, "g_ternary": 320}[route]
    sizes = [p.numel() for name, p in make().named_parameters() if not name.startswith("head.")]
    assert STEPS * sum(sizes) / values_per_line <= lines[route]
    assert lines[route] <= STEPS * (sum(sizes) / values_per_line + len(sizes) + 4)


def rejected_lines(path: str) -> str:
    with pytest.raises((OSError, RuntimeError)) as caught:
        over("g_binary", reducer="cxl", record_lines=path, timeout=600)
    return str(caught.value)


def test_an_unwritable_file_for_lines_is_named_on_every_rank(tmp_path):
    """Immediately: no rank waits 600 s for rank 0 in the initial measurements of the runtime."""
    for message in on_ranks(2, rejected_lines, str(tmp_path)):
        assert f"Is a directory: '{tmp_path}'" in message


def recorded(path: str) -> int:
    run = over("g_binary", reducer="cxl", record=path)
    return run.steps


def test_the_buckets_of_every_step_are_recorded(tmp_path):
    path = tmp_path / "traces" / "buckets.jsonl"
    assert on_ranks(2, recorded, str(path)) == [STEPS, STEPS]
    head, *lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert (head["format"], head["workers"]) == ("neuron_fabric.buckets", 2)
    assert {line["step"] for line in lines} == set(range(STEPS))
    last = [line for line in lines if line["step"] == STEPS - 1]
    parameters = list(make().named_parameters())
    assert sum(line["values"] for line in last) == sum(p.numel() for _, p in parameters)
    assert sum(line["low_bit_values"] for line in last) == sum(
        p.numel() for name, p in parameters if not name.startswith("head."))
