"""Large-batch training in one process, and the gradients of its simulated workers."""

import numpy as np
import torch
from torch.nn import functional


class Training:
    """One run. The batch of a step is the union of the batches of `ranks` workers, all of one size, so
    the mean of the workers' gradients is the gradient of the batch. Batch norm is the exception: for
    the gradient of a worker it sees only the images of that worker.

    Batches depend only on seed and step; dumps and validation do not change the run.
    """

    def __init__(self, workload, *, ranks, batch, seed, device, dtype):
        self.workload = workload
        self.ranks = ranks
        self.count = ranks * batch
        self.seed = seed
        self.device = device
        self.autocast_dtype = {"fp32": None, "bf16": torch.bfloat16}[dtype]
        torch.manual_seed(seed)
        self.model = workload.make_model().to(device)
        self.optimizer = workload.make_optimizer(self.model)
        self.base_rates = [group["lr"] for group in self.optimizer.param_groups]
        self.parameters = [(name, tuple(p.shape)) for name, p in self.model.named_parameters()]

    def batch(self, step):
        return self.workload.batch(np.random.default_rng([self.seed, 0, step]), self.count)

    def loss(self, inputs, targets):
        inputs, targets = inputs.to(self.device), targets.to(self.device)
        with torch.autocast(self.device, dtype=self.autocast_dtype or torch.bfloat16,
                            enabled=self.autocast_dtype is not None):
            scores = self.model(inputs)
        return functional.cross_entropy(scores.float().flatten(0, -2), targets.flatten())

    def gradient(self, inputs, targets):
        """Stores the gradient in the parameters; returns the loss."""
        self.optimizer.zero_grad()
        loss = self.loss(inputs, targets)
        loss.backward()
        return loss.detach()

    def worker_gradients(self, step):
        """Yields the gradient of each worker at this step: one array per parameter."""
        inputs, targets = self.batch(step)
        for part in zip(inputs.chunk(self.ranks), targets.chunk(self.ranks), strict=True):
            self.gradient(*part)
            yield [p.grad.cpu().numpy() for p in self.model.parameters()]

    def advance(self, step):
        """Performs one training step; returns the loss before it."""
        loss = self.gradient(*self.batch(step))
        for group, base in zip(self.optimizer.param_groups, self.base_rates):
            group["lr"] = base * self.workload.rate(step)
        self.optimizer.step()
        return loss

    @torch.no_grad()
    def validation_loss(self):
        rng = np.random.default_rng([self.seed, 1])
        return self.loss(*self.workload.validation(rng, self.count)).item()


def make_deterministic():
    """Makes runs repeatable bit for bit on the same machine, as far as PyTorch supports it."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # slow, and no such memory is read
    torch.backends.cudnn.benchmark = False
