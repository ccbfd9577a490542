"""`nf doctor`, also `python -m neuron_fabric.doctor`."""

import argparse
import os
import signal
import sys

from . import device, software
from .environment import check_environment
from .finding import FAILED, Finding, conclusion, to_json, to_table, warning
from .job import CHECK, check_job
from .machine import check_open_files, check_shared_memory
from .probe import Facts, probe


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="nf doctor",
        description="Checks whether this installation works on this machine, and prints what to do if a "
                    "check fails. Exits with 1 if a check failed.")
    parser.add_argument("--quick", action="store_true", help="skip the job of two ranks")
    parser.add_argument("--json", action="store_true", help="print one JSON object per check, no table")
    return parser.parse_args(arguments)


def show_progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def check_software(found: dict[str, Facts]) -> list[Finding]:
    program = software.find_nf()
    info = software.query_nf(program) if program else {}
    findings = [*software.check_nf(program, info), software.check_python()]
    torch = found["torch"]
    findings.append(software.check_torch(torch))
    if "error" in torch:
        return findings
    unknown = {"error": "not checked, since an earlier check did not complete"}
    extension, backends, devices = (found.get(stage, unknown) for stage in
                                   ("extension", "backends", "devices"))
    cards = devices.get("cards", [])
    findings.append(software.check_extension(extension, torch, info.get("version")))
    findings += software.check_backends(backends)
    findings.append(device.check_nccl(backends.get("nccl"), cards))
    findings.append(device.check_cuda(torch, devices, device.driver_version()))
    return findings + [found for found in [device.check_cards(cards, extension)] if found]


def run_checks(quick: bool) -> list[Finding]:
    show_progress("asking PyTorch")
    found = probe()
    findings = check_software(found)
    findings += check_environment(os.environ)
    findings += [check_shared_memory(), check_open_files()]
    if quick:
        return findings
    if all("error" not in found.get(stage, {"error": ""}) for stage in ("torch", "extension")):
        show_progress("training on two ranks")
        findings.append(check_job())
    else:
        findings.append(warning(CHECK, "not started: PyTorch and the extension must load",
                                "Fix the failures above, then run nf doctor again."))
    return findings


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    try:
        findings = run_checks(options.quick)
    except KeyboardInterrupt:
        print("\nnf doctor: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    finally:
        show_progress("")
    if options.json:
        for finding in findings:
            print(to_json(finding))
    else:
        print(f"{to_table(findings)}\n\n{conclusion(findings)}")
    return 1 if any(finding.state == FAILED for finding in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
