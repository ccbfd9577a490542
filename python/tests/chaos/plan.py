"""What happens in an episode, as a function of its seed."""

import random
from dataclasses import dataclass

SOURCES = {"ddp": (2, 3, 4), "fsdp2": (2, 3), "replicate": (2, 3), "hsdp": (4,), "hsdp_low_bit": (4,)}
ROUTES = ("fp32", "waterfill:4", "waterfill:3+ef", "dynamiq:5", "g_ternary", "admitted")
EVENTS = {"kill": 8, "kill_two": 1, "terminate": 1, "stop": 1, "pause": 2, "raise": 2, "memory": 2}  # weights
STARTING = 0.2  # the share of kills while the job starts


@dataclass(frozen=True)
class Job:
    """A training job. Two runs of it end with the same bits."""

    source: str
    ranks: int
    route: str

    def __str__(self) -> str:
        return f"{self.source} of {self.ranks}, {self.route}"


@dataclass(frozen=True)
class Episode:
    """
    event    kill, kill_two, terminate: the signal to the victims; stop: for good; pause: and continue; raise: an
             exception in backward; memory: the limit of the address space, so that allocations fail
    moment   start: `delay` seconds after the launch. training: after the first steps of all ranks
    """

    seed: int
    job: Job
    event: str
    victims: tuple[int, ...]
    moment: str
    delay: float

    @property
    def survivors(self) -> list[int]:
        return [rank for rank in range(self.job.ranks) if rank not in self.victims]

    def __str__(self) -> str:
        who = " and ".join(map(str, self.victims))
        return f"{self.job}: {self.event} {who} {self.delay:.2f} s into {self.moment}"


def plan(seed: int) -> Episode:
    rng = random.Random(seed)
    source = rng.choice(sorted(SOURCES))
    ranks = rng.choice(SOURCES[source])
    routes = [route for route in ROUTES if source in ("ddp", "replicate") or "+ef" not in route]
    event = rng.choices(list(EVENTS), list(EVENTS.values()))[0]
    if ranks == 2 and event == "kill_two":
        event = "kill"
    victims = tuple(sorted(rng.sample(range(ranks), 2 if event == "kill_two" else 1)))
    starts = event in ("kill", "kill_two", "terminate") and rng.random() < STARTING
    return Episode(seed, Job(source, ranks, rng.choice(routes)), event, victims,
                   "start" if starts else "training", rng.uniform(0, 1.0 if starts else 0.7))
