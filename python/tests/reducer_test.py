"""nf.Reducer reduces named tensors as the engine does at full precision, within the codec's error at low
bits, and identically on all ranks."""

import warnings

import neuron_fabric as nf
import pytest
import torch
import torch.distributed as dist
from ranks import on_ranks
from torch import nn

SHAPES = {"first": (300, 40), "odd": (7,), "second": (64, 64, 3), "empty": (0, 4)}


def tensors_of(rank: int, step: int = 0, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return {name: torch.randn(shape, generator=generator).to(dtype) for name, shape in SHAPES.items()}


def empty() -> dict[str, torch.Tensor]:
    return {name: torch.zeros(shape) for name, shape in SHAPES.items()}


def sums(ranks: int, step: int = 0, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    """Exact to the precision of FP64."""
    parts = [tensors_of(rank, step, dtype) for rank in range(ranks)]
    return {name: sum(part[name].double() for part in parts) for name in SHAPES}


def reduced(route: str, steps: int, op: str = "mean", **options: object) -> list[dict[str, torch.Tensor]]:
    results = []
    with nf.Reducer(empty(), route=route, **options) as reducer:
        for step in range(steps):
            tensors = tensors_of(dist.get_rank(), step)
            reducer.all_reduce(tensors, op=op).wait()
            results.append(tensors)
    return results


def flat(tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    return torch.cat([tensor.reshape(-1) for tensor in tensors.values()])


def error(result: torch.Tensor, exact: torch.Tensor) -> float:
    return float((result.double() - exact).square().sum() / exact.square().sum())


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_fp32_equals_all_reduce_of_the_process_group_bit_for_bit(ranks):
    for ours, theirs in on_ranks(ranks, with_and_without):
        for name in SHAPES:
            assert torch.equal(ours[name], theirs[name])


def with_and_without() -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    theirs = tensors_of(dist.get_rank())
    buffer = torch.cat([tensor.reshape(-1) for tensor in theirs.values()])
    dist.all_reduce(buffer)
    parts = buffer.split([tensor.numel() for tensor in theirs.values()])
    theirs = {name: part.view(SHAPES[name]) for name, part in zip(theirs, parts, strict=True)}
    return reduced("fp32", 1, op="sum")[0], theirs


@pytest.mark.parametrize("op", ["mean", "sum"])
@pytest.mark.parametrize("route", ["waterfill:4", "powersgd:2", "waterfill:3+ef"])
def test_replicas_are_equal_and_near_the_exact_result(route, op):
    ranks, steps = 3, 3
    by_rank = on_ranks(ranks, reduced, route, steps, op)
    for step in range(steps):
        first, exact = by_rank[0][step], sums(ranks, step)
        assert all(torch.equal(first[name], other[step][name]) for other in by_rank for name in SHAPES)
        if route == "waterfill:4":
            wanted = flat(exact) / (ranks if op == "mean" else 1)
            assert error(flat(first), wanted) < 0.05


def in_one_call() -> dict[str, torch.Tensor]:
    """Tensors of three types, one of which has no low-bit route; views; and a single tensor in place."""
    rank = dist.get_rank()
    given = {"half": torch.full((8, 600), rank + 1.0, dtype=torch.bfloat16),
             "double": torch.full((5,), rank + 0.5, dtype=torch.float64),
             "view": torch.arange(1200.0).view(40, 30).t() * (rank + 1)}
    with nf.Reducer(given, route="waterfill:8") as reducer:
        work = reducer.all_reduce(given)
        values = work.get_future().wait()
        assert work.is_completed() and len(values) == 3
        single = {"view": torch.full((30, 40), rank + 1.0)}
        pointer = single["view"].data_ptr()
        reducer.all_reduce(single).wait()
        assert single["view"].data_ptr() == pointer
        summary = reducer.fabric.summary()
    return given | {"single": single["view"], "source": summary.attach.source}


def test_types_views_and_single_tensors():
    for result in on_ranks(2, in_one_call):
        assert torch.allclose(result["half"].float(), torch.tensor(1.5), rtol=0.02)
        assert torch.equal(result["double"], torch.full((5,), 1.0, dtype=torch.float64))
        assert error(result["view"], torch.arange(1200.0, dtype=torch.float64).view(40, 30).t() * 1.5) < 1e-3
        assert torch.allclose(result["single"], torch.tensor(1.5), rtol=0.02)
        assert result["source"] == "reducer"


def wrong_call(change: str) -> str:
    rank = dist.get_rank()
    with nf.Reducer(empty(), route="waterfill:4") as reducer:
        tensors = tensors_of(rank)
        op = "mean"
        if change == "all":
            tensors["second"] = tensors["second"][:1]
        elif rank == 1:
            if change == "unknown":
                tensors["third"] = tensors.pop("second")
            elif change == "shape":
                tensors["second"] = tensors["second"][:1]
            elif change == "missing":
                del tensors["second"]
            else:
                op = "sum"
        before = {name: tensor.clone() for name, tensor in tensors.items()}
        with pytest.raises((RuntimeError, ValueError, KeyError)) as caught:
            reducer.all_reduce(tensors, op=op)
        assert all(torch.equal(tensors[name], before[name]) for name in tensors)
        right = tensors_of(rank)
        reducer.all_reduce(right).wait()  # the next call works
        assert not torch.equal(right["first"], tensors_of(rank)["first"])
    return str(caught.value)


@pytest.mark.parametrize(("change", "words"), [
    ("unknown", "rank 0 and rank 1 differ in the tensors of all_reduce(): second (64, 64, 3) float32"),
    ("shape", "second (64, 64, 3) float32 and second (1, 64, 3) float32"),
    ("missing", "second (64, 64, 3) float32 and empty (0, 4) float32"),
    ("op", "rank 0 and rank 1 differ in the reduction of all_reduce(): mean and sum"),
    ("all", "got second (1, 64, 3) float32, but this Reducer was made for second (64, 64, 3) float32"),
])
def test_a_wrong_call_raises_on_every_rank_and_changes_nothing(change, words):
    for message in on_ranks(3, wrong_call, change):
        assert words in message


def wrong_arguments() -> list[str]:
    messages = []
    for given, options in [([1], {}), ({"a": 1}, {}), (nn.Linear(2, 2), {"scaler": None})]:
        with pytest.raises(TypeError) as caught:
            nf.Reducer(given, **options)
        messages.append(str(caught.value))
    return messages


def test_wrong_arguments_raise_type_error():
    [messages] = on_ranks(1, wrong_arguments)
    assert messages == ["nf.Reducer takes a module or tensors by name, not a list",
                        "nf.Reducer takes a module or tensors by name, not a dict",
                        "nf.Reducer takes no scaler"]


def through_a_checkpoint() -> tuple[torch.Tensor, torch.Tensor]:
    rank = dist.get_rank()
    with nf.Reducer(empty(), route="waterfill:3+ef") as whole:
        for step in range(4):
            expected = tensors_of(rank, step)
            whole.all_reduce(expected).wait()
    with nf.Reducer(empty(), route="waterfill:3+ef") as first:
        for step in range(2):
            first.all_reduce(tensors_of(rank, step)).wait()
        state = first.state_dict()
    with nf.Reducer(empty(), route="waterfill:3+ef") as second:
        second.load_state_dict(state)
        for step in range(2, 4):
            resumed = tensors_of(rank, step)
            second.all_reduce(resumed).wait()
    return expected["first"], resumed["first"]


def test_a_resumed_reducer_continues_with_the_same_bits():
    for expected, resumed in on_ranks(2, through_a_checkpoint):
        assert torch.equal(expected, resumed)


def with_another_group() -> tuple[int, list[str], torch.Tensor | None]:
    rank = dist.get_rank()
    pair = dist.new_group([0, 1])
    reducer = nf.Reducer(empty(), route="waterfill:3+ef")
    reducer.all_reduce(tensors_of(rank)).wait()
    if rank == 2:
        reducer.close()
        return 0, [], None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reducer.set_process_group(pair)
    step = reducer.fabric.step
    tensors = tensors_of(rank, 1)
    reducer.all_reduce(tensors, op="sum").wait()
    reducer.close()
    return step, [str(one.message) for one in caught], tensors["first"]


def test_a_reducer_continues_with_fewer_ranks_and_reports_what_is_reset():
    results = on_ranks(3, with_another_group)[:2]
    for step, messages, tensor in results:
        assert step == 1
        assert any("changed to 2 ranks: the error feedback of 3 tensors is reset" in one for one in messages)
        assert torch.equal(tensor, results[0][2])
        assert error(tensor, sums(2, 1)["first"]) < 0.2


def with_nan(off: bool) -> list[bool]:
    given = {"double": torch.zeros(4, dtype=torch.float64), "weight": torch.zeros(600)}
    with pytest.MonkeyPatch.context() as patch:
        if off:
            patch.setenv("NF_MODE", "off")
        reducer = nf.Reducer(given, route="waterfill:4")
    known = []
    for bad in (None, "double", "weight", None):
        tensors = {name: torch.ones_like(tensor) for name, tensor in given.items()}
        if bad and dist.get_rank() == 1:
            tensors[bad][0] = float("nan")
        reducer.all_reduce(tensors).wait()
        known.append(reducer.fabric.should_step())
    reducer.close()
    return known


@pytest.mark.parametrize("off", [False, True])
def test_all_ranks_learn_of_nan_in_any_tensor(off):
    for known in on_ranks(2, with_nan, off):
        assert known == [True, False, False, True]


def after_close() -> str:
    reducer = nf.Reducer(empty(), route="waterfill:4")
    reducer.close()
    with pytest.raises(RuntimeError) as caught:
        reducer.all_reduce(tensors_of(dist.get_rank())).wait()
    return str(caught.value)


def test_the_error_of_a_call_has_no_traceback_inside():
    for message in on_ranks(2, after_close, fresh=True):
        assert message.endswith("the fabric has been closed")
        assert "Traceback" not in message


def when_off() -> torch.Tensor:
    tensors = tensors_of(dist.get_rank())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NF_MODE", "off")
        reducer = nf.Reducer(empty(), route="waterfill:4")
    reducer.all_reduce(tensors).wait()
    assert "NF_MODE is off" in str(reducer.fabric.summary())
    return tensors["first"]


def test_off_reduces_over_the_process_group():
    for result in on_ranks(2, when_off):
        assert torch.allclose(result.double(), sums(2)["first"] / 2, atol=1e-6)
