"""Telemetry as TensorBoard scalars and text."""

from pathlib import Path
from typing import Any

from .records import Attach, Decision, Notice, Step, parse
from .stream import Reader, Record


def _open_writer(folder: str | Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ModuleNotFoundError as error:
        raise RuntimeError(f"the package {error.name} is missing: pip install tensorboard, or "
                           "omit tensorboard=") from error
    return SummaryWriter(str(folder))


class TensorBoard(Reader):
    """Writes to a folder, or through a SummaryWriter, which the caller closes.

    TensorBoard keeps one text per tag and step: decisions have a tag per region, notices are
    numbered.
    """

    def __init__(self, target: Any):
        self._is_own = isinstance(target, (str, Path))
        self._writer = _open_writer(target) if self._is_own else target
        self._notices = 0

    def write(self, record: Record) -> None:
        match parse(record):
            case Attach() as attach:
                self._writer.add_text("nf/job", _job(attach), 0, attach.time)
            case Step() as step:
                self._write_step(step)
            case Decision() as decision:
                self._writer.add_text(f"nf/decisions/{decision.region}", _decision(decision),
                                      decision.step)
            case Notice() as notice:
                self._writer.add_text("nf/notices", f"{notice.level}: {notice.text}",
                                      self._notices, notice.time)
                self._notices += 1

    def _write_step(self, step: Step) -> None:
        dense = sum(region.dense_bytes for region in step.regions)
        sent = sum(region.bytes for region in step.regions)
        scalars = {"nf/step_seconds": step.seconds, "nf/exposed_seconds": step.exposed_seconds,
                   "nf/predicted_exposed_seconds": step.predicted_exposed_seconds,
                   "nf/shadow_exposed_seconds": step.shadow_exposed_seconds,
                   "nf/bytes_ratio": sent / dense if dense else None,
                   "nf/shadow_bytes": step.shadow_bytes, "nf/loss": step.loss,
                   "nf/rank_loss": step.rank_loss}
        for region in step.regions:
            scalars |= {f"nf/region/{region.name}/norm": region.norm,
                        f"nf/region/{region.name}/error": region.error,
                        f"nf/region/{region.name}/bytes": region.bytes}
        for tag, value in scalars.items():
            if value is not None:
                self._writer.add_scalar(tag, value, step.step, step.time)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        if self._is_own:
            self._writer.close()


def _job(attach: Attach) -> str:
    """A table in Markdown, which TensorBoard renders."""
    head = (f"neuron_fabric {attach.version}, {attach.ranks} ranks over {attach.backend}, mode "
            f"{attach.mode}, admit {attach.admit}, profile {attach.profile}\n\n")
    lines = ["| region | route | parameters | values |", "|---|---|---|---|"]
    lines += [f"| {region.name} | {region.route} | {region.parameters} | {region.values} |"
              for region in attach.regions]
    return head + "\n".join(lines)


def _decision(decision: Decision) -> str:
    return (f"step {decision.step}: **{decision.region}** from {decision.before} to "
            f"**{decision.after}**, route {decision.route}")
