"""Invalid input is rejected on every rank before training starts, with a helpful error."""

import json
import os
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from pathlib import Path
from unittest import mock

import neuron_fabric as nf
import pytest
import torch
import torch.distributed as dist
from neuron_fabric import _C
from ranks import on_ranks
from small_job import batches, loss_of, make, profile, wrap
from torch import nn
from torch.distributed._composable import replicate
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

ROUTES = {"second": "waterfill:4", "rest": "fp32"}


def rejection(prepare: Callable, *args: object, on: int | None = None) -> tuple[str, str]:
    """Type and message of the exception that attach() raises. prepare() yields a model and the options,
    and may patch; if `on` is given, only that rank passes it the arguments."""
    wanted = args if on in (None, dist.get_rank()) else ()
    with prepare(*wanted) as (model, options), pytest.raises(Exception) as caught:
        nf.attach(model, **options)
    return type(caught.value).__name__, str(caught.value)


def rejected(prepare: Callable, *args: object, on: int | None = None,
             ranks: int = 2) -> list[tuple[str, str]]:
    return on_ranks(ranks, rejection, prepare, *args, on=on)


@contextmanager
def with_options(options: dict | None = None):
    yield wrap(make()), options or {}


OTHER_MODEL = profile(ROUTES, regions=[{"name": "second", "names": ["layer4.*"]}, {"name": "rest"}])

WRONG_OPTIONS = [
    ({"route": "waterfil:4"}, "codec 'waterfil' is unknown; did you mean 'waterfill'?"),
    ({"route": "waterfill:99"}, "route='waterfill:99': "),
    ({"route": 4}, "route must be the name of a route, such as 'waterfill:4', not 4"),
    ({"profile": 3}, "profile must be a path, a dict or an nf.Profile, not 3"),
    ({"profile": {}, "route": "fp32"}, "give a profile or a route, not both"),
    ({"profile": "no/such.json"}, "cannot read the profile no/such.json: No such file"),
    ({"profile": profile(ROUTES, healht={})}, "unknown key 'healht'; did you mean 'health'?"),
    ({"profile": profile({"second": "fp32"})}, "phases[0].routes has no route for region 'rest'"),
    ({"profile": OTHER_MODEL}, "profile 'test' was made for another model: region 'second' "
     "(layer4.*) matches none of the 8 parameters; they go from 'first.weight' to 'head.bias'"),
    ({"admit": "fast"}, "admit must be one of useful, safe, not 'fast'"),
    ({"topology": "mesh"}, "topology must be one of auto, direct, ring, tree, halving_doubling"),
    ({"topology": "ring", "group_size": 2}, "topology='ring' has no host groups: omit group_size"),
    ({"group_size": 0}, "group_size must be a positive number of ranks, not 0"),
    ({"link_gbps": -1}, "link_gbps must be a positive number of Gb/s, not -1"),
    ({"link_gbps": "fast"}, "link_gbps must be a positive number of Gb/s, not 'fast'"),
    ({"timeout": 0}, "timeout must be a positive number of seconds up to 1000000000, not 0"),
    ({"timeout": "long"}, "timeout must be a positive number of seconds up to 1000000000, not 'long'"),
    ({"timeout": float("inf")}, "timeout must be a positive number of seconds up to 1000000000, not inf"),
    ({"seed": -1}, "seed must be a number from 0 to 2**64 - 1, not -1"),
    ({"seed": "x"}, "seed must be a number from 0 to 2**64 - 1, not 'x'"),
    ({"run_dir": 3}, "run_dir must be a folder, not 3"),
    ({"prometheus": "nonsense"}, "prometheus='nonsense' is not a port (9400), an address"),
    ({"tensorboard": 3}, "tensorboard=3 is neither a folder nor a SummaryWriter"),
    ({"scaler": 3}, "scaler must be a torch.amp.GradScaler, not 3"),
]


@pytest.mark.parametrize(("options", "words"), WRONG_OPTIONS)
def test_an_invalid_option_is_rejected_on_every_rank(options, words):
    for kind, message in rejected(with_options, options):
        assert kind in ("ValueError", "TypeError")
        assert words in message


@pytest.mark.parametrize(("options", "words"), WRONG_OPTIONS)
def test_an_invalid_option_on_one_rank_is_rejected_on_every_rank(options, words):
    (other, heard), (kind, message) = rejected(with_options, options, on=1)
    assert kind in ("ValueError", "TypeError")
    assert words in message
    assert other == "AttachError"
    assert heard == f"attach() failed on rank 1: {message}"


DIFFERENCES = [
    ({"route": "waterfill:5"}, "route: None and waterfill:5;"),
    ({"profile": profile(ROUTES)}, 'the profile: "name": "default" and "name": "test";'),
    ({"seed": 7}, "seed: 0 and 7"),
    ({"admit": "safe"}, "admit: useful and safe"),
    ({"topology": "ring"}, "topology: auto and ring"),
    ({"group_size": 1}, "group_size: None and 1"),
    ({"link_gbps": 2}, "link_gbps: None and 2"),
]


@pytest.mark.parametrize(("options", "words"), DIFFERENCES)
def test_differing_options_are_named_on_every_rank(options, words):
    errors = rejected(with_options, options, on=2, ranks=3)
    assert len(set(errors)) == 1
    kind, message = errors[0]
    assert kind == "AttachError"
    assert message.startswith(f"rank 0 and rank 2 differ in {words}")
    assert message.endswith("; start all ranks with the same configuration")


@contextmanager
def with_warm_up(steps: int = 20):
    yield wrap(make()), {"profile": profile(ROUTES, health={"warm_up_steps": steps})}


def test_the_differing_line_of_profiles_is_named():
    for kind, message in rejected(with_warm_up, 30, on=1):
        assert kind == "AttachError"
        assert message.startswith(
            'rank 0 and rank 1 differ in the profile: "warm_up_steps": 20 and "warm_up_steps": 30;')


class Projection(torch.nn.Linear):
    """A module type that a region can name."""


@contextmanager
def with_head(kind: str = "Linear"):
    model = make()
    if kind == "Projection":
        model.head = Projection(model.head.in_features, model.head.out_features)
    yield wrap(model), {"route": "waterfill:4"}


def test_models_with_differing_modules_are_rejected_on_every_rank():
    for kind, message in rejected(with_head, "Projection", on=1):
        assert kind == "AttachError"
        assert message.startswith("rank 0 and rank 1 differ in the types of the model's modules: "
                                  "head.weight Linear and head.weight Projection;")


def test_a_profile_above_the_size_limit_is_rejected(tmp_path):
    path = tmp_path / "large.json"
    path.write_bytes(b" " * (1 << 20) + "é".encode())
    with pytest.raises(ValueError, match="large.json: larger than 1 MiB"):
        nf.Profile.load(path)


@contextmanager
def with_patch(what: str = "", value: str = ""):
    patch = nullcontext()
    if what == "version":
        patch = mock.patch.object(_C, "__version__", value)
    elif what == "torch":
        patch = mock.patch.object(torch, "__version__", value)
    elif what == "NF_MODE":
        patch = mock.patch.dict(os.environ, {"NF_MODE": value})
    with patch:
        yield wrap(make()), {"route": "waterfill:4"}


@pytest.mark.parametrize(("what", "value", "words"), [
    ("version", "0.0.7", f"the version of neuron_fabric: {_C.__version__} and 0.0.7"),
    ("torch", "2.99", f"the version of PyTorch: {torch.__version__} and 2.99"),
    ("NF_MODE", "shadow", "NF_MODE: on and shadow"),
    ("NF_MODE", "off", "NF_MODE: on and off"),
])
def test_differing_versions_and_modes_are_named_on_every_rank(what, value, words):
    errors = rejected(with_patch, what, value, on=1)
    assert errors == 2 * [("AttachError", f"rank 0 and rank 1 differ in {words}; start all ranks "
                                          "with the same configuration")]


@pytest.mark.parametrize("on", [None, 1])
def test_an_unknown_mode_is_rejected_on_every_rank(on):
    words = "the environment variable NF_MODE must be one of on, shadow, off, not 'bogus'"
    errors = rejected(with_patch, "NF_MODE", "bogus", on=on)
    assert errors[1] == ("ValueError", words)
    if on is None:
        assert errors[0] == errors[1]
    else:
        assert errors[0] == ("AttachError", f"attach() failed on rank 1: {words}")


@contextmanager
def with_file(folder: Path):
    """A profile that exists only on the host of rank 0."""
    yield wrap(make()), {"profile": folder / f"rank{dist.get_rank()}.json"}


def test_a_profile_missing_on_one_rank_is_reported_on_every_rank(tmp_path):
    file = tmp_path / "rank0.json"
    file.write_text(json.dumps(profile(ROUTES)))
    (first, heard), (second, message) = rejected(with_file, tmp_path)
    assert (first, second) == ("AttachError", "ValueError")
    assert message == f"cannot read the profile {tmp_path}/rank1.json: No such file or directory"
    assert heard == f"attach() failed on rank 1: {message}"


@contextmanager
def with_names(other: bool = False):
    """Models of one shape whose parameters have other names: DDP accepts them."""
    model = make()
    yield wrap(nn.ModuleDict({"other": model}) if other else model), {"route": "waterfill:4"}


def test_differing_models_are_reported_on_every_rank():
    for kind, message in rejected(with_names, True, on=1):
        assert kind == "AttachError"
        assert message.startswith("rank 0 and rank 1 differ in the model's parameters: first.weight "
                                  "(64, 32) torch.float32 and other.first.weight (64, 32) ")


@contextmanager
def with_hook(kind: str):
    ddp = wrap(make())
    fabric = None
    if kind == "builtin":
        ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE)
    elif kind == "python":
        ddp.register_comm_hook(None, allreduce_hook)
    else:
        fabric = nf.attach(ddp, route="fp32")
    yield ddp, {}
    if fabric is not None:
        fabric.close()


@pytest.mark.parametrize(("kind", "name"), [
    ("builtin", "BuiltinCommHookType.ALLREDUCE"), ("python", "allreduce_hook"),
    ("ours", "neuron_fabric")])
def test_a_model_that_already_has_a_hook_is_rejected(kind, name):
    errors = rejected(with_hook, kind)
    assert errors == 2 * [("RuntimeError", f"the model already has a communication hook ({name}), "
                           "and DDP accepts only one: attach to a new DistributedDataParallel")]


@contextmanager
def with_model(kind: str):
    match kind:
        case "plain":
            yield make(), {}
        case "python_reducer":
            with torch._dynamo.config.patch(optimize_ddp="python_reducer"):
                yield wrap(make()), {}
        case "mixed_precision":
            ddp = wrap(make())
            ddp.mixed_precision = object()  # DDP itself rejects it on a CPU
            yield ddp, {}
        case "inner":
            ddp = wrap(make())
            yield ddp.module, {}
        case "replicate":
            yield replicate(make()), {}


@pytest.mark.parametrize(("kind", "words"), [
    ("plain", "attach() takes a model under DistributedDataParallel, fully_shard() or replicate() of FSDP2, not a "
              "Classifier: wrap it first, for example DistributedDataParallel(model)"),
    ("python_reducer", "DDP runs with the Python reducer (torch._dynamo.config.optimize_ddp is "
                       "'python_reducer'), which has no buckets; use the default"),
    ("mixed_precision", "DDP(mixed_precision=...) uses the communication hook itself; use "
                        "torch.autocast, or a model in bfloat16, instead"),
    ("inner", "attach() takes the DistributedDataParallel object around this Classifier, not the module "
              "inside it: trainer.model_wrapped of a Hugging Face Trainer"),
    ("replicate", "this DDPClassifier is under replicate(), which reduces its gradients itself"),
])
def test_an_unsupported_model_is_rejected(kind, words):
    for _, message in rejected(with_model, kind):
        assert words in message


def attach_without_a_group() -> list[str]:
    ddp = wrap(make())
    dist.destroy_process_group()
    messages = []
    for start in (lambda: nf.attach(ddp), lambda: nf.HookState(ddp.module).session()):
        with pytest.raises(RuntimeError) as caught:
            start()
        messages.append(str(caught.value))
    return messages


def test_without_a_process_group_the_error_names_the_missing_call():
    for messages in on_ranks(2, attach_without_a_group, fresh=True):
        assert messages == 2 * ["torch.distributed is not initialised: call init_process_group() first"]


def join_with_another_divisor() -> str:
    ddp = wrap(make())
    fabric = nf.attach(ddp, route="waterfill:4")
    with pytest.raises(RuntimeError) as caught, ddp.join(divide_by_initial_world_size=False):
        pass
    fabric.close()
    return str(caught.value)


def test_join_with_another_divisor_is_rejected():
    for message in on_ranks(2, join_with_another_divisor):
        assert message.startswith("join(divide_by_initial_world_size=False) is not supported: ")


def rejected_then_attached() -> int:
    ddp = wrap(make())
    for options in ({"admit": "fast"}, {"route": "waterfil:4"}, {"prometheus": "nonsense"}):
        with pytest.raises(ValueError):
            nf.attach(ddp, **options)
    fabric = nf.attach(ddp, route="waterfill:4")
    loss_of(ddp, next(batches())).backward()
    steps = fabric.step
    fabric.close()
    return steps


def test_after_an_error_the_model_can_be_attached():
    assert on_ranks(2, rejected_then_attached) == [1, 1]
