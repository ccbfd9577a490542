"""The state of a run for Prometheus: counters and gauges in the text format 0.0.4."""

from dataclasses import replace

from .records import Attach, Decision, Notice, Step, Topology, parse
from .stream import Record

Labels = tuple[tuple[str, str], ...]

_METRICS = {  # name without prefix: type, help
    "info": ("gauge", "The versions and settings of the job; always 1."),
    "step": ("gauge", "The last reported step."),
    "epoch": ("gauge", "Incremented when decisions change."),
    "loss": ("gauge", "Loss of the last step that had one, mean over ranks."),
    "rank_loss": ("gauge", "Loss of the last step that had one, of this rank."),
    "steps_total": ("counter", "Steps since the job was attached."),
    "skipped_steps_total": ("counter", "Steps with NaN or Inf in the gradients."),
    "step_seconds_total": ("counter", "Time of all steps."),
    "exposed_seconds_total": ("counter", "Time that steps waited for reduced gradients."),
    "predicted_exposed_seconds_total": ("counter", "The exposed time that the cost model predicted."),
    "shadow_exposed_seconds_total": ("counter", "In shadow mode: the same with low-bit routes."),
    "sent_bytes_total": ("counter", "Bytes sent by this rank, by region and route in use."),
    "dense_bytes_total": ("counter", "Bytes that it would have sent without low-bit routes."),
    "shadow_bytes_total": ("counter", "In shadow mode: bytes that low-bit routes would send."),
    "region_state": ("gauge", "The route of a region and the reason; 1 for the current state."),
    "region_norm": ("gauge", "Norm of the region's reduced gradient."),
    "region_error": ("gauge", "Quantisation error of the region's route, sampled: squared, over the "
                     "squared norm."),
    "region_error_budget": ("gauge", "The limit of region_error."),
    "non_finite_values_total": ("counter", "NaN and Inf values in reduced gradients."),
    "decisions_total": ("counter", "Changes of a region's reason, by the new reason."),
    "fallbacks_total": ("counter", "Decisions that disabled a low-bit route after a breach."),
    "notices_total": ("counter", "Notices of the runtime, by level."),
}


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _sample(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{_escape(text)}"' for key, text in labels)
    return f"neuron_fabric_{name}{f'{{{inside}}}' if inside else ''} {value}"


class Metrics:
    """Accumulates records. Not thread-safe."""

    def __init__(self) -> None:
        self._values: dict[str, dict[Labels, float]] = {name: {} for name in _METRICS}
        self._states: dict[str, Labels] = {}  # by region
        self._attach: Attach | None = None

    def add(self, record: Record) -> None:
        match parse(record):
            case Attach() as attach:
                self._add_attach(attach)
            case Topology() as loaded if self._attach is not None:
                self._add_attach(replace(self._attach, topology=loaded.topology))
            case Step() as step:
                self._add_step(step)
            case Decision() as decision:
                labels = {"region": decision.region, "reason": decision.after}
                self._count("decisions_total", 1, **labels)
                if decision.is_fallback:
                    self._count("fallbacks_total", 1, **labels)
            case Notice() as notice:
                self._count("notices_total", 1, level=notice.level)

    def text(self) -> str:
        lines = []
        for name, (kind, about) in _METRICS.items():
            if self._values[name]:
                lines += [f"# HELP neuron_fabric_{name} {about}",
                          f"# TYPE neuron_fabric_{name} {kind}"]
                lines += [_sample(name, labels, value)
                          for labels, value in sorted(self._values[name].items())]
        return "".join(f"{line}\n" for line in lines)

    def _add_attach(self, attach: Attach) -> None:
        self._attach = attach
        keys = ("rank", "ranks", "version", "torch", "backend", "mode", "admit", "topology",
                "profile")
        self._values["info"].clear()
        self._set("info", 1, **{key: str(getattr(attach, key)) for key in keys})
        for region in attach.regions:
            self._set("region_error_budget", region.error_budget, region=region.name)

    def _add_step(self, step: Step) -> None:
        self._set("step", step.step)
        self._set("epoch", step.epoch)
        self._set("loss", step.loss)
        self._set("rank_loss", step.rank_loss)
        self._count("steps_total", 1)
        self._count("skipped_steps_total", 1 if step.should_step is False else 0)
        self._count("step_seconds_total", step.seconds)
        self._count("exposed_seconds_total", step.exposed_seconds)
        self._count("predicted_exposed_seconds_total", step.predicted_exposed_seconds)
        self._count("shadow_exposed_seconds_total", step.shadow_exposed_seconds)
        self._count("shadow_bytes_total", step.shadow_bytes)
        for region in step.regions:
            name = region.name
            self._count("sent_bytes_total", region.bytes, region=name, route=region.route)
            self._count("dense_bytes_total", region.dense_bytes, region=name)
            self._set("region_norm", region.norm, region=name)
            self._set("region_error", region.error, region=name)
            self._count("non_finite_values_total", region.non_finite or 0, region=name)
            self._values["region_state"].pop(self._states.get(name, ()), None)
            self._states[name] = self._set("region_state", 1, region=name, route=region.route,
                                           reason=region.reason)

    def _set(self, name: str, value: float | None, **labels: str) -> Labels:
        key = tuple(labels.items())
        if value is not None:
            self._values[name][key] = value
        return key

    def _count(self, name: str, amount: float | None, **labels: str) -> None:
        if amount is not None:
            key = tuple(labels.items())
            self._values[name][key] = self._values[name].get(key, 0) + amount
