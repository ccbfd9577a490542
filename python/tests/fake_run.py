#!/usr/bin/env python3
"""Writes the telemetry of a synthetic run, for tests and to try out the report.

    python/tests/fake_run.py runs/made_up --steps 3000
    python -m neuron_fabric.report runs/made_up -o report.html

Its values are not measured, and a notice in it states so. The records follow docs/telemetry.md and
contain every kind of fault once.
"""

import argparse
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RANKS = 4
START = 1_760_000_000.0  # unix time
WARM_UP, COOL_DOWN, PROBATION, LOCK_OUT = 20, 50, 50, 3
NOTICE = "Made-up data: python/tests/fake_run.py wrote this, nothing was measured"

Record = dict[str, Any]


def parameters(blocks: int = 6, width: int = 256) -> list[Record]:
    """The parameters of a small GPT."""
    result = []

    def add(name: str, region: str, values: int, route: str) -> None:
        result.append({"name": name, "region": region, "values": values, "route": route})

    add("embedding.token.weight", "embedding", 1024 * width, "fp32")
    add("embedding.position.weight", "embedding", 512 * width, "fp32")
    for block in range(blocks):
        for name, region, values in [
                ("norm1.weight", "norm", width), ("norm1.bias", "norm", width),
                ("attention.qkv.weight", "attention", 3 * width * width),
                ("attention.projection.weight", "attention", width * width),
                ("norm2.weight", "norm", width), ("norm2.bias", "norm", width),
                ("mlp.up.weight", "mlp", 4 * width * width),
                ("mlp.up.bias", "mlp", 4 * width - 512),
                ("mlp.down.weight", "mlp", 4 * width * width)]:
            route = {"attention": "waterfill:5", "mlp": "waterfill:4"}.get(region, "fp32")
            add(f"blocks.{block}.{name}", region, values, "fp32" if values < 1024 else route)
    add("head.weight", "head", 1024 * width, "bf16")
    return result


REGIONS = ("embedding", "norm", "attention", "mlp", "head")
ROUTES = {"embedding": "fp32", "norm": "fp32", "attention": "waterfill:5", "mlp": "waterfill:4",
          "head": "bf16"}
BITS = {"fp32": 32, "bf16": 16, "waterfill:5": 5, "waterfill:4": 4}
ERRORS = {"attention": 2.4e-3, "mlp": 9e-3, "head": 3e-6}
NORMS = {"embedding": 0.21, "norm": 0.04, "attention": 0.35, "mlp": 0.6, "head": 0.9}


class Region:
    """A simplified model of the states of admission."""

    def __init__(self, name: str, route: str):
        self.name, self.route = name, route
        self.reason = "admitted" if route == "fp32" else "warm_up"
        self.since = 0
        self.fallbacks = 0

    def advance(self, step: int, fault: str | None) -> Record | None:
        """The decision of this step, or None."""
        before, age = self.reason, step - self.since
        if self.route == "fp32":
            return None
        if fault and before in ("admitted", "probation"):
            self.fallbacks += 1
            self.reason = fault
        elif before in ("non_finite", "norm_spike", "loss_spike", "error_budget", "capacity"):
            self.reason = "locked_out" if self.fallbacks > LOCK_OUT else "cool_down"
        elif before == "cool_down" and age >= COOL_DOWN:
            self.reason = "probation"
        elif ((before == "probation" and age >= PROBATION)
              or (before == "warm_up" and age >= WARM_UP) or before == "not_useful" and age >= 40):
            self.reason = "admitted"
        elif fault == "not_useful" and before == "admitted":
            self.reason = "not_useful"
        if self.reason == before:
            return None
        self.since = step
        return {"region": self.name, "from": before, "to": self.reason, "route": self.in_use}

    @property
    def in_use(self) -> str:
        return self.route if self.reason in ("admitted", "probation") else "fp32"


def faults(steps: int) -> dict[tuple[int, str], str]:
    """The faults, by region and part of the run."""
    at = {(0.12, "head"): "not_useful", (0.17, "mlp"): "non_finite",
          (0.30, "attention"): "norm_spike", (0.41, "mlp"): "error_budget",
          (0.52, "mlp"): "loss_spike", (0.52, "attention"): "loss_spike",
          (0.52, "head"): "loss_spike", (0.65, "head"): "capacity", (0.72, "mlp"): "non_finite",
          (0.86, "attention"): "norm_spike"}
    return {(round(part * steps), region): what for (part, region), what in at.items()}


def attach(mode: str, model: list[Record]) -> Record:
    regions = [{"name": name, "parameters": sum(p["region"] == name for p in model),
                "values": sum(p["values"] for p in model if p["region"] == name),
                "route": ROUTES[name], "error_budget": 0.02 if name == "mlp" else 0.1}
               for name in REGIONS]
    return {"event": "attach", "time": START, "rank": 0, "ranks": RANKS, "version": "0.1.0",
            "torch": "2.11.0", "backend": "gloo", "mode": mode, "admit": "useful",
            "topology": "direct", "seed": 0, "profile": "made_up",
            "link": {"latency_us": 180.0, "gbps": 0.191, "dense_latency_us": 410.0,
                     "dense_gbps": 0.186},
            "regions": regions, "parameters": model}


def wire_bytes(model: list[Record], region: Region, is_low_bit: bool) -> int:
    """Bytes that a rank sends in both directions."""
    bits = sum(p["values"] * BITS[p["route"] if is_low_bit else "fp32"] for p in model
               if p["region"] == region.name)
    return bits // 8 * 2 * (RANKS - 1) // RANKS


def records(steps: int = 2000, seed: int = 0, mode: str = "on", first: int = 0,
            notice: bool = True) -> Iterator[Record]:
    """All records of one run that starts at step `first`."""
    draw = random.Random(seed)
    model = parameters()
    states = [Region(name, ROUTES[name]) for name in REGIONS]
    dense = {state.name: wire_bytes(model, state, False) for state in states}
    low = {state.name: wire_bytes(model, state, True) for state in states}
    by_step = faults(steps)
    yield attach(mode, model)
    if notice:
        yield {"event": "notice", "time": START, "level": "warning", "text": NOTICE}
    epoch, time = 0, START + 1
    for step in range(first, first + steps):
        loss_jump = 0.0
        for state in states:
            fault = by_step.get((step - first, state.name))
            if fault == "loss_spike":
                loss_jump = 1.6
            decision = state.advance(step - first, fault)
            if decision:
                epoch += 1
                yield {"event": "decision", "step": step, "epoch": epoch, **decision}
        is_shadow = mode == "shadow"
        chosen = {s.name: dense[s.name] if s.in_use == "fp32" else low[s.name] for s in states}
        sent = dense if is_shadow else chosen
        shadow_seconds = max(0.0, 8 * sum(chosen.values()) / 0.186e9 * 0.97 - 0.05)
        shadow = {"shadow_bytes": sum(chosen.values()),
                  "shadow_exposed_seconds": round(shadow_seconds, 6)}
        link_seconds = 8 * sum(sent.values()) / 0.186e9
        compute = 0.11 * (1 + 0.02 * draw.gauss(0, 1))
        exposed = max(0.0, link_seconds - 0.05) * (1 + 0.05 * draw.gauss(0, 1))
        if draw.random() < 0.004:
            exposed *= draw.uniform(1.5, 3)
        if step == first:
            compute += 1.5
        time += compute + exposed
        decay = math.exp(-3 * (step - first) / steps)
        loss = 2.1 + 3.6 * decay + 0.06 * draw.gauss(0, 1) + loss_jump
        yield {"event": "step", "step": step, "time": round(time, 3), "epoch": epoch,
               "seconds": round(compute + exposed, 6), "exposed_seconds": round(exposed, 6),
               "predicted_exposed_seconds": round(max(0.0, link_seconds * 0.97 - 0.05), 6),
               **(shadow if is_shadow else {}),
               "loss": round(loss, 6), "rank_loss": round(loss * draw.uniform(0.97, 1.03), 6),
               "should_step": not any(by_step.get((step - first, s.name)) == "non_finite"
                                      for s in states),
               "buckets": 3,
               "regions": [region_record(draw, state, by_step.get((step - first, state.name)),
                                         decay, sent, dense, is_shadow) for state in states]}
    yield {"event": "detach", "time": round(time, 3), "step": first + steps}


def region_record(draw: random.Random, state: Region, fault: str | None, decay: float,
                  sent: dict[str, int], dense: dict[str, int], is_shadow: bool) -> Record:
    norm = NORMS[state.name] * (0.35 + 0.65 * decay) * math.exp(0.15 * draw.gauss(0, 1))
    error = None
    if state.name in ERRORS:
        error = ERRORS[state.name] * math.exp(0.12 * draw.gauss(0, 1))
        error *= 3.2 if fault == "error_budget" else 1
    shadow = {"shadow_route": state.route} if is_shadow else {}
    return {"name": state.name, "route": "fp32" if is_shadow else state.in_use,
            "reason": state.reason, "norm": norm * (14 if fault == "norm_spike" else 1),
            "error": error, "non_finite": 3 if fault == "non_finite" else 0,
            "bytes": sent[state.name], "dense_bytes": dense[state.name],
            "seconds": round(8 * sent[state.name] / 0.186e9, 6), **shadow}


def write(folder: Path, **options: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rank0.jsonl"
    with open(path, "w") as file:
        for record in records(**options):
            file.write(json.dumps(record) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mode", choices=["on", "shadow"], default="on")
    options = parser.parse_args()
    path = write(options.folder, steps=options.steps, seed=options.seed, mode=options.mode)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
