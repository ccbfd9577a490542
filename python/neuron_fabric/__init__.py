"""Low-bit gradient communication for distributed training: 1 to 8 bits per element if that is safe and
faster.

    import neuron_fabric as nf
    model = torch.nn.parallel.DistributedDataParallel(net)
    fabric = nf.attach(model)

Every module that needs PyTorch is imported on first use, so that reports can be made without PyTorch.

    entry, comm_hook, reducer attach(), hook() and Reducer: the entry points
    ddp, fsdp                 attach() for DistributedDataParallel; for FSDP2, HSDP and replicate()
    settings, profile, model  their arguments: settings, profiles, the parameters of a model
    source, session, attached what passes gradients to the runtime; one attached model
    staging                   gradients of a device that go through host memory
    running                   the threads that must end before the process
    fabric, summary           the objects that users hold: Fabric and Summary
    decisions, shapes         files of recorded decisions and of parameter shapes
    calibration               nf.Calibrator: finds a profile around a training loop
    telemetry, report         records of a run, and a page made from them
    doctor                    checks of an installation
    integrations              Lightning, Transformers, Accelerate
    ranks, support            processes of a job; files, units, tables

Workloads, training jobs and benchmarks are in the package neuron_fabric_lab.
"""

import importlib

_HOMES = {
    "attach": "entry",
    "CalibrationConsole": "calibration.watch",
    "Calibrator": "calibration.calibrator",
    "Fabric": "fabric",
    "HookState": "comm_hook",
    "hook": "comm_hook",
    "Profile": "profile",
    "Reducer": "reducer",
    "Summary": "summary",
    "write_shapes": "shapes",
}
_MOVED_TO_LAB = ("calibrate", "compare", "demo", "train", "workloads")

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("neuron-fabric")
        except PackageNotFoundError:  # used from a checkout
            importlib.import_module("torch")  # loads the libraries that the extension links
            return importlib.import_module("neuron_fabric._C").__version__
    if name in _HOMES:
        return getattr(importlib.import_module(f"neuron_fabric.{_HOMES[name]}"), name)
    if name in _MOVED_TO_LAB:
        import warnings

        warnings.warn(f"neuron_fabric.{name} is now neuron_fabric_lab.{name}", DeprecationWarning,
                      stacklevel=2)
        return importlib.import_module(f"neuron_fabric_lab.{name}")
    raise AttributeError(f"module 'neuron_fabric' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
