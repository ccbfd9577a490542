"""`nf doctor`: checks this installation on this machine, and advises on each failed check.

Needs only the standard library: PyTorch and the extension are queried in another process.
"""
