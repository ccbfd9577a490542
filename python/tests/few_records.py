"""A run with one record of every kind."""

ATTACH = {"event": "attach", "time": 1e9, "rank": 0, "ranks": 2, "version": "0.1.0",
          "torch": "2.11.0", "backend": "gloo", "mode": "on", "admit": "useful",
          "topology": "direct", "seed": 0, "profile": "default",
          "link": {"latency_us": 50.0, "gbps": 1.0, "dense_latency_us": 60.0, "dense_gbps": 0.9},
          "regions": [{"name": "body", "parameters": 1, "values": 4096, "route": "waterfill:5",
                       "error_budget": 0.1},
                      {"name": 'a "b"\\c\nd', "parameters": 1, "values": 16, "route": "fp32"}],
          "parameters": [{"name": "w", "region": "body", "values": 4096, "route": "waterfill:5"}]}


def step(number, **changes):
    return {"event": "step", "step": number, "time": 1e9 + number, "epoch": 1, "seconds": 0.25,
            "exposed_seconds": 0.125, "predicted_exposed_seconds": 0.0625, "loss": 1.5,
            "rank_loss": 1.25, "should_step": True, "buckets": 1,
            "regions": [{"name": "body", "route": "waterfill:5", "reason": "admitted", "norm": 0.5,
                         "error": 0.002, "non_finite": 0, "bytes": 2560, "dense_bytes": 16384,
                         "up_bytes": 1024, "seconds": 0.1},
                        {"name": 'a "b"\\c\nd', "route": "fp32", "reason": "admitted", "norm": 2.0,
                         "error": None, "non_finite": 0, "bytes": 64, "dense_bytes": 64,
                         "up_bytes": 32, "seconds": 0.01}]} | changes


def unmonitored(number):
    """A step whose gradients were not monitored, and without a mean over ranks."""
    record = step(number, loss=None, should_step=None)
    for region in record["regions"]:
        region |= {"route": "fp32", "norm": None, "error": None, "non_finite": None}
    return record


FALLBACK = {"event": "decision", "step": 2, "epoch": 2, "region": "body", "from": "admitted",
            "to": "non_finite", "route": "fp32"}
NOTICE = {"event": "notice", "time": 1e9, "level": "warning", "text": "mind the gap"}
DETACH = {"event": "detach", "time": 2e9, "step": 3}
RUN = [ATTACH, step(0), step(1, loss=None, rank_loss=1.0, should_step=False), FALLBACK, NOTICE, DETACH]
