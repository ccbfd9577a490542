"""The training runs of scripts/dump_gradients.py."""
