"""Known vulnerabilities in what is installed: `python .ci/audit.py PIP_AUDIT SITE_PACKAGES`.

`pip-audit` asks an advisory service over the network, and there is no offline database that is kept up to
date. Where no service answers, this says that nothing was audited and passes, because a machine without
network says nothing about our dependencies; with AUDIT_REQUIRED=1 it fails instead. A vulnerability fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

SERVICES = ("pypi", "osv")
SECONDS = 300
OURSELVES = "memory-sidecar"

Dependency = Mapping[str, object]


def answered(output: str) -> list[Dependency]:
    """The dependencies that the service knew; empty when none answered."""
    try:
        found = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return []
    return [each for each in found if "vulns" in each]


def verdict(known: Sequence[Dependency], names: Sequence[str], *, required: bool) -> tuple[int, list[str]]:
    """Exit status and what to say, for what a service knew of the installed `names`."""
    if not known:
        said = "NOT AUDITED: no advisory service could be reached from here"
        return int(required), [said]
    lines = [
        f"VULNERABLE: {each['name']} {each['version']}: {vulnerability['id']}, "
        f"fixed in {', '.join(vulnerability['fix_versions']) or 'no version yet'}"
        for each in known
        for vulnerability in each["vulns"]  # type: ignore[attr-defined]
    ]
    status = int(bool(lines))
    missing = sorted(set(names) - {str(each["name"]) for each in known} - {OURSELVES})
    if missing:
        lines.append(f"NOT AUDITED, the service does not know them: {', '.join(missing)}")
    lines.append(f"{len(known)} of {len(names)} installed packages audited")
    return (int(required) if missing and not status else status), lines


def ask(pip_audit: str, site_packages: str, service: str) -> tuple[list[Dependency], list[str]]:
    """What one service knows, and the names of everything that is installed."""
    done = subprocess.run(  # noqa: S603
        [pip_audit, "--path", site_packages, "--vulnerability-service", service,
         "--format", "json", "--progress-spinner", "off", "--timeout", "15"],
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    try:
        names = [str(each["name"]) for each in json.loads(done.stdout)["dependencies"]]
    except (ValueError, KeyError, TypeError):
        names = []
        print(f"{service}: {(done.stderr.strip().splitlines() or ['no answer'])[-1][:300]}")  # noqa: T201
    return answered(done.stdout), names


def main(pip_audit: str, site_packages: str) -> int:
    """Ask one service after the other until one knows anything."""
    known: list[Dependency] = []
    names: list[str] = []
    for service in SERVICES:
        try:
            known, names = ask(pip_audit, site_packages, service)
        except subprocess.TimeoutExpired:
            print(f"{service}: no answer within {SECONDS} s")  # noqa: T201
        if known:
            break
    status, lines = verdict(known, names, required=os.environ.get("AUDIT_REQUIRED") == "1")
    print("\n".join(lines))  # noqa: T201
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
