"""The jobs that reduce the gradients of one model."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Jobs:
    """HSDP has a job per shard, and within replicas one per replica. Other sources have one job. All jobs of a model
    have the same number of ranks."""

    source: str
    collective: str
    ranks: int  # of each job
    count: int = 1

    def __str__(self) -> str:
        if (self.source, self.collective) == ("hsdp", "reduce_scatter"):
            return f"{self.source} within {_count(self.count, 'replica')} of {_count(self.ranks, 'shard')}"
        if self.count > 1:
            return f"{self.source} on {_count(self.ranks, 'replica')} of {self.count} shards"
        call = " with reduce_scatter" if (self.source, self.collective) == ("reducer", "reduce_scatter") else ""
        return f"{self.source}{call} on {_count(self.ranks, 'rank')}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
