"""Full precision: the runtime changes no bit of what FSDP2, HSDP and replicate() compute alone."""

import pytest
from fsdp_job import Mesh, both_ways
from fsdp_modes import MODES
from ranks import on_ranks

FSDP2, HSDP, REPLICATE = Mesh(0, 4), Mesh(2, 2), Mesh(4, 0)
WITHIN = Mesh(2, 2, "low_bit")
MESHES = [(Mesh(0, 2), 30), (Mesh(0, 3), 30), (FSDP2, 30), (HSDP, 30), (Mesh(3, 1), 8), (Mesh(2, 3), 8), (WITHIN, 8),
          (Mesh(2, 0), 8), (Mesh(3, 0), 30), (REPLICATE, 8)]

ONLY_REPLICAS = {"late_all_reduce"}
ALSO_HSDP = ["bf16_parameters", "bf16_reduction", "fp16_reduction", "cpu_offload", "shard_1", "accumulation",
             "late_all_reduce", "checkpointing", "reentrant_checkpointing", "clipping", "forced_sum", "summed",
             "unused", "frozen", "unfrozen", "float64", "tied", "used_twice", "meta", "compiled",
             "attached_late", "reloaded", "reduced_twice"]
ALSO_REPLICATE = ["bf16_parameters", "bf16_reduction", "accumulation", "checkpointing", "clipping", "forced_sum",
                  "unused", "frozen", "unfrozen", "tied", "meta", "compiled", "reduced_twice"]
CASES = [*((FSDP2, mode) for mode in MODES if mode not in {"plain"} | ONLY_REPLICAS),
         *((HSDP, mode) for mode in ALSO_HSDP), *((REPLICATE, mode) for mode in ALSO_REPLICATE),
         *((WITHIN, mode) for mode in ("late_all_reduce", "unused"))]


@pytest.mark.parametrize(("mesh", "steps"), MESHES, ids=str)
def test_fp32_equals_fsdp_alone_bit_for_bit(mesh, steps):
    for plain, ours in on_ranks(mesh.ranks, both_ways, mesh, steps, "plain", {"route": "fp32"}):
        assert len(set(plain.digests)) == steps, "the model does not train"
        assert ours.digests == plain.digests
        assert ours.steps == steps
        assert ours.summary["source"] == mesh.source


@pytest.mark.parametrize(("mesh", "mode"), CASES, ids=str)
def test_fp32_equals_fsdp_alone_in_every_mode(mesh, mode):
    steps = 4
    for plain, ours in on_ranks(mesh.ranks, both_ways, mesh, steps, mode, {"route": "fp32"}):
        assert len(set(plain.digests)) > 1, "the model does not train"
        assert ours.digests == plain.digests
        assert ours.steps == steps * MODES[mode].reductions
