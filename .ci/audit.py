"""Looks for known vulnerabilities in what is installed: `audit.py FOLDER [OPTION OF PIP-AUDIT ...]`, FOLDER being a site-packages.

A vulnerability that is found ends it with 1. A service that cannot be reached, or that knows none of the packages, is said and is no
failure: then nothing was audited, and nothing else is to blame for that.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

OWN = "loadsheet"


def main(folder: str, *options: str) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "report.json")
        words = ["--path", folder, "--format", "json", "--output", str(report), "--progress-spinner", "off", *options]
        done = subprocess.run([sys.executable, "-m", "pip_audit", *words], capture_output=True, text=True, check=False)
        if not report.is_file() or not report.stat().st_size:
            said = [line for line in done.stderr.splitlines() if line.strip()]
            return not_audited(said[0] if said else f"pip-audit ended with {done.returncode} and said nothing")
        found = json.loads(report.read_text(encoding="utf-8"))["dependencies"]
    packages = [package for package in found if package["name"] != OWN]
    looked_at = [package for package in packages if "skip_reason" not in package]
    if not looked_at:
        return not_audited(f"the service knows none of the {len(packages)} packages")
    bad = [package for package in looked_at if package["vulns"]]
    for package in bad:
        known = ", ".join(
            f"{each['id']} (mended in {', '.join(each['fix_versions']) or 'none yet'})" for each in package["vulns"]
        )
        print(f"vulnerable: {package['name']} {package['version']}: {known}")
    print(f"audited: {len(looked_at)} of {len(packages)} packages, {len(bad)} with known vulnerabilities")
    return int(bool(bad))


def not_audited(why: str) -> int:
    print(f"not audited: {why}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
