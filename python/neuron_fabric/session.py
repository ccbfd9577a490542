"""What is behind an attached model: its process group, its runtime in the core, its telemetry."""

import logging
import uuid
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from neuron_fabric import _C
from neuron_fabric.decisions import Owner, Recorder, recorded_decisions
from neuron_fabric.model import ModelParameters, check_devices, parameters_of
from neuron_fabric.profile import Profile, resolve
from neuron_fabric.ranks.hosts import ranks_per_host, host_id
from neuron_fabric.ranks.own_group import own_group
from neuron_fabric.ranks.rendezvous import agree, gather_all, broadcast_from_rank_0, run_on_all_ranks
from neuron_fabric.running import Running
from neuron_fabric.settings import Settings, is_timeout, mode
from neuron_fabric.summary import SummaryReader
from neuron_fabric.telemetry import Reader, make_readers

logger = logging.getLogger(__name__)


class Session:
    """Made by open_session(), on all ranks at the same time. Raises on all of them where one cannot
    go on. When nobody holds it any more, it closes as by close()."""

    def __init__(
        self,
        prepared: "Prepared",
        group: dist.ProcessGroup,
        own_group: dist.ProcessGroup,
        settings: Settings,
    ) -> None:
        self.settings = settings
        self.group = group
        self.own_group = own_group
        self.rank = dist.get_rank(group)
        self.ranks = dist.get_world_size(group)
        self.timeout = settings.timeout or _timeout_of(group)
        self.parameters, self.profile = prepared.parameters, prepared.profile
        self._owner = Owner.of(prepared.profile, prepared.binding)
        self._decisions = recorded_decisions(
            self.own_group, settings.decisions, self._owner,
            deterministic=settings.deterministic)
        self._group_size = self._find_group_size()
        self._shared_name = ""
        if settings.reducer == "cxl":
            self._shared_name = broadcast_from_rank_0(self.own_group, f"nf-{uuid.uuid4().hex}")
            # Before the runtime, in whose making ranks wait for one another.
            run_on_all_ranks(self.own_group, self._clear_lines)
        self.runtime = run_on_all_ranks(self.own_group, self._make_runtime)
        self.summary_reader = SummaryReader()
        try:
            readers = run_on_all_ranks(self.own_group, self._make_readers)
        except BaseException:
            self.runtime.close()
            raise
        self._running = Running(
            self.runtime, [self.summary_reader, *readers, *settings.readers],
            {"torch": torch.__version__, "backend": dist.get_backend(group), "model": prepared.model},
        )
        self.telemetry = self._running.telemetry
        self._dropped = weakref.finalize(self, self._running.leave)
        self._dropped.atexit = False  # all that still run are closed then
        if self.parameters.unrouted:
            self.notice("info", self.parameters.unrouted_text())
        if self.runtime.why_on_host:
            self.notice("warning", f"gradients go through host memory: {self.runtime.why_on_host}")

    def _make_readers(self) -> list[Reader]:
        readers = make_readers(
            self.rank,
            run_dir=self.settings.run_dir,
            tensorboard=self.settings.tensorboard,
            prometheus=self.settings.prometheus,
            buckets=self.settings.record,
        )
        if self.rank == 0 and self.settings.decisions is not None and self._decisions is None:
            readers.append(Recorder(self.settings.decisions, self._owner))
        return readers

    def _find_group_size(self) -> int:
        """The same on all ranks; 0 where ranks do not share machines evenly."""
        if (given := self.settings.group_size) is not None:
            if self.ranks % given != 0:
                raise ValueError(f"group_size={given} does not divide {self.ranks} ranks")
            return given
        size = ranks_per_host(gather_all(self.own_group, host_id()))
        if size == 0 and self.settings.topology == "hierarchical":
            raise ValueError("topology='hierarchical' sums inside machines first, and these do not all "
                             "have as many consecutive ranks; say group_size= where groups are others")
        return size

    def _clear_lines(self) -> None:
        if self.rank == 0 and self.settings.record_lines is not None:
            path = Path(self.settings.record_lines).absolute()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")  # where that fails, it does before the first step

    def _make_runtime(self) -> _C.Runtime:
        return _C.Runtime(
            names=self.parameters.names,
            module_types=self.parameters.module_types,
            tensors=self.parameters.tensors,
            training_group=self.group,
            own_group=self.own_group,
            store=dist.distributed_c10d._get_default_store(),
            prefix=self.own_group.group_name,
            options=self.settings.to_core(
                self.profile.text, self.timeout, self._group_size, self._shared_name,
                self._decisions,
            ),
        )

    def notice(self, level: str, text: str) -> None:
        self._running.tell({"event": "notice", "level": level, "text": text})

    def close(self) -> None:
        self._dropped.detach()
        self._running.close()


@dataclass(frozen=True)
class Prepared:
    """What a rank finds out by itself, before the ranks compare it."""

    model: str  # its class
    parameters: ModelParameters
    profile: Profile
    binding: int  # a hash of how the profile fits the model


def open_session(
    module: torch.nn.Module,
    group: dist.ProcessGroup | None,
    check: Callable[[], Settings],
    timeout: object = None,
    reduced: Sequence[tuple[torch.Tensor, bool]] | None = None,
) -> tuple[Session | None, ModelParameters]:
    """The session is None if NF_MODE is off, or no parameter has a route. All ranks call it at the same
    time. If `check`, which makes the settings, or anything after it fails on one rank, it raises on all
    of them.

    timeout: the caller's; `check` validates it.
    reduced: what DDP's reducer reduces (_C.reducer_parameters()), if it is known.
    """
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError(
            "torch.distributed is not initialised: call init_process_group() before attach()"
        )
    group = group if group is not None else dist.group.WORLD
    seconds = timeout if is_timeout(timeout) else _timeout_of(group)
    own = own_group(group, seconds)
    settings, now = run_on_all_ranks(own, lambda: (check(), mode()))
    agree(own, {"NF_MODE": now})
    if now == "off":
        logger.info("NF_MODE is off: gradients travel as DDP sends them")
        return None, parameters_of(module, reduced)
    prepared = run_on_all_ranks(own, lambda: _prepare(module, reduced, settings))
    agree(own, _facts(prepared, settings))
    if not prepared.parameters.names:
        logger.warning("no parameter has a route; %s", prepared.parameters.unrouted_text())
        return None, prepared.parameters
    return Session(prepared, group, own, settings), prepared.parameters


def _prepare(module: torch.nn.Module, reduced: Sequence[tuple[torch.Tensor, bool]] | None,
             settings: Settings) -> Prepared:
    kind, parameters = type(module).__name__, parameters_of(module, reduced)
    if not parameters.names and not parameters.unrouted:
        raise ValueError("the model has no parameter that gets a gradient")
    if not parameters.names:
        return Prepared(kind, parameters, Profile(""), 0)
    check_devices(parameters.tensors)
    profile = resolve(settings.profile, settings.route, parameters)
    binding = _C.binding_hash(
        profile.text, parameters.names, parameters.module_types, parameters.tensors
    )  # raises if the profile does not fit the model
    return Prepared(kind, parameters, profile, binding)


def _facts(prepared: Prepared, settings: Settings) -> dict[str, object]:
    """What all ranks must have in common."""
    parameters = prepared.parameters
    facts = {
        "the version of neuron_fabric": _C.__version__,
        "the devices that the extension is built for": _C.devices or "the host alone",
        "the version of PyTorch": torch.__version__,
        "where the model lies": sorted({tensor.device.type for tensor in parameters.tensors}),
        "the model's parameters": [
            f"{name} {tuple(tensor.shape)} {tensor.dtype}"
            for name, tensor in zip(parameters.names, parameters.tensors, strict=True)
        ],
        "the parameters without a route": [
            f"{one.name} {tuple(one.tensor.shape)} {one.why}" for one in parameters.unrouted
        ],
        "route": settings.route,
        "the profile": prepared.profile.text,
        "the types of the model's modules": [
            f"{name} {kind}"
            for name, kind in zip(parameters.names, parameters.module_types, strict=True)
        ],
        "how the profile fits the model, by its hash": prepared.binding,
        "admit": settings.admit,
        "topology": settings.topology,
        "group_size": settings.group_size,
        "reducer": settings.reducer,
        "link_gbps": settings.link_gbps,
        "seed": settings.seed,
        "deterministic": settings.deterministic,
        "whether decisions= is given": settings.decisions is not None,
    }
    if settings.reducer == "cxl":
        facts["the machine, and reducer='cxl' sums in the memory of one"] = host_id()
    return facts


def _timeout_of(group: dist.ProcessGroup) -> float:
    """What the user allows a collective to take. A group has a backend for each kind of device, or
    for one alone; the host's is asked first."""
    for device in sorted(group._device_types, key=str):
        try:
            return group._get_backend(device).options._timeout.total_seconds()
        except (RuntimeError, AttributeError):
            continue  # one that does not say
    return dist.constants.default_pg_timeout.total_seconds()
