"""Fabric: the object that nf.attach() returns."""

import dataclasses
import logging
import math
import sys
import warnings
from collections.abc import Callable
from typing import TypeVar

import torch
import torch.distributed as dist

from neuron_fabric.jobs import Jobs
from neuron_fabric.model import ModelParameters, all_finite
from neuron_fabric.ranks.rendezvous import agree, run_on_all_ranks
from neuron_fabric.route_memory import check_memory, core_items, memory_items
from neuron_fabric.saved_state import check_format, difference, reject_accelerate, with_format
from neuron_fabric.session import Session
from neuron_fabric.summary import Summary

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Fabric:
    """Controls and reports the gradient communication of one model. Made by nf.attach().

    It is a context manager: `with nf.attach(model) as fabric:` closes it at the end.
    """

    def __init__(self, session: Session | None, parameters: ModelParameters, *,
                 gradients: Callable[[], list[torch.Tensor]] | None = None,
                 has_unseen: Callable[[], bool] = lambda: False,
                 shards: dist.ProcessGroup | None = None, others: dist.ProcessGroup | None = None,
                 within: "Fabric | None" = None) -> None:
        """gradients: returns the reduced gradients of this rank; default: those of the parameters.
        has_unseen: whether the last step reduced values without the core, besides those of unrouted parameters.
        shards: the ranks that hold the other shards of a replica.
        others: a group of the runtime with one rank of each job; None if the model has one job.
        within: with attach(within_replicas="low_bit"), the fabric within this rank's replica.
        """
        self._session = session  # None if NF_MODE is off, or no parameter has a route
        self._parameters = parameters
        self._gradients = gradients
        self._has_unseen = has_unseen
        self._shards, self._others = shards, others
        self._within = within

    def __enter__(self) -> "Fabric":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if not self._session:
            return "<neuron_fabric.Fabric: off>"
        session = self._session
        return (f"<neuron_fabric.Fabric: {len(self._parameters.names)} parameters, rank {session.rank} of "
                f"{session.ranks}, step {self.step}, {self.topology} on {self.place}>")

    @property
    def step(self) -> int:
        """The number of the next step; 0 if NF_MODE is off."""
        return self._session.runtime.step if self._session else 0

    @property
    def topology(self) -> str:
        return self._session.runtime.topology if self._session else "none"

    @property
    def place(self) -> str:
        """Where gradients are reduced: "host", "cuda", or "none" if NF_MODE is off."""
        return self._session.runtime.place if self._session else "none"

    @property
    def within(self) -> "Fabric | None":
        """With attach(within_replicas="low_bit"), the fabric of the reduce-scatters within this rank's
        replica, for its reports. The methods that change something act on both."""
        return self._within

    @property
    def jobs(self) -> Jobs:
        """The jobs of the model. Not with NF_MODE=off."""
        source = self._session.source
        return Jobs(source.kind, source.collective, self._session.ranks, self._others.size() if self._others else 1)

    @property
    def job(self) -> int:
        """The number of this rank's job: its shard, or within replicas its replica."""
        return self._others.rank() if self._others else 0

    @property
    def held_bytes(self) -> int:
        """Peak device memory of the runtime, without the gradients."""
        return self._session.runtime.held_bytes if self._session else 0

    def observe(self, loss: torch.Tensor | float) -> None:
        """Reports this rank's loss of the step. If the mean over ranks jumps, regions fall back to dense."""
        if self._session:
            value = loss.detach().float().mean().item() if torch.is_tensor(loss) else float(loss)
            self._session.runtime.observe_loss(value)
        if self._within:
            self._within.observe(loss)

    def set_loss_scale(self, scale: float) -> None:
        """Sets the factor of the gradients. With attach(scaler=...), it is set automatically."""
        if not (math.isfinite(scale) and scale > 0):
            raise ValueError(f"a loss scale must be a positive number, not {scale!r}")
        if self._session:
            self._session.runtime.set_loss_scale(scale)
        if self._within:
            self._within.set_loss_scale(scale)

    def report_capacity_breach(self) -> None:
        """Reports that an external reducer has rejected this rank's work: all ranks fall back to dense."""
        if self._session:
            self._session.runtime.report_capacity_breach()
        if self._within:
            self._within.report_capacity_breach()

    def should_step(self) -> bool:
        """Whether the gradients of the last step are finite; the same on every rank. If the parameters are
        sharded, all ranks call it."""
        known = self._session.runtime.should_step() if self._session else None
        is_finite = known is not False and all_finite(self._unseen_gradients(known))
        if self._shards is None:
            return is_finite
        one = [*self._parameters.tensors, *(other.tensor for other in self._parameters.unrouted)][0]
        flag = torch.tensor(float(is_finite), device=one.device)
        dist.all_reduce(flag, op=dist.ReduceOp.MIN, group=self._shards)
        return bool(flag)

    def _unseen_gradients(self, known: bool | None) -> list[torch.Tensor]:
        """Those that the core has not examined: of parameters without a route, which are the same on every rank
        since they have been reduced, and of all if the step was not monitored."""
        if self._gradients is not None:
            is_seen = known is not None and not self._parameters.unrouted and not self._has_unseen()
            return [] if is_seen else self._gradients()
        unseen = [one.tensor for one in self._parameters.unrouted]
        if known is None:
            unseen += self._parameters.tensors
        return [tensor.grad for tensor in unseen if tensor.grad is not None]

    def summary(self) -> Summary:
        """The summary of the run so far on this rank, to print, or to convert with to_dict()."""
        if not self._session:
            return Summary(mode="off", notes=[note for note in [self._parameters.unrouted_text()] if note])
        self._session.runtime.drain()
        self._session.telemetry.poll()
        return self._session.summary_reader.summary()

    def describe(self) -> str:
        """One line per parameter: region, route of the profile, route in use with the reason, size."""
        return self.summary().describe()

    def detach(self) -> None:
        """Returns to the reductions of the model's wrapper, permanently. Every rank calls it after the same step."""
        if self._session:
            agree(self._session.own_group, {"the step at which detach() was called": self.step})
            self._session.runtime.detach()
        if self._within:
            self._within.detach()

    def close(self) -> None:
        """Ends telemetry and threads, after training. Gradients cannot be reduced afterwards."""
        try:
            if self._session:
                self._session.close()
        finally:
            if self._within:
                self._within.close()

    def state_dict(self) -> dict[str, object]:
        """The state of this rank for a checkpoint. Every rank saves its own state."""
        reject_accelerate(sys._getframe(1))
        if not self._session:
            return with_format({"off": True})
        runtime = self._session.runtime
        return with_format({
            "jobs": dataclasses.asdict(self.jobs),
            "job": self.job,
            "rank": self._session.rank,
            "ranks": self._session.ranks,
            "profile": self._session.profile.text,
            "state": runtime.state(),
            "memory": memory_items(runtime.memory(), self._session.parameters, self._session.shards),
        } | ({"within": self._within.state_dict()} if self._within else {}))

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Restores the state that state_dict() returned, before the first step. If the source of gradients, the
        number of ranks or the number of shards has changed, decisions and running statistics are kept, error
        feedback is reset, and a warning is issued."""
        check_format(state)
        if not self._session or state.get("off"):
            return
        why_reset = self.difference(state)
        self.check(state if why_reset is None else state | {"memory": []})
        saved, here = (state["rank"], state.get("job", 0)), (self._session.rank, self.job)
        if why_reset is None and saved != here:
            raise ValueError(f"{self._place(*here)} received the state of {self._place(*saved)}; every rank "
                             "saves and loads its own")
        self.restore(state, why_reset)
        if self.has_within("within" in state):
            self._within.load_state_dict(state["within"])

    def _place(self, rank: int, job: int) -> str:
        return f"rank {rank}" if self._others is None else f"rank {rank} of job {job}"

    def difference(self, state: dict[str, object]) -> str | None:
        """Why the route memory of the state does not fit the jobs of this model; None if it does."""
        return difference(state, self.jobs)

    def has_within(self, is_saved: bool) -> bool:
        """Whether a state within replicas can be loaded. Warns if only one of this job and the saved one has it."""
        if (self._within is not None) != is_saved:
            self._warn("within_replicas has changed: the state within replicas is not loaded")
        return self._within is not None and is_saved

    def on_all_ranks(self, work: Callable[[], T], action: str) -> T:
        """Runs `work` on the ranks of all jobs. If it fails on one rank, all ranks raise."""
        def in_this_job() -> T:
            return run_on_all_ranks(self._session.own_group, work, action)

        return in_this_job() if self._others is None else run_on_all_ranks(self._others, in_this_job, action)

    def check(self, state: dict[str, object]) -> None:
        """Raises if the state cannot be loaded: the first step has been run, or the state has another profile
        or the route memory of another model."""
        if self.step > 0:
            raise RuntimeError(f"the fabric has already run {self.step} steps; load the state into a new one, "
                               "attached to a newly wrapped model")
        if state["profile"] != self._session.profile.text:
            raise ValueError("the state was saved with another profile; attach with that profile, or do not "
                             "load it")
        check_memory(state["memory"], self._session.parameters)

    def restore(self, state: dict[str, object], why_reset: str | None) -> None:
        """Loads decisions and statistics, and route memory unless there is a reason to reset it. The state
        has been checked."""
        runtime = self._session.runtime
        runtime.load_state(state["state"])
        if why_reset:
            self.report_reset(why_reset, len(state["memory"]))
            return
        runtime.load_memory(core_items(state["memory"]))

    def report_reset(self, why: str, tensors: int) -> None:
        """Warns that the route memory of `tensors` tensors is not loaded. A notice if there is none."""
        if tensors:
            self._warn(f"{why}: the error feedback of {tensors} tensors is reset")
        else:
            self._session.notice("info", f"{why}: decisions and statistics carry over")

    def _warn(self, text: str) -> None:
        warnings.warn(f"neuron_fabric: {text}", stacklevel=3)
        self._session.notice("warning", text)
