"""nf.Calibrator: finds, with a user's own training, which gradients can use low bits."""

import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from neuron_fabric import _C
from neuron_fabric.calibration.branch import Training
from neuron_fabric.calibration.choice import Question, choose, next_question
from neuron_fabric.calibration.dense_training import train_densely
from neuron_fabric.calibration.evidence import CHECKPOINT, FIRST_STEP, Evidence
from neuron_fabric.calibration.harm import harm_of
from neuron_fabric.calibration.outcome import Outcome
from neuron_fabric.calibration.regions import facts_of, find_regions
from neuron_fabric.calibration.settings import CalibrationSettings, Target
from neuron_fabric.calibration.snapshot import Snapshot, Stateful
from neuron_fabric.calibration.store import CalibrationError, Store
from neuron_fabric.calibration.switch import Switch
from neuron_fabric.calibration.trials import answer
from neuron_fabric.calibration.watch import TimeLeft, Watch
from neuron_fabric.calibration.workbench import TIMEOUT, Workbench
from neuron_fabric.ddp import reject_unsupported, unwrap
from neuron_fabric.model import parameters_of
from neuron_fabric.ranks.own_group import own_group
from neuron_fabric.ranks.rendezvous import agree, broadcast_from_rank_0, run_on_all_ranks
from neuron_fabric.settings import mode

ACTION = "nf.Calibrator"  # in error messages


class Calibrator:
    """Calibrates with a user's training loop (docs/howto/from_ddp_to_calibrated.md).

        def step(batch):
            optimizer.zero_grad()
            loss = criterion(model(batch.x), batch.y)
            loss.backward()
            optimizer.step()
            return loss

        outcome = nf.Calibrator(model, optimizer, step, batches).run()
        outcome.save("profile.json")

    Every rank makes one and calls run() at the same time. The model is a DistributedDataParallel
    without communication hook, before its first backward pass. It cannot be attached to afterwards:
    calibrate in a separate job.

    step: one training step with one batch. Returns the loss.
    batches: the batches of this rank, in an order that depends only on the given number; repeated when
        they end.
    judge: the loss of the current model, with the same data every time; the mean over ranks counts.
        Without it, branches are judged by the losses of their last quarter.
    stateful: objects to restore before a branch, besides model and optimizer. The scale of a GradScaler
        among them is set for low bits, as with attach(scaler=...).
    out, resume: a folder for the results so far, and whether to continue from them. target, most_bytes
        and repeats may then differ: only missing trials run.
    training: other conditions of the evidence, such as "batches of 32": results of other conditions are
        rejected.
    watch: receives the progress.
    target: the maximum increase of the loss over dense branches: 0.02, or "1%" of it.
    most_bytes: the maximum share of the dense bytes that a rank may contribute.
    candidates: the routes to select from.
    dense_steps, warm_up_steps, branch_steps, repeats, measurements, depth, smallest_parameter, seed:
        docs/calibration.md.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        step: Callable[[Any], torch.Tensor],
        batches: Callable[[int], Iterable[Any]],
        *,
        judge: Callable[[], float] | None = None,
        stateful: Sequence[Stateful] = (),
        out: str | os.PathLike | None = None,
        resume: bool = False,
        training: str = "",
        watch: Watch | None = None,
        target: str | float | Target = "0.02",
        candidates: Sequence[str] = CalibrationSettings.candidates,
        **options: Any,
    ) -> None:
        self.settings = CalibrationSettings(
            target=Target.parse(target), candidates=tuple(candidates), **options)
        self._training = training
        ddp = unwrap(model)
        reject_unsupported(ddp)
        if mode() != "on":
            raise CalibrationError(f"NF_MODE is {mode()}, but calibration needs it on")
        self._group = own_group(ddp.process_group, TIMEOUT)
        self._rank = dist.get_rank(ddp.process_group)
        self._store = Store(Path(out), self._rank) if out is not None else None
        parameters = parameters_of(ddp.module, _C.reducer_parameters(ddp.reducer))
        self._bench = Workbench(
            settings=self.settings,
            training=Training(ddp, optimizer, step, batches, judge, list(stateful)),
            switch=Switch(ddp),
            parameters=parameters,
            regions=find_regions(parameters, self.settings.smallest_parameter, self.settings.depth),
            watch=watch or Watch())
        self._evidence = Evidence(
            ranks=dist.get_world_size(ddp.process_group),
            regions=tuple(facts_of(region, parameters, list(self.settings.candidates))
                          for region in self._bench.regions),
            candidates=self.settings.candidates)
        agree(self._group, self._facts() | self.settings.to_dict()
              | {"out": out is not None, "resume": resume})
        if self._store is not None:
            # Each host may have its own folder: rank 0's evidence counts.
            kept = run_on_all_ranks(self._group, lambda: self._kept() if resume else None, ACTION)
            kept = self._from_rank_0(kept)
            run_on_all_ranks(self._group, lambda: self._resume(kept), ACTION)

    def run(self) -> Outcome:
        """Collective. Raises CalibrationError if the training diverges at full precision."""
        if not self._evidence.low_bit_regions:
            raise CalibrationError(
                f"no parameter has {self.settings.smallest_parameter} values or more: there are "
                "no gradients to send at low bits")
        if not self._evidence.dense_losses:
            self._remember(FIRST_STEP)
            # All ranks decide by the same values.
            self._evidence = self._from_rank_0(train_densely(self._bench, self._evidence))
            self._remember(CHECKPOINT)
            self._keep()
            losses = self._evidence.dense_losses
            self._bench.watch.end(f"loss {losses[0]:.3f} to {losses[-1]:.3f}")
        time_left = TimeLeft()
        while (question := next_question(self._evidence, self.settings)) is not None:
            started = time.monotonic()
            self._evidence = self._from_rank_0(self._evidence.with_branches(
                answer(self._bench, question, self._evidence)))
            self._keep()
            time_left.answered(time.monotonic() - started)
            self._bench.watch.left = time_left.estimate(self._evidence)
            self._bench.watch.end(self._result_text(question))
        return Outcome(self.settings, self._evidence, choose(self._evidence, self.settings),
                       tuple(region.pattern for region in self._bench.regions),
                       self._bench.parameters.tensors[0].device)

    def _from_rank_0(self, evidence: Evidence | None) -> Evidence | None:
        """Returns rank 0's evidence on every rank; None if there is none."""
        values = broadcast_from_rank_0(self._group, None if evidence is None else evidence.to_dict())
        return None if values is None else Evidence.from_dict(values)

    # The results of an earlier job.

    def _facts(self) -> dict[str, Any]:
        names, tensors = self._bench.parameters.names, self._bench.parameters.tensors
        return self.settings.of_evidence() | {
            "version": _C.__version__,
            "torch": torch.__version__,
            "device": tensors[0].device.type,
            "training": self._training,
            "ranks": self._evidence.ranks,
            "model": [f"{name} {tuple(tensor.shape)}"
                      for name, tensor in zip(names, tensors, strict=True)],
        }

    def _kept(self) -> Evidence | None:
        assert self._store is not None
        return self._store.load(self._facts()) if self._rank == 0 else None

    def _resume(self, kept: Evidence | None) -> None:
        assert self._store is not None
        if kept is None or not kept.dense_losses:
            self._store.clear()
            return
        self._store.sweep()
        self._evidence = kept
        self._bench.snapshots = {name: self._store.load_checkpoint(name)
                                 for name in (FIRST_STEP, CHECKPOINT)}

    def _keep(self) -> None:
        if self._store is not None:
            self._store.save(self._facts(), self._evidence)

    def _remember(self, name: str) -> None:
        """Returns when all ranks have saved it: stored evidence relies on the checkpoints of all ranks."""
        snapshot = self._bench.snapshots[name] = Snapshot.take(self._bench.training.parts)
        if (store := self._store) is not None:
            run_on_all_ranks(self._group, lambda: store.save_checkpoint(name, snapshot), ACTION)

    def _result_text(self, question: Question) -> str:
        if not question.assignment.routes:
            found = self._evidence.find(question.assignment, question.start)
            assert found is not None
            return f"loss {sum(found.losses) / len(found.losses):.4f}"
        harm = harm_of(self._evidence, question.assignment, question.start)
        assert harm is not None
        return ("diverged" if math.isinf(harm.mean)
                else f"{harm.mean:+.4f} ± {harm.standard_error:.4f}")
