"""nf.Reducer: reduces named tensors for training loops without a wrapper, such as local updates."""

from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist

from neuron_fabric.fabric import Fabric
from neuron_fabric.model import ModelParameters, local_tensor, parameters_of, plain_parameters
from neuron_fabric.ranks.rendezvous import AttachError, agree, gather_all
from neuron_fabric.reducer_work import ReducerWork, TensorBucket, pack, pack_rows
from neuron_fabric.session import open_session
from neuron_fabric.settings import Settings
from neuron_fabric.source import Source

OPS = ("mean", "sum")
COLLECTIVES = ("all_reduce", "reduce_scatter")


class Reducer:
    """Reduces named tensors over the ranks of a process group, with the profiles, admission, monitor and
    telemetry of attach().

        reducer = nf.Reducer(model, route="waterfill:4")
        reducer.all_reduce({"layer.weight": tensor}).wait()

    Each call is one step of the runtime. A name stands for the same quantity in every step: route memory
    and statistics belong to it.

    Every rank creates it at the same time.

    parameters: a module, or tensors by name. Only their names, shapes, types and device count, and the
        types of the modules; shards of a DTensor count as tensors.
    collective: the one that is called: all_reduce or reduce_scatter.
    settings: those of attach() except `scaler` and `record_lines`.
    """

    def __init__(
        self,
        parameters: torch.nn.Module | Mapping[str, torch.Tensor],
        profile: object = None,
        *,
        process_group: dist.ProcessGroup | None = None,
        collective: str = "all_reduce",
        **settings: Any,
    ) -> None:
        if collective not in COLLECTIVES:
            raise ValueError(f"collective must be one of {', '.join(COLLECTIVES)}, not {collective!r}")
        if unknown := settings.keys() & {"scaler", "record_lines"}:
            raise TypeError(f"nf.Reducer takes no {sorted(unknown)[0]}")
        self._given = parameters
        self._collective = collective
        self._settings = {"profile": profile, **settings}
        self._open(process_group)

    def _open(self, group: dist.ProcessGroup | None) -> None:
        source = Source("reducer", type(self._given).__name__, lambda: _parameters(self._given),
                        self._collective, bucket_bytes=None)
        session, parameters = open_session(
            source, group, lambda: Settings(**self._settings), self._settings.get("timeout"))
        self._session = session
        self._group = group if group is not None else dist.group.WORLD
        self._reduced: list[torch.Tensor] = []  # of the last call
        self._fabric = Fabric(session, parameters, gradients=lambda: self._reduced,
                              shards=self._group if self._collective == "reduce_scatter" else None)
        self._index = {name: i for i, name in enumerate(parameters.names)}
        unrouted = [(one.name, one.tensor) for one in parameters.unrouted]
        self._known = dict(zip(parameters.names, parameters.tensors, strict=True)) | dict(unrouted)

    @property
    def fabric(self) -> Fabric:
        """The controls and reports that attach() returns."""
        return self._fabric

    def all_reduce(self, tensors: Mapping[str, torch.Tensor], op: str = "mean") -> ReducerWork:
        """Starts to replace the tensors by their mean, or sum, over all ranks. Do not use them before
        wait(). All ranks pass the same names; a call may leave some out. If the calls differ, all ranks
        raise and nothing is changed."""
        return self._call("all_reduce", tensors, op)

    def reduce_scatter(self, tensors: Mapping[str, torch.Tensor], op: str = "mean") -> ReducerWork:
        """Starts to reduce the tensors over all ranks. After wait(), the work's shards() are this rank's
        parts of the mean, or sum: of n ranks, rank r gets the r-th of n chunks of dimension 0, as in
        FSDP2. The tensors are not changed. The rest is as in all_reduce()."""
        return self._call("reduce_scatter", tensors, op)

    def _call(self, call: str, tensors: Mapping[str, torch.Tensor], op: str) -> ReducerWork:
        tensors = {name: local_tensor(tensor) if torch.is_tensor(tensor) else tensor
                   for name, tensor in tensors.items()}
        if self._session is not None:
            self._agree({
                "the call": f"{call}()",
                f"the reduction of {call}()": op,
                f"the tensors of {call}()": [_description(*item) for item in tensors.items()],
            })
        if call != self._collective:
            raise RuntimeError(f"this Reducer was made for {self._collective}(); make another one with "
                               f"collective={call!r}")
        self._check(tensors, op)
        if call == "reduce_scatter":
            rank, ranks = dist.get_rank(self._group), dist.get_world_size(self._group)
            buckets = pack_rows(tensors, self._index, rank, ranks)
        else:
            buckets = pack(tensors, self._index)
        self._reduced = [tensor for bucket in buckets for tensor in bucket.tensors.values()]
        return ReducerWork(buckets, self._start(buckets, op == "mean"))

    def _start(self, buckets: list[TensorBucket], is_mean: bool) -> list[torch.futures.Future]:
        if self._session is None:
            return [bucket.start_dense(self._group, is_mean) for bucket in buckets]
        return [bucket.start(self._session.runtime, index, index == len(buckets) - 1, is_mean)
                for index, bucket in enumerate(buckets)]

    def _agree(self, call: dict[str, object]) -> None:
        try:
            agree(self._session.own_group, call)
        except AttachError:
            raise
        except RuntimeError as error:
            raise RuntimeError(
                f"neuron_fabric: {self._collective}() of a Reducer failed before any tensor was changed, "
                f"because a rank has ended or did not call it ({str(error).splitlines()[0]}); continue with the "
                "other ranks after set_process_group()") from error

    def _check(self, tensors: Mapping[str, torch.Tensor], op: str) -> None:
        if op not in OPS:
            raise ValueError(f"op must be one of {', '.join(OPS)}, not {op!r}")
        if not tensors:
            raise ValueError(f"{self._collective}() needs at least one tensor")
        for name, tensor in tensors.items():
            if name not in self._known:
                raise KeyError(f"{self._collective}() got the tensor {name!r}, which this Reducer was made without")
            if (given := _description(name, tensor)) != (wanted := _description(name, self._known[name])):
                raise ValueError(f"{self._collective}() got {given}, but this Reducer was made for {wanted}")
            if tensor.device != self._known[name].device:
                raise ValueError(f"{self._collective}() got {name} on {tensor.device}, but this Reducer was made "
                                 f"for {self._known[name].device}")

    def set_process_group(self, process_group: dist.ProcessGroup | None) -> None:
        """Continues with another group of ranks, for example after a rank has left. Every rank of the new
        group calls it between two steps; one that joins makes its Reducer for a group of its own before.
        Decisions and statistics are those of the new group's rank 0. If the number of ranks or their order
        has changed, route memory is reset and a warning is issued."""
        old = self._fabric.state_dict()
        self.close()
        self._open(process_group)
        if self._session is None:
            return
        own, rank, ranks = self._session.own_group, self._session.rank, self._session.ranks
        stayed = (old.get("rank"), old.get("ranks")) == (rank, ranks)
        of_ranks = gather_all(own, {"stayed": stayed, "has_memory": bool(old.get("memory")),
                                    "state": old.get("state")})
        if of_ranks[0]["state"] is None:  # NF_MODE was off
            return
        state = {"state": of_ranks[0]["state"], "memory": old.get("memory", [])}
        is_reset = any(one["has_memory"] for one in of_ranks) and not all(one["stayed"] for one in of_ranks)
        self._fabric.restore(state, f"the process group changed to {ranks} ranks" if is_reset else None)

    def state_dict(self) -> dict[str, object]:
        """As Fabric.state_dict()."""
        return self._fabric.state_dict()

    def load_state_dict(self, state: dict[str, object]) -> None:
        """As Fabric.load_state_dict()."""
        self._fabric.load_state_dict(state)

    def close(self) -> None:
        """Ends telemetry and threads. Tensors cannot be reduced afterwards."""
        self._fabric.close()

    def __enter__(self) -> "Reducer":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def _parameters(given: torch.nn.Module | Mapping[str, torch.Tensor]) -> ModelParameters:
    if isinstance(given, torch.nn.Module):
        return parameters_of(given).map(local_tensor)
    if not isinstance(given, Mapping) or not all(map(torch.is_tensor, given.values())):
        raise TypeError(f"nf.Reducer takes a module or tensors by name, not a {type(given).__name__}")
    return plain_parameters({name: local_tensor(tensor) for name, tensor in given.items()})


def _description(name: str, tensor: object) -> str:
    if not torch.is_tensor(tensor):
        return f"{name}, a {type(tensor).__name__}"
    return f"{name} {tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
