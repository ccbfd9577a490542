"""Calibration: which gradients of a model may travel at low bits, found out on its own training."""
