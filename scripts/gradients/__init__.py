"""Training runs whose gradients scripts/dump_gradients.py writes to files."""
