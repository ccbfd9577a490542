"""Training with simulated workers: all workers of a data-parallel job in one process on one device."""
