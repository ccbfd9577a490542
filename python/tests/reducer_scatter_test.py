"""Reducer.reduce_scatter(): each rank gets its chunk of the reduced tensors, as from the process group at full
precision, and with less error than all_reduce() at low bits."""

import copy
import math
import os
import signal
import warnings

import neuron_fabric as nf
import pytest
import torch
import torch.distributed as dist
from ranks import RanksFailed, on_ranks
from reducer_test import error, flat

# Dimension 0 divides by 2 and by 3, by none of them, and has fewer rows than ranks; a scalar; no elements.
SHAPES = {"divided": (300, 40), "uneven": (97, 64), "few": (1, 700), "vector": (7,), "scalar": (), "empty": (0, 4)}
TYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
Tensors = dict[str, torch.Tensor]


def tensors_of(rank: int, step: int = 0, dtype: torch.dtype = torch.float32) -> Tensors:
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return {name: torch.randn(shape, generator=generator).to(dtype) for name, shape in SHAPES.items()}


def means(ranks: int, step: int = 0) -> Tensors:
    parts = [tensors_of(rank, step) for rank in range(ranks)]
    return {name: sum(part[name].double() for part in parts) / ranks for name in SHAPES}


def make(given: Tensors | None = None, **options: object) -> nf.Reducer:
    return nf.Reducer(given or tensors_of(0), collective="reduce_scatter", **options)


def scattered(reducer: nf.Reducer, tensors: Tensors, op: str = "mean") -> Tensors:
    work = reducer.reduce_scatter(tensors, op=op)
    work.wait()
    return work.shards()


def joined(by_rank: list[Tensors]) -> Tensors:
    """The whole tensors of the shards of all ranks."""
    return {name: torch.cat([shards[name] for shards in by_rank]).reshape(shape) for name, shape in SHAPES.items()}


def of_the_process_group(tensors: Tensors, op: str) -> Tensors:
    """dist.reduce_scatter_tensor() of all tensors at once, padded to equal chunks."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    padded = []
    for tensor in tensors.values():
        rows = tensor if tensor.dim() else tensor.view(1)
        missing = -len(rows) % ranks
        padded.append(torch.cat([rows, rows.new_zeros(missing, *rows.shape[1:])]).reshape(ranks, -1))
    whole = torch.cat(padded, dim=1)
    own = whole.new_empty(whole.shape[1])
    dist.reduce_scatter_tensor(own, whole.view(-1), dist.ReduceOp.AVG if op == "mean" else dist.ReduceOp.SUM)
    parts = own.split([chunks.shape[1] for chunks in padded])
    shards = {}
    for (name, tensor), part in zip(tensors.items(), parts, strict=True):
        shape = tensor.shape or (1,)
        chunk = math.ceil(shape[0] / ranks)
        shards[name] = part.view(chunk, *shape[1:])[:max(shape[0] - rank * chunk, 0)]
    return shards


def with_and_without(op: str, dtype: torch.dtype) -> tuple[Tensors, Tensors]:
    tensors = {name: tensor.to(dtype) for name, tensor in tensors_of(dist.get_rank()).items()}
    with make(tensors, route="fp32") as reducer:
        return scattered(reducer, tensors, op), of_the_process_group(tensors, op)


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("op", ["mean", "sum"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_fp32_equals_reduce_scatter_of_the_process_group_bit_for_bit(ranks, op, dtype):
    for ours, theirs in on_ranks(ranks, with_and_without, op, dtype):
        for name in SHAPES:
            assert ours[name].shape == theirs[name].shape
            assert torch.equal(ours[name], theirs[name]), name


def of_several_types() -> tuple[Tensors, Tensors]:
    """At low bits; two of them have no route."""
    rank = dist.get_rank()
    given = {"weight": torch.full((50, 40), rank + 1.0), "half": torch.full((50, 40), rank + 1.0, dtype=torch.float16),
             "double": torch.full((5,), rank + 0.5, dtype=torch.float64), "count": torch.arange(5) + rank}
    with make(given, route="waterfill:8") as reducer:
        return scattered(reducer, given, "sum"), given


def test_types_without_a_route_are_reduced_exactly():
    by_rank = on_ranks(2, of_several_types)
    for rank, (shards, given) in enumerate(by_rank):
        assert torch.allclose(shards["weight"], torch.tensor(3.0), rtol=0.02)
        assert torch.allclose(shards["half"].float(), torch.tensor(3.0), rtol=0.02)
        assert torch.equal(shards["double"], torch.full((3 - rank,), 2.0, dtype=torch.float64))
        assert torch.equal(shards["count"], (2 * torch.arange(5) + 1)[3 * rank:3 * rank + 3])
        assert all(shards[name].dtype == given[name].dtype for name in given)


def both_collectives(route: str) -> tuple[Tensors, Tensors, bool]:
    """Shards; the result of all_reduce(); and whether reduce_scatter() left its input as it was."""
    tensors, same = tensors_of(dist.get_rank()), tensors_of(dist.get_rank())
    with make(route=route) as reducer:
        shards = scattered(reducer, tensors)
    is_unchanged = all(torch.equal(tensors[name], same[name]) for name in SHAPES)
    with nf.Reducer(same, route=route) as reducer:
        reducer.all_reduce(same).wait()
    return shards, same, is_unchanged


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("route", ["waterfill:4", "mxfp6"])
def test_shards_have_less_error_than_all_reduce_at_the_same_bits(ranks, route):
    results = on_ranks(ranks, both_collectives, route)
    exact = flat(means(ranks))
    ours = error(flat(joined([shards for shards, _, _ in results])), exact)
    assert 1e-6 < ours < 0.05
    assert ours < 0.8 * error(flat(results[0][1]), exact)
    assert all(is_unchanged for _, _, is_unchanged in results)


def with_feedback(route: str, steps: int) -> Tensors:
    """The mean of the shards over steps with the same input."""
    tensors = tensors_of(dist.get_rank())
    with make(route=route) as reducer:
        results = [scattered(reducer, tensors) for _ in range(steps)]
    return {name: sum(shards[name] for shards in results) / steps for name in SHAPES}


def test_error_feedback_compensates_the_loss_over_steps():
    exact = flat(means(2))
    errors = {steps: error(flat(joined(on_ranks(2, with_feedback, "waterfill:3+ef", steps))), exact)
              for steps in (1, 10)}
    assert errors[10] < 0.1 * errors[1]


def through_a_checkpoint(route: str) -> tuple[list[Tensors], list[Tensors], int]:
    """The last steps of an uninterrupted run and of a resumed one, and the tensors that have a residual."""
    rank = dist.get_rank()
    with make(route=route) as whole:
        expected = [scattered(whole, tensors_of(rank, step)) for step in range(4)]
    with make(route=route) as first:
        for step in range(2):
            scattered(first, tensors_of(rank, step))
        state = first.state_dict()
    with make(route=route) as second:
        second.load_state_dict(state)
        resumed = [scattered(second, tensors_of(rank, step)) for step in range(2, 4)]
    return expected[2:], resumed, len(state["memory"])


@pytest.mark.parametrize("route", ["waterfill:4", "waterfill:3+ef"])
def test_a_resumed_reducer_continues_with_the_same_bits(route):
    for expected, resumed, residuals in on_ranks(3, through_a_checkpoint, route):
        for one, other in zip(expected, resumed, strict=True):
            assert torch.equal(flat(one), flat(other))
        assert (residuals > 0) == route.endswith("+ef")


def wrong_call(change: str) -> str:
    """A call that fails changes nothing, and the next one works."""
    rank = dist.get_rank()
    tensors, op = tensors_of(rank), "mean"
    match change if rank == 1 else "":
        case "shape":
            tensors["few"] = tensors["few"][:, :1]
        case "missing":
            del tensors["few"]
        case "op":
            op = "sum"
        case "type":
            tensors["few"] = tensors["few"].tolist()
    if change == "unknown":
        tensors["other"] = tensors.pop("few")
    is_wrong_method = change == "collective" or (change == "method" and rank == 1)
    before = copy.deepcopy(tensors)
    with make(route="waterfill:4") as reducer:
        with pytest.raises((RuntimeError, ValueError, KeyError)) as caught:
            reducer.all_reduce(tensors) if is_wrong_method else reducer.reduce_scatter(tensors, op=op)
        assert all(torch.equal(tensors[name], before[name]) for name in before if torch.is_tensor(before[name]))
        assert reducer.fabric.step == 0
        assert scattered(reducer, tensors_of(rank))["divided"].any()
    return str(caught.value)


@pytest.mark.parametrize(("change", "words"), [
    ("shape", "rank 0 and rank 1 differ in the tensors of reduce_scatter(): few (1, 700) float32 and few (1, 1) "),
    ("missing", "rank 0 and rank 1 differ in the tensors of reduce_scatter(): few (1, 700) float32 and vector (7,) "),
    ("op", "rank 0 and rank 1 differ in the reduction of reduce_scatter(): mean and sum"),
    ("type", "rank 0 and rank 1 differ in the tensors of reduce_scatter(): few (1, 700) float32 and few, a list"),
    ("unknown", "reduce_scatter() got the tensor 'other', which this Reducer was made without"),
    ("method", "rank 0 and rank 1 differ in the call: reduce_scatter() and all_reduce()"),
    ("collective", "this Reducer was made for reduce_scatter(); make another one with collective='all_reduce'"),
])
def test_a_wrong_call_raises_on_every_rank_and_changes_nothing(change, words):
    for message in on_ranks(3, wrong_call, change):
        assert words in message


def wrong_reducer(change: str) -> str:
    collective, options = "reduce_scatter", {"route": "waterfill:4"}
    match change:
        case "differing":
            collective = "all_reduce" if dist.get_rank() == 1 else collective
        case "unknown":
            collective = "reduce-scatter"
        case "powersgd":
            options = {"route": "powersgd:2"}
        case "tree":
            options = {"topology": "tree"}
    with pytest.raises((RuntimeError, ValueError)) as caught:
        nf.Reducer(tensors_of(0), collective=collective, **options)
    return str(caught.value)


@pytest.mark.parametrize(("change", "words"), [
    ("differing", "rank 0 and rank 1 differ in the collective: reduce_scatter and all_reduce"),
    ("unknown", "collective must be one of all_reduce, reduce_scatter, not 'reduce-scatter'"),
    ("powersgd", "route 'powersgd:2' has no reduce-scatter"),
    ("tree", "topology='tree' has no reduce-scatter"),
])
def test_a_reducer_that_cannot_work_is_rejected_on_every_rank(change, words):
    for message in on_ranks(2, wrong_reducer, change):
        assert words in message


def when_off() -> tuple[Tensors, Tensors]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NF_MODE", "off")
        reducer = make(route="waterfill:4")
    tensors = tensors_of(dist.get_rank())
    return scattered(reducer, tensors), of_the_process_group(tensors, "mean")


def test_off_has_the_bits_of_the_process_group():
    for ours, theirs in on_ranks(3, when_off):
        assert torch.equal(flat(ours), flat(theirs))


def with_another_group() -> tuple[list[str], Tensors | None]:
    rank, pair = dist.get_rank(), dist.new_group([0, 1])
    reducer = make(route="waterfill:3+ef")
    scattered(reducer, tensors_of(rank))
    if rank == 2:
        reducer.close()
        return [], None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reducer.set_process_group(pair)
    assert reducer.fabric.step == 1
    shards = scattered(reducer, tensors_of(rank, 1))
    reducer.close()
    return [str(one.message) for one in caught], shards


def test_a_reducer_continues_with_fewer_ranks_and_reports_what_is_reset():
    results = on_ranks(3, with_another_group)[:2]
    assert error(flat(joined([shards for _, shards in results])), flat(means(2, 1))) < 0.2
    for messages, _ in results:
        assert any("changed to 2 ranks: the error feedback of " in message for message in messages)


def with_a_dead_rank() -> None:
    with make(route="waterfill:4") as reducer:
        for step in range(4):
            if step == 2 and dist.get_rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            scattered(reducer, tensors_of(dist.get_rank(), step))


def test_no_rank_waits_for_a_dead_rank():
    with pytest.raises(RanksFailed) as caught:
        on_ranks(3, with_a_dead_rank, fresh=True)
    text = str(caught.value)
    assert text.count("RuntimeError: neuron_fabric: reduce_scatter() of a Reducer failed before any tensor was") == 2
    assert "did not finish" not in text


def with_nan(mode: str) -> list[bool]:
    """Whether each call was sound. A NaN of rank 1 is in the shard of rank 0 only."""
    given = {"double": torch.zeros(4, dtype=torch.float64), "weight": torch.zeros(60, 40)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NF_MODE", mode)
        reducer = make(given, route="waterfill:4")
    known = []
    for bad in (None, "double", "weight", None):
        tensors = {name: torch.ones_like(tensor) for name, tensor in given.items()}
        if bad and dist.get_rank() == 1:
            tensors[bad][0] = float("nan")
        scattered(reducer, tensors)
        known.append(reducer.fabric.should_step())
    reducer.close()
    return known


@pytest.mark.parametrize("mode", ["on", "off"])
def test_all_ranks_learn_of_nan_in_a_shard_of_one_rank(mode):
    assert on_ranks(2, with_nan, mode) == 2 * [[True, False, False, True]]
