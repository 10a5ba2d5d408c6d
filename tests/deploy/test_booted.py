"""The units under a real systemd: booted in a container of its own over a copy of this machine, with nothing of it written to.

A system call that a filter forbids, a file in /proc that is hidden, a folder that may not be written: what a unit takes from a program
shows only there. Needs root and systemd-nspawn.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

pytestmark = pytest.mark.sweep
ROOT = Path(__file__).parents[2]
CONTAINED = "/var/lib/night"  # where things lie inside
TARGET = """\
[Unit]
Requires=basic.target
After=basic.target
AllowIsolate=yes
"""
JOB = f"""\
[Unit]
After=basic.target
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart=/bin/bash {CONTAINED}/job
StandardOutput=append:{CONTAINED}/log
StandardError=append:{CONTAINED}/log
"""
PROGRAM = f"""\
#!/bin/sh
PYTHONPATH={CONTAINED}/src exec {sys.executable} -m loadsheet "$@"
"""
WORK = f"""\
set -x
ip link set lo up
mkdir -p /etc/sysusers.d
systemd-sysusers {CONTAINED}/units/loadsheet.sysusers
cp {CONTAINED}/units/*.service {CONTAINED}/units/*.timer /etc/systemd/system/
mkdir -p /var/lib/loadsheet/inbox
cp -R {CONTAINED}/mappings {CONTAINED}/loadsheet.toml /var/lib/loadsheet/
cp {CONTAINED}/samples/acme_orders_2026-03.xlsx /var/lib/loadsheet/inbox/
chown -R loadsheet: /var/lib/loadsheet
chmod 600 /var/lib/loadsheet/loadsheet.toml
systemctl daemon-reload
systemctl start loadsheet-watch.service && echo WATCH=$(systemctl show --value -p ActiveState loadsheet-watch.service)
for second in $(seq 60); do ls /var/lib/loadsheet/outbox/*/run.json && break; sleep 1; done 2>/dev/null
echo WATCHED=$(ls /var/lib/loadsheet/outbox/*/run.json 2>/dev/null | wc -l)
systemctl stop loadsheet-watch.service
echo STOPPED=$(systemctl show --value -p Result loadsheet-watch.service)
cp {CONTAINED}/samples/order_updates.csv {CONTAINED}/samples/harbour_two_sheets.xlsx /var/lib/loadsheet/inbox/
chown loadsheet: /var/lib/loadsheet/inbox/*
sleep 2
systemctl start loadsheet.service && echo RUN=$(systemctl show --value -p Result loadsheet.service)
systemctl start loadsheet.timer && echo TIMER=$(systemctl show --value -p ActiveState loadsheet.timer)
systemctl start loadsheet-notify@loadsheet.service
journalctl -u loadsheet-notify@loadsheet --no-pager -o cat
tar -C /var/lib/loadsheet -cf {CONTAINED}/outcome.tar outbox
ls -l /var/lib/loadsheet/inbox
echo OVER=yes
systemctl poweroff
"""
EXPECTED = {"WATCH": "active", "WATCHED": "1", "STOPPED": "success", "RUN": "success", "TIMER": "active", "OVER": "yes"}


@contextmanager
def machine():
    """The root of a copy of this machine, in memory: what is written there stays there."""
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("systemd-nspawn") is None:
        assert os.environ.get("CI") is None or os.geteuid() != 0, "CI installs systemd-container"
        pytest.skip("needs root and systemd-nspawn")
    memory = Path(tempfile.mkdtemp(prefix="booted-"))
    layers = f"lowerdir=/,upperdir={memory}/upper,workdir={memory}/work"
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, memory, ignore_errors=True)
        for place, *words in ((memory, "tmpfs", "size=1g"), (memory / "root", "overlay", layers)):
            kind, options = words
            mount = ["mount", "-t", kind, "-o", options, kind, place]
            if subprocess.run(mount, capture_output=True, check=False).returncode:
                pytest.skip("no copy of this machine can be made here (overlay)")
            stack.callback(subprocess.run, ["umount", "--lazy", place], check=False)
            for name in ("upper", "work", "root"):
                (memory / name).mkdir(exist_ok=True)
        yield memory / "root"


def furnished(root, units, folder):
    """Put into the copy what is to be tried: units that were made for a house in a folder; returns the place in it."""
    inside, systemd = root / CONTAINED.lstrip("/"), root / "etc/systemd/system"
    shutil.copytree(ROOT / "src", inside / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "mappings", inside / "mappings")
    shutil.copytree(ROOT / "inbox_samples", inside / "samples")
    shutil.rmtree(systemd, ignore_errors=True)
    (systemd / "tried.target.wants").mkdir(parents=True)
    (systemd / "tried.target.wants" / "tried.service").symlink_to("../tried.service")
    (inside / "units").mkdir()
    program = root / "usr/local/bin/loadsheet"
    settings = 'arrival.settle_s = 0.5\ninbox = "/var/lib/loadsheet/inbox"\n'
    for path, text in {
        inside / "job": WORK,
        inside / "loadsheet.toml": settings,
        program: PROGRAM,
        systemd / "tried.target": TARGET,
        systemd / "tried.service": JOB,
        root / "etc/machine-id": "",
    }.items():
        path.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    for above in {*Path(sys.executable).resolve().parents, *Path(sys.executable).parents} - {Path("/")}:
        (root / str(above).lstrip("/")).chmod(0o755)  # the unit's user must reach it
    for unit in units.iterdir():
        text = re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/usr/local/bin/loadsheet", unit.read_text(encoding="utf-8"))
        (inside / "units" / unit.name).write_text(text.replace(str(folder), "/var/lib/loadsheet"), encoding="utf-8")
    return inside


def boot(root):
    words = ["systemd-nspawn", "--directory", str(root)]
    words += [
        "--private-network",
        "--register=no",
        "--keep-unit",
        "--console=pipe",
        "--boot",
        "--",
        "--unit=tried.target",
    ]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(words, text=True, **pipes) as container:
        try:
            return container.communicate(timeout=150)[0]
        except subprocess.TimeoutExpired:
            container.terminate()
            return container.communicate(timeout=30)[0]


def test_under_systemd_the_watch_and_the_run_do_their_work_behind_all_that_the_units_forbid(deployed, tmp_path):
    folder = tmp_path / "house"
    made = deployed("systemd", "--timezone", "Europe/Berlin", folder=folder, config="[assumptions]\n")
    with machine() as root:
        inside = furnished(root, made, folder)
        said = boot(root)
        if not (inside / "log").exists():
            pytest.skip(f"systemd cannot be booted here: {said[-500:]}")
        log = (inside / "log").read_text(encoding="utf-8", errors="replace")
        subprocess.run(["tar", "-C", tmp_path, "-xf", inside / "outcome.tar"], check=True)
    found = dict(line.split("=", 1) for line in log.splitlines() if line.split("=")[0] in EXPECTED)
    assert found == EXPECTED, log
    results = {path.name.split(".")[0] for path in (tmp_path / "outbox").rglob("*.results.*")}
    assert results >= {"acme_orders_2026-03", "harbour_two_sheets", "order_updates"}, log
    assert "no address for notices is set" in log, "the unit that reports failures reached the doctor"
