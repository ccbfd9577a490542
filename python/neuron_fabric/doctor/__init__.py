"""`nf doctor`: whether this installation can do its job on this machine, and what to do where not.

Needs the standard library only: what PyTorch and the extension say is asked in another process.
"""
