"""Real jobs that lose, stop and resume ranks by a seeded plan: `make chaos` (docs/testing.md).

    plan       what happens in an episode, as a function of its seed
    episode    runs an episode and checks what must hold after it
    leaks      what the jobs of this machine have left behind
    __main__   episodes until the time is over, and a summary
"""
