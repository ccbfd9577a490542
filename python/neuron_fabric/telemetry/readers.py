"""Makes the readers that attach() gives a run."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .bucket_trace import BucketTrace
from .jsonl import JsonLines, run_file
from .prometheus import FILE_ENDING, PrometheusFile, PrometheusServer, parse_address
from .stream import Reader
from .tensorboard import TensorBoard

logger = logging.getLogger(__name__)


def make_readers(rank: int, *, run_dir: str | Path | None = None, tensorboard: Any = None,
                 prometheus: int | str | Path | list[int | str | Path] | None = None,
                 buckets: str | Path | None = None) -> list[Reader]:
    """The readers of rank 0; none on the other ranks.

    Raises ValueError on every rank for arguments that no rank could use, before training starts. A
    failure of this host (a full disk, a port in use) omits the reader with a warning.
    """
    makers: list[Callable[[], Reader]] = []
    if run_dir is not None:
        makers.append(lambda: JsonLines(run_file(run_dir, rank)))
    if tensorboard is not None:
        if not isinstance(tensorboard, (str, Path)) and not hasattr(tensorboard, "add_scalar"):
            raise ValueError(f"tensorboard={tensorboard!r} is neither a folder nor a SummaryWriter")
        makers.append(lambda: TensorBoard(tensorboard))
    if buckets is not None:
        makers.append(lambda: BucketTrace(buckets))
    if prometheus is not None:
        targets = prometheus if isinstance(prometheus, (list, tuple)) else [prometheus]
        makers += [_prometheus_maker(target) for target in targets]
    return [reader for make in makers if rank == 0 and (reader := _try(make))]


def _prometheus_maker(target: int | str | Path) -> Callable[[], Reader]:
    if str(target).endswith(FILE_ENDING):
        return lambda: PrometheusFile(str(target))
    parse_address(address := target if isinstance(target, int) else str(target))
    return lambda: PrometheusServer(address)


def _try(make: Callable[[], Reader]) -> Reader | None:
    try:
        return make()
    except Exception as error:  # noqa: BLE001  telemetry must not end a job
        logger.warning("neuron_fabric: some telemetry is omitted, training continues: %s", error)
        return None
