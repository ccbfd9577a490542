"""check_layers.py reports each kind of violation and accepts each allowed include and import."""

import check_layers
import pytest
from check_layers import stale_rules, violations


def tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return violations(root)


@pytest.mark.parametrize("files", [
    {"src/codec/a.cc": '#include "base/log.h"\n', "src/base/log.h": ""},
    {"src/codec/a.cc": '#include "hwy/highway.h"\n#include <hwy/base.h>\n'},
    {"src/codec/x/a.cc": '#include "a-inl.h"\n', "src/codec/x/a-inl.h": ""},
    {"src/collective/a.cc": '#include "codec/c.h"\n#include "transport/t.h"\n'},
    {"src/cxl/a.cc": '#include "neuron_fabric/codec.h"\n', "src/codec/codec.cc": ""},
    {"include/neuron_fabric/codec.h": '#include <vector>\n#include "neuron_fabric/status.h"\n',
     "src/codec/codec.cc": "", "src/base/status.cc": ""},
    {"cuda/codec/a.cu": '#include "codec/c.h"\n#include "cuda/device/d.cuh"\n', "src/codec/c.h": "",
     "cuda/device/d.cuh": '#include "cuda/codec/c.h"\n#include "base/b.h"\n', "cuda/codec/c.h": "",
     "src/base/b.h": ""},
    {"cuda/runtime/a.cc": '#include "cuda/collective/c.h"\n#include "runtime/r.h"\n',
     "cuda/collective/c.h": "", "src/runtime/r.h": ""},
    {"tools/nf/plan/a.cc": '#include "nf/support/t.h"\n#include "runtime/r.h"\n',
     "tools/nf/support/t.h": '#include "base/b.h"\n', "src/runtime/r.h": "", "src/base/b.h": ""},
    {"tools/nf/quality/a.cc": '#include "nf/plan/shapes.h"\n', "tools/nf/plan/shapes.h": ""},
    {"tools/nf/main.cc": '#include "nf/bench/b.h"\n', "tools/nf/bench/b.h": ""},
    {"tools/nf/bench/nccl.cc": '#include "cuda/base/b.h"\n', "cuda/base/b.h": ""},
    {"python/csrc/a.cc": '#include "b.h"\n#include "runtime/r.h"\n#include <torch/torch.h>\n',
     "python/csrc/b.h": "", "src/runtime/r.h": ""},
    {"python/csrc/cuda_backend.cc": '#include "cuda/runtime/r.h"\n', "cuda/runtime/r.h": ""},
    {"python/neuron_fabric/a.py": "import torch\nfrom neuron_fabric.report import page\n",
     "python/neuron_fabric/support/units.py": "import neuron_fabric\n",
     "python/neuron_fabric_lab/a.py": "import neuron_fabric as nf\nfrom . import b\n"},
])
def test_includes_that_point_down_are_accepted(tmp_path, files):
    assert tree(tmp_path, files) == []


@pytest.mark.parametrize("name, text, others", [
    ("src/base/a.cc", '\n#include "codec/c.h"\n', {}),
    ("src/base/a.cc", '\n#include "../codec/c.h"\n', {"src/codec/c.h": ""}),
    ("src/base/a.cc", '\n#include "neuron_fabric/codec.h"\n', {"src/codec/codec.cc": ""}),
    ("src/base/a.cc", '\n#include "neuron_fabric/plan.h"\n',  # a header without a source
     {"include/neuron_fabric/plan.h": '#include "neuron_fabric/codec.h"\n',
      "src/codec/codec.cc": ""}),
    ("src/codec/a.cc", '\n#include "transport/t.h"\n', {}),
    ("src/transport/a.cc", '\n  #  include "codec/c.h"\n', {}),
    ("src/codec/a.cc", '\n#include "../../tests/support.h"\n', {"tests/support.h": ""}),
    ("src/runtime/a.cc", '\n#include "cuda/base/b.h"\n', {"cuda/base/b.h": ""}),
    ("include/neuron_fabric/a.h", '\n#include "base/log.h"\n', {}),
    ("include/neuron_fabric/a.h", "\n#include <hwy/highway.h>\n", {}),
    ("include/neuron_fabric/a.h", "\n#include <cuda_runtime.h>\n", {}),
    ("cuda/base/a.cc", '\n#include "cuda/codec/c.h"\n', {"cuda/codec/c.h": ""}),
    ("cuda/codec/a.cu", '\n#include "collective/c.h"\n', {"src/collective/c.h": ""}),
    ("cuda/device/a.cuh", '\n#include "cuda/collective/c.h"\n', {"cuda/collective/c.h": ""}),
    ("cuda/collective/a.cc", '\n#include "cuda/runtime/r.h"\n', {"cuda/runtime/r.h": ""}),
    ("tools/nf/support/a.cc", '\n#include "nf/plan/p.h"\n', {"tools/nf/plan/p.h": ""}),
    ("tools/nf/plan/a.cc", '\n#include "nf/bench/b.h"\n', {"tools/nf/bench/b.h": ""}),
    ("tools/nf/bench/a.cc", '\n#include "cuda/base/b.h"\n', {"cuda/base/b.h": ""}),
    ("python/csrc/a.cc", '\n#include "cuda/base/b.h"\n', {"cuda/base/b.h": ""}),
    ("python/csrc/a.cc", '\n#include "nf/plan/p.h"\n', {"tools/nf/plan/p.h": ""}),
    ("python/neuron_fabric/a.py", "\nimport neuron_fabric_lab.train\n", {}),
    ("python/neuron_fabric/a.py", "\nfrom neuron_fabric_lab import train\n", {}),
    ("python/neuron_fabric/a.py", "def f():\n    from neuron_fabric_lab.train import run\n", {}),
    ("python/neuron_fabric/ranks/a.py", "\nfrom ..session import Session\n", {}),
    ("python/neuron_fabric/support/a.py", "\nfrom neuron_fabric import session\n", {}),
])
def test_a_violation_is_reported_with_file_and_line(tmp_path, name, text, others):
    found = tree(tmp_path, {name: text, **others})
    assert len(found) == 1
    assert found[0].startswith(f"{name}:2: ")


def test_a_file_outside_the_layers_is_reported(tmp_path):
    assert tree(tmp_path, {"src/fabric.cc": ""})[0].startswith("src/fabric.cc:1: in no layer")
    assert tree(tmp_path, {"cuda/other/a.cu": ""})[0].startswith("cuda/other/a.cu:1: in no layer")


def test_a_rule_for_something_that_does_not_exist_is_reported(tmp_path):
    found = list(stale_rules(tmp_path, set()))
    for name in ("src/base", "cuda/device", "tools/nf/plan/shapes.h", "python/csrc/cuda_backend.cc",
                 "python/neuron_fabric/ranks"):
        assert any(f" {name}, which does not exist" in line for line in found)


def test_an_exception_that_nothing_needs_is_reported(tmp_path):
    found = "\n".join(stale_rules(tmp_path, set()))
    for one, other in check_layers.EXCEPTIONS:
        assert f"allows {one} with {other}, which no include needs" in found
