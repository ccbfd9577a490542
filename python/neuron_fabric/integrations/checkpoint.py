"""The state of a Fabric in checkpoints of torch.distributed.checkpoint (DCP).

    from neuron_fabric.integrations.checkpoint import FabricState

    state = {"model": ..., "optimizer": ..., "fabric": FabricState(fabric, checkpoint_id=path)}
    dcp.load(state, checkpoint_id=path)         # every rank, before the first step
    ...
    dcp.save(state, checkpoint_id=other_path)   # every rank, after the same step
"""

import logging
import os
from dataclasses import dataclass
from typing import Any

from torch.distributed.checkpoint import StorageReader
from torch.distributed.checkpoint._storage_utils import _storage_setup
from torch.distributed.checkpoint.metadata import Metadata

from neuron_fabric.fabric import Fabric
from neuron_fabric.integrations.checkpoint_parts import ABOUT, WITHIN, About, Loaded, SavedKeys, save_parts
from neuron_fabric.ranks.rendezvous import gather_all

logger = logging.getLogger(__name__)

_ACTION = "dcp.load()"
_REDUCER = "reducer"  # a source whose tensors are not the gradients of a model


class FabricState:
    """A Stateful of DCP: a value of the dict that dcp.save(), dcp.async_save() and dcp.load() take.

    Every rank saves its own route memory. The decisions and statistics of a job are saved once. If the job
    that loads them has another source, number of ranks or number of shards, decisions and statistics carry
    over, error feedback is reset, and a warning is issued. If the checkpoint has no Fabric state, nothing is
    loaded and a warning is issued.

    checkpoint_id, storage_reader: those of dcp.load(), which reads only the keys that state_dict() names;
        which keys exist depends on the checkpoint. Not needed for saving. They can be assigned until
        dcp.load() is called.
    key: the key of this object in the dict; needed only if the checkpoint has several.
    """

    def __init__(self, fabric: Fabric, checkpoint_id: str | os.PathLike | None = None, *,
                 storage_reader: StorageReader | None = None, key: str | None = None) -> None:
        self.checkpoint_id, self.storage_reader, self.key = checkpoint_id, storage_reader, key
        self._fabric = fabric

    def state_dict(self) -> dict[str, Any]:
        """The parts that this rank saves; before the first step, those that it loads."""
        fabric = self._fabric
        if fabric._session is None:  # NF_MODE is off
            return {}
        if fabric.step > 0:
            return _to_save(fabric, fabric.state_dict())
        metadata = self._metadata()
        if metadata is None:
            return {ABOUT: _about(fabric).print()}
        key = self._find_key(metadata)
        return {} if key is None else _to_load(fabric, metadata, key)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Called by dcp.load() on every rank. If it fails on one rank, all ranks raise."""
        if self._fabric._session is None:
            return
        found = self._fabric.on_all_ranks(lambda: self._check(state), _ACTION)
        for one in found:  # of this rank's job, then of the one within its replica
            if not all(gather_all(one.fabric._session.own_group, one.loaded.own is not None)):
                one.why_reset = one.why_reset or "the checkpoint does not have the states of all ranks"
        self._fabric.on_all_ranks(lambda: [one.restore() for one in found], _ACTION)

    def _metadata(self) -> Metadata | None:
        """None without a checkpoint, or if it cannot be read: then dcp.load() raises on all ranks."""
        if self.checkpoint_id is None and self.storage_reader is None:
            return None
        try:
            return _storage_setup(self.storage_reader, self.checkpoint_id, reader=True).read_metadata()
        except Exception as error:  # noqa: BLE001  those of any storage
            logger.info("neuron_fabric: no metadata of the checkpoint: %s", error)
            return None

    def _find_key(self, metadata: Metadata) -> str | None:
        """None if the checkpoint has no Fabric state."""
        keys = SavedKeys.find(metadata)
        if self.key is not None:
            return self.key if self.key in keys else None
        if len(keys) > 1:
            raise ValueError(f"the checkpoint has several Fabric states ({', '.join(keys)}); pass the key of "
                             "this one: FabricState(..., key=...)")
        return keys[0] if keys else None

    def _check(self, parts: dict[str, Any]) -> "list[_Found]":
        """The state of this rank's job, and that of the job within its replica. Empty if there is none. Raises if
        the state cannot be loaded."""
        if ABOUT not in parts:
            text = "the checkpoint has no Fabric state: error feedback and admission start from zero"
            logger.warning("neuron_fabric: %s", text)
            self._fabric._session.notice("warning", text)
            return []
        if (step := About.parse(parts[ABOUT]).step) == 0:
            return []
        if "shards" not in parts:
            raise ValueError(
                f"the checkpoint has a Fabric state of step {step}, but dcp.load() did not read it: "
                "pass the checkpoint to FabricState(fabric, checkpoint_id=...) too")
        found = [_find(self._fabric, parts)]
        if self._fabric.has_within(WITHIN in parts):
            found.append(_find(self._fabric.within, parts[WITHIN]))
        return found


@dataclass
class _Found:
    """The state that the job of a fabric loads."""

    fabric: Fabric
    loaded: Loaded
    why_reset: str | None  # the reason to reset route memory

    def restore(self) -> None:
        self.fabric.restore(self.loaded.state(with_own=self.why_reset is None), None)
        if self.why_reset is not None:
            self.fabric.report_reset(self.why_reset, self.loaded.tensors)


def _about(fabric: Fabric) -> About:
    return About(fabric.jobs, fabric.step, fabric._session.parameters.names)


def _to_save(fabric: Fabric, state: dict[str, Any]) -> dict[str, Any]:
    parts = {ABOUT: _about(fabric).print(), **save_parts(state, fabric.job)}
    if fabric.within is not None:
        parts[WITHIN] = _to_save(fabric.within, state["within"])
    return parts


def _to_load(fabric: Fabric, metadata: Metadata, key: str) -> dict[str, Any]:
    saved = SavedKeys(metadata, key)
    parts = {ABOUT: _about(fabric).print(), **saved.to_load(fabric.jobs, fabric.job, fabric._session.rank)}
    if saved.has_within:  # read also if this job has none, so that it can be reported
        within = f"{key}.{WITHIN}"
        parts[WITHIN] = {ABOUT: ""} if fabric.within is None else _to_load(fabric.within, metadata, within)
    return parts


def _find(fabric: Fabric, parts: dict[str, Any]) -> _Found:
    """Raises if the state cannot be loaded."""
    about, jobs = About.parse(parts[ABOUT]), fabric.jobs
    why_reset = f"the state is from {about.jobs} and this job is {jobs}" if about.jobs != jobs else None
    if about.jobs.source != jobs.source and _REDUCER in (about.jobs.source, jobs.source):
        raise ValueError(f"{why_reset}: load it into the same source, or call dcp.load() without the FabricState")
    _check_names(about.names, fabric._session.parameters.names)
    loaded = Loaded.find(parts, fabric.job, fabric._session.rank)
    fabric.check(loaded.state(with_own=False))
    if why_reset is None and loaded.own is not None:
        fabric.check(loaded.state(with_own=True))
    return _Found(fabric, loaded, why_reset)


def _check_names(saved: list[str], now: list[str]) -> None:
    for some, others, what in ((saved, now, "it contains {}, which this model does not have"),
                               (now, saved, "it does not contain {}, which this model has")):
        if missing := sorted(set(some) - set(others)):
            raise ValueError(f"the state is from another model: {what.format(missing[0])}; call dcp.load() "
                             "without the FabricState to start without it")
