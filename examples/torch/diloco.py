"""Local updates (DiLoCo): every rank takes H steps of AdamW alone. Then all ranks average their
pseudo-gradients at low bits, with nf.Reducer, and take one step of an outer optimizer.

    torchrun --standalone --nproc-per-node 4 examples/torch/diloco.py --route waterfill:4

The model is a byte-level transformer. The text is Python's own documentation, from the standard
library; every rank trains on other pages. docs/howto/local_updates.md explains the settings.
"""

import argparse
import json
import os
import time
import zlib
from pydoc_data.topics import topics

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

import neuron_fabric as nf

CONTEXT, WIDTH, LAYERS, BATCH = 64, 96, 2, 8


class ByteModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, WIDTH)
        self.position = nn.Parameter(torch.randn(CONTEXT, WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(
            layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 256)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT))

    def loss(self, batch: torch.Tensor) -> torch.Tensor:
        inputs, targets = batch[:, :-1], batch[:, 1:]
        hidden = self.layers(self.embedding(inputs) + self.position, self.mask, is_causal=True)
        return cross_entropy(self.head(hidden).flatten(0, 1), targets.flatten())


def split_text(rank: int, ranks: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The training text of this rank, and the held-out text."""
    pages = [topics[name].encode() for name in sorted(topics)]
    held_out = pages[::10]
    training = [page for i, page in enumerate(pages) if i % 10 > 0][rank::ranks]
    return tuple(torch.frombuffer(bytearray(b"".join(some)), dtype=torch.uint8).long()
                 for some in (training, held_out))


def batch_at(text: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    return torch.stack([text[start:start + CONTEXT + 1] for start in starts.tolist()])


def check_replicas(parameters: dict[str, torch.Tensor]) -> None:
    """Fails unless all ranks hold the same bits."""
    checksum = 0
    for parameter in parameters.values():
        checksum = zlib.crc32(parameter.numpy().tobytes(), checksum)
    of_ranks = [torch.zeros(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(of_ranks, torch.tensor([checksum]))
    if len({int(one) for one in of_ranks}) > 1:
        raise AssertionError(f"the replicas differ after an outer step: checksums {of_ranks}")


def train(options: argparse.Namespace) -> None:
    rank, ranks = dist.get_rank(), dist.get_world_size()
    training, held_out = split_text(rank, ranks)
    validation = batch_at(held_out, torch.linspace(0, len(held_out) - CONTEXT - 1, 64).long())
    draw = torch.Generator().manual_seed(1000 * options.seed + rank)

    torch.manual_seed(options.seed)  # all ranks start with the same parameters
    model = ByteModel()
    inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
    outer = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    outer_optimizer = torch.optim.SGD(outer.values(), lr=0.7, momentum=0.9, nesterov=True)
    reducer = nf.Reducer(model, route=options.route, seed=options.seed)

    losses, seconds = [], []
    for round_number in range(options.rounds):
        for _ in range(options.inner):
            starts = torch.randint(len(training) - CONTEXT, (BATCH,), generator=draw)
            inner.zero_grad()
            model.loss(batch_at(training, starts)).backward()
            inner.step()

        dist.barrier()  # so that `seconds` does not include the wait for slower ranks
        started = time.perf_counter()
        pseudo = {name: outer[name] - parameter.detach()
                  for name, parameter in model.named_parameters()}
        reducer.all_reduce(pseudo).wait()  # the mean over all ranks, in place
        for name, parameter in outer.items():
            parameter.grad = pseudo[name]
        outer_optimizer.step()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(outer[name])
        seconds.append(time.perf_counter() - started)

        if options.check:
            check_replicas(outer)
        if rank == 0:
            with torch.no_grad():
                losses.append(model.loss(validation).item())
            if not options.json:
                print(f"round {round_number + 1:3d}  held-out loss {losses[-1]:.4f}", flush=True)

    if rank == 0:
        report(options, losses, seconds, reducer.fabric.summary())
    reducer.close()


def report(options: argparse.Namespace, losses: list[float], seconds: list[float],
           summary: nf.Summary) -> None:
    result = {"route": options.route, "seed": options.seed, "inner": options.inner,
              "rounds": options.rounds, "first_loss": losses[0], "loss": losses[-1],
              "bytes_per_round": summary.to_dict()["bytes"] / options.rounds,
              "outer_step_seconds": sorted(seconds)[len(seconds) // 2]}
    if options.json:
        print(json.dumps(result))
        return
    print(f"\nheld-out loss {result['loss']:.4f}, {result['bytes_per_round'] / 1e3:.0f} kB sent per round, "
          f"{result['outer_step_seconds'] * 1e3:.0f} ms per outer step (median)\n\n{summary}")


def main() -> None:
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--route", default="waterfill:4", help="the codec, or fp32")
    parser.add_argument("--inner", type=int, default=20, metavar="H", help="inner steps per round")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print one line of JSON")
    parser.add_argument("--no-check", dest="check", action="store_false",
                        help="do not compare the replicas")
    options = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    dist.init_process_group("gloo")
    train(options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
