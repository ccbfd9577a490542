"""The session of an attached model: its process group, its runtime in the core, its telemetry."""

import logging
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from neuron_fabric import _C
from neuron_fabric.decisions import Owner, Recorder, recorded_decisions
from neuron_fabric.model import ModelParameters, check_devices
from neuron_fabric.profile import Profile, resolve
from neuron_fabric.ranks.hosts import host_id, ranks_per_host
from neuron_fabric.ranks.own_group import own_group
from neuron_fabric.ranks.rendezvous import agree, broadcast_from_rank_0, gather_all, run_on_all_ranks
from neuron_fabric.running import Running
from neuron_fabric.settings import Settings, is_timeout, mode
from neuron_fabric.source import Source
from neuron_fabric.staging import log_staging, why_not_on_device
from neuron_fabric.summary import SummaryReader
from neuron_fabric.telemetry import Reader, make_readers

logger = logging.getLogger(__name__)


class Session:
    """Made by open_session(), on all ranks at the same time. If it fails on one rank, all ranks raise.
    It is closed when it is garbage-collected."""

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
        self.source = prepared.source
        self._why_on_host = prepared.why_on_host
        self._owner = Owner.of(prepared.profile, prepared.binding)
        self._decisions = recorded_decisions(
            self.own_group, settings.decisions, self._owner,
            deterministic=settings.deterministic)
        self._group_size = self._find_group_size()
        self._shared_name = ""
        if settings.reducer == "cxl":
            self._shared_name = broadcast_from_rank_0(self.own_group, f"nf-{uuid.uuid4().hex}")
            # Before the runtime, whose constructor waits for all ranks.
            run_on_all_ranks(self.own_group, self._clear_record_lines)
        self.runtime = run_on_all_ranks(self.own_group, self._make_runtime)
        self.summary_reader = SummaryReader()
        try:
            readers = run_on_all_ranks(self.own_group, self._make_readers)
        except BaseException:
            self.runtime.close()
            raise
        self._running = Running(
            self.runtime, [self.summary_reader, *readers, *settings.readers],
            {"torch": torch.__version__, "backend": dist.get_backend(group),
             "source": prepared.source.kind, "model": prepared.source.model},
        )
        self.telemetry = self._running.telemetry
        self._finalizer = weakref.finalize(self, self._running.leave)
        self._finalizer.atexit = False  # Running closes all sessions at exit
        if self.parameters.unrouted:
            self.notice("info", self.parameters.unrouted_text())
        if why := self.runtime.why_on_host:
            self.notice("warning", f"gradients go through host memory: {why}")
            tensors = self.parameters.tensors
            log_staging(why, 0 if self.shards else sum(one.numel() * one.element_size() for one in tensors),
                        can_rebuild=bool(prepared.why_on_host))

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
        """The same on all ranks; 0 if hosts have different numbers of consecutive ranks."""
        if (given := self.settings.group_size) is not None:
            if self.ranks % given != 0:
                raise ValueError(f"group_size={given} does not divide {self.ranks} ranks")
            return given
        size = ranks_per_host(gather_all(self.own_group, host_id()))
        if size == 0 and self.settings.topology == "hierarchical":
            raise ValueError("topology='hierarchical' reduces within each host first, but the hosts have "
                             "different numbers of consecutive ranks; set group_size=")
        return size

    def _clear_record_lines(self) -> None:
        """Empties the file, so that a file that cannot be written fails before the first step."""
        if self.rank == 0 and self.settings.record_lines is not None:
            path = Path(self.settings.record_lines).absolute()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("")

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
                self._bucket_values(), self._decisions,
            ) | {"collective": self.source.collective, "why_on_host": self._why_on_host},
        )

    def _bucket_values(self) -> int:
        """About how many values a bucket has; 1 or more."""
        tensors = self.parameters.tensors
        if self.source.bucket_bytes is None or not tensors:
            return sum(one.numel() for one in tensors) or 1
        return self.source.bucket_bytes // tensors[0].element_size() or 1

    @property
    def shards(self) -> int:
        """The number of parts of a parameter that are reduced each for one rank; 0 in an all-reduce."""
        return self.ranks if self.source.collective == "reduce_scatter" and self.ranks > 1 else 0

    def notice(self, level: str, text: str) -> None:
        self._running.write({"event": "notice", "level": level, "text": text})

    def close(self) -> None:
        self._finalizer.detach()
        self._running.close()


@dataclass(frozen=True)
class Prepared:
    """The inputs of a session that each rank prepares, before the ranks compare them."""

    source: Source
    parameters: ModelParameters
    profile: Profile
    binding: int  # a hash of how the profile fits the model
    why_on_host: str = ""  # why this build cannot reduce on the model's device, if it cannot


def open_session(
    source: Source,
    group: dist.ProcessGroup | None,
    check: Callable[[], Settings],
    timeout: object = None,
) -> tuple[Session | None, ModelParameters]:
    """Returns the session and the source's parameters. The session is None if NF_MODE is off, or if no
    parameter has a route. All ranks call it at the same time. If `check`, which makes the settings, or
    any later part fails on one rank, all ranks raise.

    timeout: the caller's argument, not yet validated; `check` validates it.
    """
    if not dist.is_available() or not dist.is_initialized():
        raise RuntimeError(
            "torch.distributed is not initialised: call init_process_group() first"
        )
    group = group if group is not None else dist.group.WORLD
    own = own_group(group, seconds_of(timeout, group))
    settings, now = run_on_all_ranks(own, lambda: (check(), mode()))
    agree(own, {"NF_MODE": now})
    if now == "off":
        logger.info("NF_MODE is off: gradients are reduced without the runtime")
        return None, source.parameters()
    prepared = run_on_all_ranks(own, lambda: _prepare(source, settings))
    agree(own, _facts(prepared, settings))
    if not prepared.parameters.names:
        logger.warning("no parameter has a route; %s", prepared.parameters.unrouted_text())
        return None, prepared.parameters
    return Session(prepared, group, own, settings), prepared.parameters


def _prepare(source: Source, settings: Settings) -> Prepared:
    if settings.within_replicas != "dense" and source.kind != "hsdp":
        raise ValueError(f"within_replicas={settings.within_replicas!r} needs fully_shard() on a mesh with "
                         f"replicas and shards (HSDP); the source of gradients is {source.kind}")
    parameters = source.parameters()
    if not parameters.names and not parameters.unrouted:
        raise ValueError("the model has no parameter with a gradient")
    if not parameters.names:
        return Prepared(source, parameters, Profile(""), 0)
    check_devices(parameters.tensors)
    profile = resolve(settings.profile, settings.route, parameters)
    binding = _C.binding_hash(
        profile.text, parameters.names, parameters.module_types, parameters.tensors
    )  # raises ValueError if the profile does not fit the model
    if source.collective == "reduce_scatter":
        _check_scatters(settings, profile)
    return Prepared(source, parameters, profile, binding, why_not_on_device(parameters.tensors[0].device))


def _check_scatters(settings: Settings, profile: Profile) -> None:
    """The core checks it too, but after the ranks have connected."""
    if settings.reducer != "ranks":
        raise ValueError(f"reducer={settings.reducer!r} has no reduce-scatter; omit it")
    topologies = ["auto", *_C.topology_names("reduce_scatter")]
    if settings.topology not in topologies:
        raise ValueError(f"topology={settings.topology!r} has no reduce-scatter; use one of {', '.join(topologies)}")
    routes = {route for phase in profile.to_dict()["phases"] for route in phase["routes"].values()}
    if found := sorted(route for route in routes if route.startswith("powersgd")):
        raise ValueError(f"route {found[0]!r} has no reduce-scatter: its factors belong to whole matrices; use a "
                         "codec, such as waterfill:4")
    if found := sorted(route for route in routes if "+rms" in route):
        raise ValueError(f"route {found[0]!r} has no reduce-scatter: a rank gets the sum of its own shard only, so "
                         "ranks share no RMS history; omit +rms")


def _facts(prepared: Prepared, settings: Settings) -> dict[str, object]:
    """The facts that must be equal on all ranks."""
    parameters = prepared.parameters
    facts = {
        "the version of neuron_fabric": _C.__version__,
        "the devices that the extension is built for": _C.devices or "the host alone",
        "whether the extension has code for the model's device": not prepared.why_on_host,
        "the version of PyTorch": torch.__version__,
        "the source of gradients": prepared.source.kind,
        "the collective": prepared.source.collective,
        "the bytes of a bucket": prepared.source.bucket_bytes,
        "the model's device": sorted({tensor.device.type for tensor in parameters.tensors}),
        "the model's parameters": [
            f"{name} {tuple(tensor.shape)} {tensor.dtype}"
            for name, tensor in zip(parameters.names, parameters.tensors, strict=True)
        ],
        "the parameters without a route": [
            f"{one.name} {tuple(one.tensor.shape)} {one.why}" for one in parameters.unrouted
        ],
        **settings.agreed(),
        "the profile": prepared.profile.text,
        "the types of the model's modules": [
            f"{name} {kind}"
            for name, kind in zip(parameters.names, parameters.module_types, strict=True)
        ],
        "how the profile fits the model, by its hash": prepared.binding,
        "whether decisions= is given": settings.decisions is not None,
    }
    if settings.reducer == "cxl":
        facts["the host, but reducer='cxl' needs all ranks on one host"] = host_id()
    return facts


def seconds_of(timeout: object, group: dist.ProcessGroup) -> float:
    """How long to wait for a peer of the group. timeout: the caller's argument, not yet validated."""
    return timeout if is_timeout(timeout) else _timeout_of(group)


def _timeout_of(group: dist.ProcessGroup) -> float:
    """The timeout of the user's collectives. A group has a backend per type of device, or for one type
    only; the host's backend comes first."""
    for device in sorted(group._device_types, key=str):
        try:
            return group._get_backend(device).options._timeout.total_seconds()
        except (RuntimeError, AttributeError):
            continue  # a backend without a timeout
    return dist.constants.default_pg_timeout.total_seconds()
