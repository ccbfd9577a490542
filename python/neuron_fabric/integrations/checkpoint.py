"""The state of a Fabric in checkpoints of torch.distributed.checkpoint (DCP).

    from neuron_fabric.integrations.checkpoint import FabricState

    state = {"model": ..., "optimizer": ..., "fabric": FabricState(fabric, checkpoint_id=path)}
    dcp.load(state, checkpoint_id=path)         # every rank, before the first step
    ...
    dcp.save(state, checkpoint_id=other_path)   # every rank, after the same step
"""

import logging
import os
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint import StorageReader
from torch.distributed.checkpoint._storage_utils import _storage_setup
from torch.distributed.checkpoint.metadata import Metadata

from neuron_fabric.fabric import Fabric
from neuron_fabric.integrations.checkpoint_parts import ABOUT, About, Layout, Loaded, SavedKeys, save_parts
from neuron_fabric.ranks.rendezvous import gather_all, run_on_all_ranks

logger = logging.getLogger(__name__)

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
        self._fabric, self._session = fabric, fabric._session

    def state_dict(self) -> dict[str, Any]:
        """The parts that this rank saves; before the first step, those that it loads."""
        if self._session is None:  # NF_MODE is off
            return {}
        about = About(self._layout(), self._fabric.step, self._session.parameters.names)
        if about.step > 0:
            return {ABOUT: about.print(), **save_parts(self._fabric.state_dict(), self._shard())}
        metadata = self._metadata()
        if metadata is None:
            return {ABOUT: about.print()}
        key = self._find_key(metadata)
        if key is None:
            return {}
        parts = SavedKeys(metadata, key).to_load(about.layout, self._shard(), self._session.rank)
        return {ABOUT: about.print(), **parts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Called by dcp.load() on every rank. If it fails on one rank of a job, all its ranks raise."""
        if self._session is None:
            return
        group, action = self._session.own_group, "dcp.load()"
        found = run_on_all_ranks(group, lambda: self._check(state), action)
        if found is None:
            return
        loaded, why_reset = found
        if not all(gather_all(group, loaded.own is not None)):
            why_reset = why_reset or "the checkpoint does not have the states of all ranks"
        run_on_all_ranks(group, lambda: self._restore(loaded, why_reset), action)

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

    def _check(self, parts: dict[str, Any]) -> tuple[Loaded, str | None] | None:
        """The loaded parts, and the reason to reset route memory. None if there is no state. Raises if the
        state cannot be loaded."""
        if ABOUT not in parts:
            text = "the checkpoint has no Fabric state: error feedback and admission start from zero"
            logger.warning("neuron_fabric: %s", text)
            self._session.notice("warning", text)
            return None
        about, layout = About.parse(parts[ABOUT]), self._layout()
        if about.step == 0:
            return None
        if "shards" not in parts:
            raise ValueError(
                f"the checkpoint has a Fabric state of step {about.step}, but dcp.load() did not read it: "
                "pass the checkpoint to FabricState(fabric, checkpoint_id=...) too")
        if about.layout.source != layout.source and _REDUCER in (about.layout.source, layout.source):
            raise ValueError(f"the state is from {about.layout} and this job is {layout}: load it into the "
                             "same source, or call dcp.load() without the FabricState")
        _check_names(about.names, self._session.parameters.names)
        loaded = Loaded.find(parts, self._shard(), self._session.rank)
        self._fabric.check(loaded.state(with_own=False))
        if about.layout != layout:
            return loaded, f"the state is from {about.layout} and this job is {layout}"
        if loaded.own is not None:
            self._fabric.check(loaded.state(with_own=True))
        return loaded, None

    def _restore(self, loaded: Loaded, why_reset: str | None) -> None:
        self._fabric.restore(loaded.state(with_own=why_reset is None), None)
        if why_reset is not None:
            self._fabric.report_reset(why_reset, loaded.tensors)

    def _layout(self) -> Layout:
        shards = self._jobs_of_shards()
        return Layout(self._fabric.summary().attach.source, self._session.ranks,
                      shards.size() if shards else 1)

    def _shard(self) -> int:
        shards = self._jobs_of_shards()
        return shards.rank() if shards else 0

    def _jobs_of_shards(self) -> dist.ProcessGroup | None:
        """The ranks of a replica, if each belongs to another job. None if the model has one job."""
        shards = self._fabric._shards
        if shards is None:
            return None
        replica, job = map(dist.get_process_group_ranks, (shards, self._session.group))
        return None if set(replica) <= set(job) else shards


def _check_names(saved: list[str], now: list[str]) -> None:
    for some, others, what in ((saved, now, "it contains {}, which this model does not have"),
                               (now, saved, "it does not contain {}, which this model has")):
        if missing := sorted(set(some) - set(others)):
            raise ValueError(f"the state is from another model: {what.format(missing[0])}; call dcp.load() "
                             "without the FabricState to start without it")
