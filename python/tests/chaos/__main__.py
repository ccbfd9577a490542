"""Episodes until the time is over. Findings are kept with the seeds that repeat them.

    make chaos CHAOS_SECONDS=3600
    PYTHONPATH=python:python/tests python -m chaos --replay 4711
"""

import argparse
import collections
import json
import sys
import time
from pathlib import Path

from .episode import Outcome, Runner
from .plan import plan


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60, help="start no episode after this time (60)")
    parser.add_argument("--seed", type=int, help="the seed of the first episode (continues, or 1)")
    parser.add_argument("--replay", type=int, metavar="SEED", help="run this episode alone")
    parser.add_argument("-o", "--out", type=Path, default=Path("build/chaos"), metavar="DIR",
                        help="the folder of episodes.jsonl (build/chaos)")
    return parser.parse_args()


def row_of(outcome: Outcome) -> dict:
    episode = outcome.episode
    return {"seed": episode.seed, "source": episode.job.source, "ranks": episode.job.ranks, "route": episode.job.route,
            "event": episode.event, "moment": episode.moment, "victims": episode.victims,
            "resumed_at": outcome.resumed_at, "went_on": outcome.went_on, "seconds": round(outcome.seconds, 2),
            "findings": outcome.findings}


def read(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def summary(rows: list[dict]) -> str:
    events = collections.Counter(row["event"] for row in rows)
    killed = sum(len(row["victims"]) for row in rows if row["event"].startswith("kill") and not row["went_on"])
    found = [row["seed"] for row in rows if row["findings"]]
    counted = ", ".join(f"{count} x {event}" for event, count in events.most_common())
    return (f"{len(rows)} episodes in {sum(row['seconds'] for row in rows) / 3600:.2f} h: {counted}; "
            f"{killed} ranks killed\n" +
            (f"findings: {len(found)}, in the episodes with seeds {', '.join(map(str, found))}" if found
             else "findings: none"))


def main() -> int:
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "episodes.jsonl"
    runner, kept = Runner(is_alone=True), read(file)
    if options.replay is not None:
        seeds = [options.replay]
    else:
        first = options.seed if options.seed is not None else max((row["seed"] for row in kept), default=0) + 1
        seeds = range(first, 1 << 62)
    rows, end = [], time.monotonic() + options.seconds
    for seed in seeds:
        if time.monotonic() >= end and options.replay is None:
            break
        outcome = runner.run(plan(seed))
        rows.append(row_of(outcome))
        if options.replay is None:
            with file.open("a") as stream:
                stream.write(json.dumps(rows[-1]) + "\n")
        word = "FOUND" if outcome.findings else "on" if outcome.went_on else "ok"
        print(f"{seed:6} {word:5} {outcome.seconds:5.1f} s  {outcome.episode}", flush=True)
        for finding in outcome.findings:
            print(f"       {finding}", flush=True)
    print(f"\n{summary(rows if options.replay is not None else [*kept, *rows])}")
    return int(any(row["findings"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
