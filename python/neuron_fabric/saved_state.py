"""The format of the state of a Fabric, which state_dict() returns and load_state_dict() takes."""

from types import FrameType

from neuron_fabric.jobs import Jobs

_FORMAT = "neuron_fabric.state"
_VERSION = 1
_KEYS = {"rank", "ranks", "profile", "state", "memory"}


def with_format(state: dict[str, object]) -> dict[str, object]:
    return {"format": _FORMAT, "version": _VERSION, **state}


def check_format(state: object) -> None:
    """Raises ValueError if it is not a state that this build reads."""
    if not isinstance(state, dict) or state.get("format") != _FORMAT:
        raise ValueError("not a Fabric state_dict")
    if state.get("version") != _VERSION:
        raise ValueError(
            f"the state has version {state.get('version')}, this build reads version {_VERSION}"
        )
    if not state.get("off") and (missing := _KEYS - state.keys()):
        raise ValueError(f"the state has no {', '.join(sorted(missing))}: save all of it")


def difference(state: dict[str, object], jobs: Jobs) -> str | None:
    """Why the route memory of the state does not fit these jobs; None if it does."""
    # The first states had no "jobs": they were those of all-reduces.
    saved = Jobs(**state["jobs"]) if "jobs" in state else Jobs(jobs.source, "all_reduce", state["ranks"])
    return None if saved == jobs else f"the state is from {saved} and this job is {jobs}"


def reject_accelerate(caller: FrameType) -> None:
    """Accelerate calls state_dict() on every rank but saves only the state of the main process."""
    if caller.f_globals.get("__name__") == "accelerate.checkpointing":
        raise RuntimeError(
            "accelerator.register_for_checkpointing(fabric) saves the state of the main process "
            "only, and the error feedback of the other ranks would be lost: attach with "
            "neuron_fabric.integrations.accelerate.attach(accelerator, model) instead, which "
            "saves the state of every rank"
        )
