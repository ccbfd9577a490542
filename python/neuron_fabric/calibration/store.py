"""Saves the results of a calibration in a folder, so that an interrupted one can continue."""

import json
import pickle
from pathlib import Path
from typing import Any

import torch

from neuron_fabric.calibration.evidence import Evidence, EvidenceError
from neuron_fabric.calibration.snapshot import Snapshot
from neuron_fabric.support.files import atomic_file, write_atomic

_FORMAT = "neuron_fabric.calibration"
_VERSION = 1
EVIDENCE = "evidence.json"


class CalibrationError(RuntimeError):
    """A calibration that cannot start or continue; the message has the reason."""


class Store:
    """Rank 0 writes and reads the evidence, every rank its own checkpoints. Files are replaced
    atomically."""

    def __init__(self, folder: Path, rank: int) -> None:
        self.folder = folder
        self.rank = rank

    @property
    def _evidence(self) -> Path:
        return self.folder / EVIDENCE

    def _checkpoint(self, name: str) -> Path:
        return self.folder / f"{name}.rank{self.rank}.pt"

    def clear(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for path in [self._evidence, *self.folder.glob(f"*.rank{self.rank}.pt")]:
            path.unlink(missing_ok=True)
        self.sweep()

    def sweep(self) -> None:
        """Removes partial files of this rank that a killed job has left."""
        patterns = [f"*.rank{self.rank}.pt.*.part"]
        if self.rank == 0:
            patterns.append(f"{EVIDENCE}.*.part")
        for pattern in patterns:
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)

    def save(self, facts: dict[str, Any], evidence: Evidence) -> None:
        """facts: the conditions that a calibration must share to continue from here."""
        if self.rank != 0:
            return
        text = json.dumps({"format": _FORMAT, "version": _VERSION, "job": facts,
                           "evidence": evidence.to_dict()}, indent=1, allow_nan=False)
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(self._evidence, text)

    def load(self, facts: dict[str, Any]) -> Evidence | None:
        """None if nothing was saved. Raises CalibrationError if it is damaged or of another
        job."""
        try:
            values = json.loads(self._evidence.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise CalibrationError(self._damaged(self._evidence, error)) from error
        if not isinstance(values, dict) or values.get("format") != _FORMAT:
            raise CalibrationError(self._damaged(self._evidence, "not the results of a calibration"))
        if values.get("version") != _VERSION:
            raise CalibrationError(f"{self._evidence} has version {values.get('version')}, this build "
                                   f"reads version {_VERSION}; start without resuming")
        kept = values.get("job")
        if not isinstance(kept, dict):
            raise CalibrationError(self._damaged(self._evidence, "it does not name its job"))
        for key in facts:
            if json.loads(json.dumps(facts[key])) != kept.get(key):
                raise CalibrationError(
                    f"{self.folder} has a calibration with another {key} ({kept.get(key)}, "
                    f"now {facts[key]}); use the same, or start without resuming")
        try:
            return Evidence.from_dict(values["evidence"])
        except (KeyError, EvidenceError) as error:
            raise CalibrationError(self._damaged(self._evidence, error)) from error

    def save_checkpoint(self, name: str, snapshot: Snapshot) -> None:
        with atomic_file(self._checkpoint(name)) as part:
            torch.save(snapshot.state, part)

    def load_checkpoint(self, name: str) -> Snapshot:
        path = self._checkpoint(name)
        try:
            return Snapshot(torch.load(path, map_location="cpu", weights_only=True))
        except (OSError, RuntimeError, ValueError, KeyError, EOFError,
                pickle.UnpicklingError) as error:
            raise CalibrationError(self._damaged(path, error)) from error

    def _damaged(self, path: Path, why: object) -> str:
        line = str(why).strip().splitlines()[0] if str(why).strip() else type(why).__name__
        return f"{path} is missing or damaged ({line}); start without resuming, or in another folder"
