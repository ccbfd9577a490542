"""Transformers whose backward pass leaves the gradient of every worker's part of the batch.

All matrices are views of one flat tensor. A backward pass writes the gradients of worker k to row k of another.
"""

from dataclasses import dataclass

import torch
from torch.nn import functional

from .arms import SUPER_GROUP


class WorkerLinear(torch.autograd.Function):
    """y = x W^T. `anchor` is a scalar that requires a gradient, so that the backward pass reaches the first layer."""

    @staticmethod
    def forward(ctx, x, anchor, weight, store):
        ctx.save_for_backward(x, weight)
        ctx.store = store
        return functional.linear(x, weight)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        workers = len(ctx.store)
        gradient = gradient.contiguous()
        ctx.store.copy_(torch.bmm(gradient.view(workers, -1, gradient.shape[-1]).transpose(1, 2),
                                  x.reshape(workers, -1, x.shape[-1])))
        return (gradient @ weight if ctx.needs_input_grad[0] else None), gradient.new_zeros(()).float(), None, None


class WorkerTable(torch.autograd.Function):
    """Rows of a table, in FP32. The backward pass sums with a product of matrices, which has a fixed order."""

    @staticmethod
    def forward(ctx, rows, anchor, weight, store):
        ctx.save_for_backward(rows)
        ctx.store, ctx.kind = store, weight.dtype
        return functional.embedding(rows, weight).float()

    @staticmethod
    def backward(ctx, gradient):
        (rows,) = ctx.saved_tensors
        workers, count, width = ctx.store.shape
        one_hot = (rows.reshape(workers, -1, 1) == torch.arange(count, device=rows.device)).to(ctx.kind)
        ctx.store.copy_(torch.bmm(one_hot.transpose(1, 2), gradient.to(ctx.kind).reshape(workers, -1, width)))
        return None, gradient.new_zeros(()), None, None


@dataclass(frozen=True)
class Shape:
    layers: int
    width: int
    heads: int
    context: int       # tokens
    inputs: int        # of a token: rows of a table, or values of a patch
    outputs: int       # classes
    causal: bool       # predicts the next token; otherwise classifies the mean of all tokens


class Network:
    """Matrices in `flat` (FP32, each padded to super-groups), norms in `norms`."""

    def __init__(self, shape: Shape, workers: int, device: torch.device, kind: torch.dtype) -> None:
        self.shape = shape
        width = shape.width
        self.matrices = {"input": (shape.inputs, width) if shape.causal else (width, shape.inputs),
                         "position": (shape.context, width)}
        for layer in range(shape.layers):
            self.matrices |= {f"{layer}.qkv": (3 * width, width), f"{layer}.out": (width, width),
                              f"{layer}.up": (4 * width, width), f"{layer}.down": (width, 4 * width)}
        self.matrices["head"] = (shape.outputs, width)
        self.first, count = {}, 0
        for name, (rows, columns) in self.matrices.items():
            self.first[name] = count
            count += -(-rows * columns // SUPER_GROUP) * SUPER_GROUP
        self.flat = torch.zeros(count, device=device)
        self.norms = torch.ones(2 * shape.layers + 1, width, device=device, requires_grad=True)
        self.anchor = torch.zeros((), device=device, requires_grad=True)
        self.cast = torch.zeros(count, device=device, dtype=kind)
        self.gradients = torch.zeros(workers, count, device=device, dtype=kind)
        self.weights = {name: self.part(self.cast, name) for name in self.matrices}
        self.stores = {name: self.part(self.gradients, name) for name in self.matrices}

    def part(self, values: torch.Tensor, name: str) -> torch.Tensor:
        size = self.matrices[name]
        part = values[..., self.first[name]:self.first[name] + size[0] * size[1]]
        return part.view(*values.shape[:-1], *size)

    def start(self, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for name, (rows, columns) in self.matrices.items():
            scale = (2 * self.shape.layers) ** -0.5 if name.endswith((".out", ".down")) else 1
            normal = torch.randn(rows, columns, generator=generator)
            self.part(self.flat, name).copy_(normal * (0.02 * scale))
        with torch.no_grad():
            self.norms.fill_(1)
        self.gradients.zero_()

    def owners(self) -> torch.Tensor:
        """The matrix of each super-group."""
        ends = [*list(self.first.values())[1:], len(self.flat)]
        sizes = torch.tensor([(end - first) // SUPER_GROUP
                              for first, end in zip(self.first.values(), ends, strict=True)])
        return torch.repeat_interleave(torch.arange(len(sizes)), sizes)

    def linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return WorkerLinear.apply(x.to(self.cast.dtype), self.anchor, self.weights[name], self.stores[name])

    def norm(self, x: torch.Tensor, index: int) -> torch.Tensor:
        return functional.layer_norm(x, (self.shape.width,), self.norms[index])

    def scores(self, inputs: torch.Tensor) -> torch.Tensor:
        """inputs: (batch, tokens) or (batch, tokens, values). Casts the weights first."""
        shape = self.shape
        self.cast.copy_(self.flat)
        if shape.causal:
            x = WorkerTable.apply(inputs, self.anchor, self.weights["input"], self.stores["input"])
        else:
            x = self.linear(inputs, "input").float()
        rows = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
        x = x + WorkerTable.apply(rows, self.anchor, self.weights["position"], self.stores["position"])
        for layer in range(shape.layers):
            parts = self.linear(self.norm(x, 2 * layer), f"{layer}.qkv").chunk(3, dim=-1)
            q, k, v = (part.unflatten(-1, (shape.heads, -1)).transpose(1, 2) for part in parts)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=shape.causal)
            x = x + self.linear(y.transpose(1, 2).flatten(2), f"{layer}.out")
            hidden = functional.gelu(self.linear(self.norm(x, 2 * layer + 1), f"{layer}.up"))
            x = x + self.linear(hidden, f"{layer}.down")
        if not shape.causal:
            x = x.mean(1)
        return self.linear(self.norm(x, -1), "head").float()

    def loss(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(self.scores(inputs).flatten(0, -2), targets.flatten())

    def backward(self, inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The mean loss and the mean gradient of the norms. Row k of `gradients` becomes the gradient of worker k's
        own mean loss."""
        loss = self.loss(inputs, targets)
        workers = len(self.gradients)
        norms, _ = torch.autograd.grad(loss * workers, [self.norms, self.anchor])
        return loss.detach(), norms / workers
