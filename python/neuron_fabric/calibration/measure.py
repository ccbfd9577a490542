"""Measures the error of routes on the sum of a model's gradients, in a step of dense training.

Every bucket is reduced exactly by the group's all-reduce, and once more by each route. Training uses
the exact mean.
"""

import math
from collections.abc import Mapping

import torch
import torch.distributed as dist

from neuron_fabric.calibration.evidence import Measurement
from neuron_fabric.calibration.switch import Scaler, Sum, set_scale
from neuron_fabric.session import Session


class MeasuringReduction:
    """For one step.

    region_of: the regions of the measured parameters, by the tensor's identity.
    sessions: by route, with that route forced on all parameters.
    """

    def __init__(self, group: dist.ProcessGroup, region_of: Mapping[int, str],
                 sessions: Mapping[str, Session], scaler: Scaler | None = None) -> None:
        self.group = group
        self.region_of = region_of
        self.sessions = sessions
        self.scaler = scaler
        self._sums: dict[tuple[str, str], torch.Tensor] = {}

    def __call__(self, bucket: dist.GradBucket) -> Sum:
        set_scale(self.scaler, bucket, self.sessions.values())
        buffer = bucket.buffer()
        own = buffer.clone()
        buffer.div_(dist.get_world_size(self.group))
        dist.all_reduce(buffer, group=self.group)
        exact = buffer.clone()
        for route, session in self.sessions.items():
            buffer.copy_(own)
            session.runtime.run(bucket).wait()
            self._add(bucket, exact, route)
        buffer.copy_(exact)
        future = torch.futures.Future(
            devices=[buffer.device] if buffer.device.type == "cuda" else None)
        future.set_result(buffer)
        return future

    def _add(self, bucket: dist.GradBucket, exact: torch.Tensor, route: str) -> None:
        start = bucket.buffer().storage_offset()
        for parameter, summed in zip(bucket.parameters(), bucket.gradients(), strict=True):
            if (region := self.region_of.get(id(parameter))) is None:
                continue
            first = summed.storage_offset() - start
            # Both in the order of the bucket, independent of the strides of the parameter.
            flat = bucket.buffer()[first : first + summed.numel()]
            sums = _compare(flat, exact[first : first + summed.numel()])
            known = self._sums.get((region, route))
            self._sums[region, route] = sums if known is None else known + sums

    def measurements(self, step: int) -> list[Measurement]:
        """The measurements of regions whose exact sum is neither zero nor NaN or Inf."""
        found = []
        for (region, route), sums in self._sums.items():
            error, product, energy, agreeing, counted = sums.tolist()
            if not 0 < energy < float("inf") or not counted:
                continue
            figures = (error / energy, product / energy, agreeing / counted)
            if not all(map(math.isfinite, figures)):
                figures = (None, None, None)
            found.append(Measurement(step, region, route, *figures))
        return found


def _compare(summed: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """For one parameter: energy of the error, product, energy, equal signs, all signs."""
    summed, exact = summed.double(), exact.double()
    difference = summed - exact
    signs = exact.sign()
    return torch.stack([
        difference.dot(difference), summed.dot(exact), exact.dot(exact),
        ((signs == summed.sign()) & (signs != 0)).sum().double(), signs.abs().sum()])
