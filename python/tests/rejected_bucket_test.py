"""If one rank's bucket is rejected, all ranks raise an error, and no device keeps waiting."""

import pytest
import torch
from workers.job import Job

SOON = 10  # seconds; aborting communicators takes several


@pytest.mark.parametrize(("device", "late"), [
    ("cpu", 1),
    pytest.param("cuda", 3 * SOON, marks=pytest.mark.skipif(
        not torch.cuda.is_available(), reason="no CUDA device on this machine"))])
def test_a_rejected_bucket_is_an_error_on_all_ranks(device, late):
    with Job(2, "reject_bucket.py", "--device", device, "--late", str(late)) as job:
        ends = job.join()
    if ends[0].event("place")["place"] != ("host" if device == "cpu" else device):
        pytest.skip("the extension was built without CUDA")
    rejected = ends[1].event("raised")
    assert "is out of order" in rejected["message"]
    # On its device, the bucket follows a sum that rank 0 has not started yet.
    assert ends[1].event("usable")["time"] - rejected["time"] < SOON
    assert "is out of order" in ends[0].event("raised")["message"]
    assert ends[0].event("usable")["one"] == 1
