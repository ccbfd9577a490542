"""Gradients of a device that go through host memory: when, and the one line in the log."""

import logging
from types import SimpleNamespace

import pytest
import torch
from neuron_fabric import staging
from neuron_fabric.ranks.rendezvous import AttachError
from neuron_fabric.support import device_path
from ranks import on_ranks
from small_job import make, wrap


@pytest.mark.parametrize(("architectures", "capability", "code"), [
    ("90-real,90-virtual", (9, 0), "sm_90"),
    ("80-real,90-real", (8, 6), "sm_80"),
    ("86-real", (8, 0), ""),
    ("90-real", (10, 0), ""),
    ("90-real,90-virtual", (8, 0), ""),
    ("90-real,90-virtual", (12, 1), "PTX of sm_90, compiled on first use"),
    ("80", (9, 0), "PTX of sm_80, compiled on first use"),
    ("90a", (9, 0), "sm_90a"),
    ("90a", (10, 0), ""),
    ("100f", (10, 3), "sm_100f"),
    ("100f", (12, 0), ""),
    ("native", (8, 0), "native"),
    ("", (9, 0), "")])
def test_a_device_runs_code_of_its_major_version_or_newer_ptx(architectures, capability, code):
    assert device_path.code_for(architectures, capability) == code
    assert bool(device_path.why_not(architectures, "H200", capability)) == (not code)


@pytest.fixture
def card(monkeypatch):
    """A CUDA device of compute capability 8.0."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"card {device.index}")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    return torch.device("cuda", 3)


def test_an_older_device_is_named_with_the_architectures(card, monkeypatch):
    monkeypatch.setattr(staging, "_C", SimpleNamespace(architectures="90-real,90-virtual"))
    assert staging.why_not_on_device(card) == (
        "this build of neuron_fabric contains device code for 90-real, 90-virtual, and card 3 has compute "
        "capability 8.0")
    monkeypatch.setattr(staging, "_C", SimpleNamespace(architectures="80-real"))
    assert staging.why_not_on_device(card) == ""


def test_a_build_without_cuda_has_no_code_for_any_device(card, monkeypatch):
    monkeypatch.setattr(staging, "_C", SimpleNamespace(architectures=""))
    assert staging.why_not_on_device(card) == "this build of neuron_fabric contains no device code"
    assert staging.why_not_on_device(torch.device("cpu")) == ""


@pytest.mark.parametrize(("can_rebuild", "end"), [
    (True, "; to reduce on the device, build with `NF_CUDA=ON make build` in a checkout, `NF_CUDA=ON pip install "
           "--force-reinstall --no-deps .` elsewhere"),
    (False, "")])
def test_staging_is_logged_once_with_its_cost(caplog, monkeypatch, can_rebuild, end):
    monkeypatch.setattr(staging, "_is_logged", False)
    with caplog.at_level(logging.WARNING, "neuron_fabric"):
        for _ in range(3):
            staging.log_staging("some reason", 352_000_000, can_rebuild)
    assert [record.getMessage() for record in caplog.records] == [
        "CUDA gradients are staged through host memory: some reason; every step copies the gradients (352 MB) to "
        f"host memory and back and reduces them on the CPU{end}"]


def attach_with_device_code_on(rank: int) -> str:
    """As if only the device of one rank had device code."""
    import neuron_fabric as nf
    import torch.distributed as dist
    from neuron_fabric import session

    real = session.why_not_on_device
    session.why_not_on_device = lambda device: "" if dist.get_rank() == rank else "old"
    try:
        nf.attach(wrap(make()))
    except AttachError as error:
        return str(error)
    finally:
        session.why_not_on_device = real
    return ""


def test_ranks_agree_on_whether_their_devices_have_code():
    for words in on_ranks(2, attach_with_device_code_on, 1):
        assert "rank 0 and rank 1 differ in whether the extension has code for the model's device" in words


def attach_as_if_on_a_device() -> list[str]:
    """The messages of neuron_fabric for a runtime that reports why gradients are staged."""
    import neuron_fabric as nf
    from neuron_fabric import session

    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("neuron_fabric").addHandler(handler)
    real_check, real_make = session.why_not_on_device, session.Session._make_runtime

    class Staged:
        """The runtime of a model in host memory, with the reason that the session has passed."""

        def __init__(self, runtime, why):
            self._runtime, self.why_on_host = runtime, why

        def __getattr__(self, name):
            return getattr(self._runtime, name)

    session.why_not_on_device = lambda device: "no code"
    session.Session._make_runtime = lambda self: Staged(real_make(self), self._why_on_host)
    staging._is_logged = False
    try:
        for _ in range(2):
            nf.attach(wrap(make())).close()
    finally:
        session.why_not_on_device, session.Session._make_runtime = real_check, real_make
        logging.getLogger("neuron_fabric").removeHandler(handler)
    return lines


def test_attach_logs_one_line_if_gradients_are_staged():
    values = sum(parameter.numel() for parameter in make().parameters())
    for lines in on_ranks(2, attach_as_if_on_a_device):
        [line] = [line for line in lines if "staged" in line]
        assert line.startswith("CUDA gradients are staged through host memory: no code; every step copies the ")
        assert device_path.cost(4 * values) in line
        assert "NF_CUDA=ON make build" in line
