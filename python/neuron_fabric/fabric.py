"""What nf.attach() returns: the run as its user sees it."""

import logging
import math
import sys
import warnings

import torch

from neuron_fabric import _C
from neuron_fabric.model import ModelParameters, all_finite
from neuron_fabric.ranks.rendezvous import agree
from neuron_fabric.session import Session
from neuron_fabric.summary import Summary

logger = logging.getLogger(__name__)

_FORMAT = "neuron_fabric.state"
_VERSION = 1
_KEYS = {"rank", "ranks", "profile", "state", "memory"}
_MEMORY_KEYS = {"route", "parameter", "what", "rows", "values"}


class Fabric:
    """Watches and steers how one model's gradients travel. Made by nf.attach().

    A context manager: `with nf.attach(model) as fabric:` closes it at the end.
    """

    def __init__(self, session: Session | None, parameters: ModelParameters) -> None:
        self._session = session  # None if NF_MODE is off, or no parameter has a route
        self._parameters = parameters

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
        """The step that begins next; 0 where NF_MODE is off."""
        return self._session.runtime.step if self._session else 0

    @property
    def topology(self) -> str:
        return self._session.runtime.topology if self._session else "none"

    @property
    def place(self) -> str:
        """Where gradients are summed: "host", "cuda", or "none" where NF_MODE is off."""
        return self._session.runtime.place if self._session else "none"

    @property
    def held_bytes(self) -> int:
        """Device memory that the runtime holds beside the gradients, at its highest."""
        return self._session.runtime.held_bytes if self._session else 0

    def observe(self, loss: torch.Tensor | float) -> None:
        """This rank's loss of the step. A jump of the mean over ranks makes regions fall back."""
        if self._session:
            value = loss.detach().float().mean().item() if torch.is_tensor(loss) else float(loss)
            self._session.runtime.observe_loss(value)

    def set_loss_scale(self, scale: float) -> None:
        """What the gradients are multiplied by; attach(scaler=...) does it by itself."""
        if not (math.isfinite(scale) and scale > 0):
            raise ValueError(f"a loss scale is a positive number, not {scale!r}")
        if self._session:
            self._session.runtime.set_loss_scale(scale)

    def report_capacity_breach(self) -> None:
        """A reducer outside the ranks has refused this rank's work: all ranks fall back."""
        if self._session:
            self._session.runtime.report_capacity_breach()

    def should_step(self) -> bool:
        """Whether the gradients of the last step are finite; the same on every rank."""
        known = self._session.runtime.should_step() if self._session else None
        # The core sees what has a route. The rest is the same on every rank, too: DDP has reduced it.
        unseen = [one.tensor for one in self._parameters.unrouted]
        if known is None:
            unseen += self._parameters.tensors
        return known is not False and all_finite(
            [tensor.grad for tensor in unseen if tensor.grad is not None])

    def summary(self) -> Summary:
        """What has happened so far on this rank; print it, or take its to_dict()."""
        if not self._session:
            return Summary(mode="off", notes=[note for note in [self._parameters.unrouted_text()] if note])
        self._session.runtime.drain()
        self._session.telemetry.poll()
        return self._session.summary_reader.summary()

    def describe(self) -> str:
        """One line per parameter: its region, the profile's route, the route in use and why, its size."""
        return self.summary().describe()

    def detach(self) -> None:
        """Back to plain all-reduce, for good. Every rank calls it after the same step."""
        if self._session:
            agree(self._session.own_group, {"the step at which detach() was called": self.step})
            self._session.runtime.detach()

    def close(self) -> None:
        """Ends telemetry and threads, at the end of training. Gradients cannot be summed after."""
        if self._session:
            self._session.close()

    def state_dict(self) -> dict[str, object]:
        """This rank's share of what a checkpoint needs: every rank saves its own."""
        # Accelerate asks every rank and saves what the main process answers.
        if sys._getframe(1).f_globals.get("__name__") == "accelerate.checkpointing":
            raise RuntimeError(
                "accelerator.register_for_checkpointing(fabric) saves the state of the main process "
                "only, and the error feedback of the other ranks would be lost: attach with "
                "neuron_fabric.integrations.accelerate.attach(accelerator, model) instead, which "
                "saves the state of every rank"
            )
        if not self._session:
            return {"format": _FORMAT, "version": _VERSION, "off": True}
        runtime = self._session.runtime
        names = {_C.parameter_key(name): name for name in self._session.parameters.names}
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "rank": self._session.rank,
            "ranks": self._session.ranks,
            "profile": self._session.profile.text,
            "state": runtime.state(),
            "memory": [
                {"route": route, "parameter": names[key], "what": what, "rows": rows, "values": values}
                for route, key, what, rows, values in runtime.memory()
                if key in names
            ],
        }

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Goes on where state_dict() was taken, before the first step. Of a job with another number
        of ranks, decisions and running statistics carry over; what error feedback kept on each rank
        does not, and a warning says so."""
        _check_state(state)
        if not self._session or state.get("off"):
            return
        session = self._session
        if self.step > 0:
            raise RuntimeError(
                f"the fabric has already seen {self.step} steps; load the state into a new one, "
                "attached to a fresh DistributedDataParallel"
            )
        if state["profile"] != session.profile.text:
            raise ValueError(
                "the state was saved with another profile; attach with that one, or do not load it"
            )
        _check_memory(state["memory"], session.parameters)
        is_same_size = state["ranks"] == session.ranks
        if is_same_size and state["rank"] != session.rank:
            raise ValueError(
                f"rank {session.rank} was given the state of rank {state['rank']}; every rank saves "
                "and loads its own"
            )
        session.runtime.load_state(state["state"])
        if not is_same_size:
            self._warn(
                f"the state is of {state['ranks']} ranks and this job has {session.ranks}: what "
                f"error feedback kept of {len(state['memory'])} tensors is reset"
            )
            return
        session.runtime.load_memory(
            [
                (item["route"], _C.parameter_key(item["parameter"]), item["what"], item["rows"],
                 item["values"])
                for item in state["memory"]
            ]
        )

    def _warn(self, text: str) -> None:
        warnings.warn(f"neuron_fabric: {text}", stacklevel=3)
        self._session.notice("warning", text)


def _check_state(state: object) -> None:
    if not isinstance(state, dict) or state.get("format") != _FORMAT:
        raise ValueError("this is no state of a fabric: it was not made by state_dict()")
    if state.get("version") != _VERSION:
        raise ValueError(
            f"the state is of version {state.get('version')}, this build reads version {_VERSION}"
        )
    if not state.get("off") and (missing := _KEYS - state.keys()):
        raise ValueError(f"the state has lost its {', '.join(sorted(missing))}: save it whole")


def _check_memory(memory: list[dict[str, object]], parameters: ModelParameters) -> None:
    """Raises where it is of another model."""
    sizes = {
        name: tensor.numel()
        for name, tensor in zip(parameters.names, parameters.tensors, strict=True)
    }
    for item in memory:
        if missing := _MEMORY_KEYS - item.keys():
            raise ValueError(f"the state's memory has lost its {', '.join(sorted(missing))}")
        name, values = item["parameter"], item["values"]
        if name not in sizes:
            raise ValueError(
                f"the state is of another model: it remembers {name}, which this one does not have"
            )
        # Of powersgd, the basis is smaller.
        if item["what"] != "basis" and values.numel() != sizes[name]:
            raise ValueError(
                f"the state is of another model: it remembers {values.numel()} values of {name}, "
                f"which has {sizes[name]} here"
            )
