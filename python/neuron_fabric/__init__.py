"""Gradient communication at 1 to 8 bits an element where that is safe and pays.

    import neuron_fabric as nf
    model = torch.nn.parallel.DistributedDataParallel(net)
    fabric = nf.attach(model)

Everything that needs PyTorch is loaded when it is first used, so that a run's report can be made
where there is none.
"""

import importlib

_HOMES = {
    "attach": "ddp",
    "CalibrationConsole": "calibration.watch",
    "Calibrator": "calibration.calibrator",
    "Fabric": "fabric",
    "HookState": "comm_hook",
    "hook": "comm_hook",
    "Profile": "profile",
    "Summary": "summary",
    "write_shapes": "shapes",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("neuron-fabric")
        except PackageNotFoundError:  # used from a checkout
            importlib.import_module("torch")  # loads what the extension links
            return importlib.import_module("neuron_fabric._C").__version__
    if name in _HOMES:
        return getattr(importlib.import_module(f"neuron_fabric.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'neuron_fabric' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
