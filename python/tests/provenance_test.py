"""The provenance in results and profiles."""

import importlib.util
import subprocess

import pytest
import torch
from neuron_fabric.support import provenance

needs_extension = pytest.mark.skipif(
    importlib.util.find_spec("neuron_fabric._C") is None,
    reason="the extension neuron_fabric._C is not built")


def git(folder, *words):
    return subprocess.run(["git", "-C", str(folder), "-c", "user.name=test", "-c", "user.email=test",
                           *words], check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    monkeypatch.delenv("NF_COMMIT", raising=False)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "first")
    return tmp_path


def test_the_commit_is_that_of_the_checkout(checkout):
    package = checkout / "python" / "neuron_fabric"
    package.mkdir(parents=True)
    assert provenance.commit(package) == git(checkout, "rev-parse", "--short=12", "HEAD")


def test_uncommitted_changes_are_reported(checkout):
    package = checkout / "python" / "neuron_fabric"
    package.mkdir(parents=True)
    (package / "code.py").write_text("1")
    assert "+" not in provenance.commit(package), "a file outside the project"
    git(checkout, "add", ".")
    git(checkout, "commit", "--quiet", "-m", "second")
    clean = git(checkout, "rev-parse", "--short=12", "HEAD")
    assert provenance.commit(package) == clean
    (package / "code.py").write_text("2")
    assert provenance.commit(package) == f"{clean}+changes"


def test_the_commit_of_another_project_is_ignored(checkout, tmp_path_factory):
    installed = checkout / ".venv" / "site-packages" / "neuron_fabric"
    installed.mkdir(parents=True)
    assert provenance.commit(installed) is None
    assert provenance.commit(tmp_path_factory.mktemp("no_checkout")) is None


def test_a_copy_without_history_reads_its_commit_from_the_environment(checkout, monkeypatch):
    monkeypatch.setenv("NF_COMMIT", "abc")
    assert provenance.commit(checkout) == "abc"


def test_a_machine_is_described_in_words():
    here = provenance.machine(torch.device("cpu"))
    assert here["device"] == "cpu"
    assert provenance.describe_machine(here) == f"{here['processor']}, {here['cores']} cores"
    assert provenance.describe_machine(here | {"card": "a card"}).startswith("a card, ")


@needs_extension
def test_versions_are_those_in_use():
    found = provenance.versions()
    assert found["torch"] == torch.__version__
    assert found.keys() == {"neuron_fabric", "torch", "python"}
