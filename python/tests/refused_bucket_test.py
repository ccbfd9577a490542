"""A bucket that one rank is refused is an error on all ranks, and nobody's device waits."""

import pytest
import torch
from workers.job import Job

SOON = 10  # seconds: to abort communicators takes some


@pytest.mark.parametrize(("device", "late"), [
    ("cpu", 1),
    pytest.param("cuda", 3 * SOON, marks=pytest.mark.skipif(
        not torch.cuda.is_available(), reason="no CUDA device on this machine"))])
def test_a_refused_bucket_is_an_error_on_all_ranks(device, late):
    with Job(2, "refuse.py", "--device", device, "--late", str(late)) as job:
        ends = job.join()
    if ends[0].event("place")["place"] != ("host" if device == "cpu" else device):
        pytest.skip("the extension was built without CUDA")
    refused = ends[1].event("raised")
    assert "is out of order" in refused["message"]
    # Its device has a sum before it that rank 0 has not come to yet.
    assert ends[1].event("usable")["time"] - refused["time"] < SOON
    assert "is out of order" in ends[0].event("raised")["message"]
    assert ends[0].event("usable")["one"] == 1
