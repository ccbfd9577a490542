"""check_layers.py finds each kind of breach and lets each allowed arrow pass."""

import pytest
from check_layers import breaches


def tree(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return list(breaches(root))


@pytest.mark.parametrize("files", [
    {"src/codec/a.cc": '#include "base/log.h"\n', "src/base/log.h": ""},
    {"src/codec/a.cc": '#include "hwy/highway.h"\n#include <hwy/base.h>\n'},
    {"src/codec/x/a.cc": '#include "a-inl.h"\n', "src/codec/x/a-inl.h": ""},
    {"src/collective/a.cc": '#include "codec/c.h"\n#include "transport/t.h"\n'},
    {"src/cxl/a.cc": '#include "neuron_fabric/codec.h"\n', "src/codec/codec.cc": ""},
    {"src/fabric.cc": '#include "runtime/planner.h"\n'},
    {"include/neuron_fabric/codec.h": '#include <vector>\n#include "neuron_fabric/status.h"\n',
     "src/codec/codec.cc": "", "src/base/status.cc": ""},
])
def test_arrows_down_pass(tmp_path, files):
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
    ("include/neuron_fabric/a.h", '\n#include "base/log.h"\n', {}),
    ("include/neuron_fabric/a.h", "\n#include <hwy/highway.h>\n", {}),
    ("include/neuron_fabric/a.h", "\n#include <cuda_runtime.h>\n", {}),
])
def test_a_breach_is_named_by_file_and_line(tmp_path, name, text, others):
    found = tree(tmp_path, {name: text, **others})
    assert len(found) == 1
    assert found[0].startswith(f"{name}:2: ")
