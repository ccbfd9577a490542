"""Results of a few runs, in the format of nf train."""


def run(route, seed, accuracy, seconds=10.0, **changes):
    curve = [{"step": 5, "seconds": seconds / 2, "bytes": 10, "accuracy": accuracy / 2, "loss": 2.0},
             {"step": 10, "seconds": seconds, "bytes": 20, "accuracy": accuracy, "loss": 1.0}]
    return {"workload": "digits", "size": "tiny", "route": route, "seed": seed, "ranks": 2,
            "accuracy": accuracy, "loss": 1.0, "bytes": 2.0, "bytes_ratio": 0.5, "bytes_up_ratio": 0.25,
            "step_seconds": 0.1, "exposed_seconds": 0.05, "curve": curve, "diverged": False, "fallbacks": [],
            "finished": True, "seconds": seconds, "parameters": 100, "steps": 10, "batch": 4, "commit": "abc",
            "command": "nf train digits", "machine": {"processor": "a processor", "cores": 2},
            "versions": {"torch": "2.11"}} | changes


RUNS = [run("fp32", 1, 0.90), run("fp32", 2, 0.92), run("bf16", 1, 0.90), run("bf16", 2, 0.92),
        run("g_binary", 1, 0.80, 4.0), run("g_binary", 2, 0.83, 4.0),
        run("waterfill:4", 1, 0.905, 5.0), run("waterfill:4", 2, 0.921, 5.0),
        run("default", 1, 0.9, 6.0), run("default", 2, 0.92, 6.0)]
