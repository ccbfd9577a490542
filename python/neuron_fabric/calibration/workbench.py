"""The objects that the parts of a calibration share: a training job, its hook, its regions."""

import gc
from dataclasses import dataclass, field
from typing import Any

from neuron_fabric import _C
from neuron_fabric.calibration.branch import Training
from neuron_fabric.calibration.evidence import Assignment
from neuron_fabric.calibration.regions import Region
from neuron_fabric.calibration.settings import CalibrationSettings
from neuron_fabric.calibration.snapshot import Snapshot
from neuron_fabric.calibration.switch import Switch
from neuron_fabric.calibration.watch import Watch
from neuron_fabric.ddp import ddp_source
from neuron_fabric.model import ModelParameters
from neuron_fabric.session import Session, open_session
from neuron_fabric.settings import Settings

TIMEOUT = 1800.0  # seconds for the rendezvous of ranks
NEVER = 1e6       # a limit of the profile that is never exceeded


@dataclass
class Workbench:
    settings: CalibrationSettings
    training: Training
    switch: Switch
    parameters: ModelParameters
    regions: list[Region]
    watch: Watch
    snapshots: dict[str, Snapshot] = field(default_factory=dict)  # by the start of branches

    def open(self, settings: Settings) -> Session:
        """Collective."""
        if any(tensor.is_cuda for tensor in self.parameters.tensors):
            gc.collect()  # frees device memory of earlier sessions on all ranks at the same time
        ddp = self.training.ddp
        source = ddp_source(ddp.module, _C.reducer_parameters(ddp.reducer))
        session, _ = open_session(source, ddp.process_group, lambda: settings, TIMEOUT)
        assert session is not None  # NF_MODE is on
        return session

    def trial_profile(self, assignment: Assignment) -> dict[str, Any]:
        """Without limits, so that the whole effect of a route is visible. The limit on non-finite values
        remains, and costs a region a step."""
        return {
            "format": "neuron_fabric.profile", "version": 1, "name": "trial",
            "regions": [region.pattern for region in self.regions],
            "phases": [{"from_step": 0, "routes": {
                region.name: assignment.route(region.name) for region in self.regions}}],
            "health": {"warm_up_steps": 0, "norm_spike": NEVER, "loss_spike": NEVER,
                       "error_budget": NEVER, "cool_down_steps": 1, "most_fallbacks": int(NEVER)},
            "smallest_parameter": self.settings.smallest_parameter,
        }
