"""DDP discards the sum of a parameter that no rank used, so error feedback must not send its residual."""

import neuron_fabric as nf
import pytest
import torch
from ranks import on_ranks
from small_job import Classifier, batches, loss_of, make, sgd, wrap

UNUSED_STEPS = (3, 4)


class Skipping(Classifier):
    """Skips its second layer on request."""

    is_skipping = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(torch.relu(self.first(x))))
        return self.head(x if self.is_skipping else self.second(x))


def memory_of(fabric: nf.Fabric) -> dict[str, bytes]:
    """The residuals of the second layer and of the first."""
    kept = {item["parameter"]: item["values"].numpy().tobytes()
            for item in fabric.state_dict()["memory"] if item["what"] in ("residual", "error")}
    return {name: kept[f"{name}.weight"] for name in ("first", "second")}


def skip_a_layer(route: str) -> tuple[list[dict[str, bytes]], list[bool]]:
    """The residuals after each step, and whether the second layer had a gradient in that step."""
    model = make(Skipping)
    ddp = wrap(model, find_unused_parameters=True)
    fabric = nf.attach(ddp, route=route)
    optimizer = sgd(model)
    kept, had_gradient = [], []
    for step, batch in zip(range(6), batches()):
        model.is_skipping = step in UNUSED_STEPS
        optimizer.zero_grad()
        loss_of(ddp, batch).backward()
        optimizer.step()
        had_gradient.append(model.second.weight.grad is not None)
        kept.append(memory_of(fabric))
    fabric.close()
    return kept, had_gradient


@pytest.mark.parametrize("route", ["g_binary+ef", "waterfill:3+ef", "powersgd:2"])
def test_the_residual_of_a_parameter_that_no_rank_used_is_kept(route):
    for kept, had_gradient in on_ranks(2, skip_a_layer, route):
        assert had_gradient == [step not in UNUSED_STEPS for step in range(6)]
        for step in range(1, 6):
            assert kept[step]["first"] != kept[step - 1]["first"]
            stays = kept[step]["second"] == kept[step - 1]["second"]
            assert stays == (step in UNUSED_STEPS)
