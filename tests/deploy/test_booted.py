"""The units under a real systemd: booted in a container of its own over a copy of this machine, with nothing of it written to.

A system call that a filter forbids, a file in /proc that is hidden, a folder that may not be written: what a unit takes from a program
shows only there. Needs root and systemd-nspawn.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
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
    mounted = []
    try:
        for words in (
            ["-t", "tmpfs", "-o", "size=1g", "tmpfs", memory],
            [
                "-t",
                "overlay",
                "-o",
                f"lowerdir=/,upperdir={memory}/upper,workdir={memory}/work",
                "overlay",
                memory / "root",
            ],
        ):
            if subprocess.run(["mount", *words], capture_output=True, check=False).returncode:
                pytest.skip("no copy of this machine can be made here (overlay)")
            mounted.append(words[-1])
            for name in ("upper", "work", "root"):
                (memory / name).mkdir(exist_ok=True)
        yield memory / "root"
    finally:
        for place in reversed(mounted):
            subprocess.run(["umount", "--lazy", place], check=False)
        shutil.rmtree(memory, ignore_errors=True)


def furnished(root):
    """Put into the copy what is to be tried; returns the folder in it."""
    inside = root / CONTAINED.lstrip("/")
    inside.mkdir(parents=True)
    shutil.copytree(ROOT / "src", inside / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "mappings", inside / "mappings")
    shutil.copytree(ROOT / "inbox_samples", inside / "samples")
    (inside / "job").write_text(WORK, encoding="utf-8")
    (inside / "loadsheet.toml").write_text(
        'arrival.settle_s = 0.5\ninbox = "/var/lib/loadsheet/inbox"\n', encoding="utf-8"
    )
    (root / "usr/local/bin/loadsheet").write_text(PROGRAM, encoding="utf-8")
    (root / "usr/local/bin/loadsheet").chmod(0o755)
    for folder in (
        *Path(sys.executable).resolve().parents,
        *Path(sys.executable).parents,
    ):  # the unit's user must reach it
        (root / str(folder).lstrip("/")).chmod(0o755) if folder != Path("/") else None
    units = root / "etc/systemd/system"
    shutil.rmtree(units, ignore_errors=True)
    (units / "tried.target.wants").mkdir(parents=True)
    (units / "tried.target").write_text(TARGET, encoding="utf-8")
    (units / "tried.service").write_text(JOB, encoding="utf-8")
    (units / "tried.target.wants" / "tried.service").symlink_to("../tried.service")
    (root / "etc/machine-id").unlink(missing_ok=True)
    (root / "etc/machine-id").touch()
    return inside


def boot(root):
    words = [
        "systemd-nspawn",
        "--directory",
        root,
        "--private-network",
        "--register=no",
        "--keep-unit",
        "--console=pipe",
        "--boot",
    ]
    with subprocess.Popen(
        [*words, "--", "--unit=tried.target"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as container:
        try:
            return container.communicate(timeout=150)[0]
        except subprocess.TimeoutExpired:
            container.terminate()
            return container.communicate(timeout=30)[0]


def test_under_systemd_the_watch_and_the_run_do_their_work_behind_all_that_the_units_forbid(deployed, tmp_path):
    folder = tmp_path / "house"
    config = "[assumptions]\n"
    made = deployed("systemd", "--timezone", "Europe/Berlin", folder=folder, config=config)
    with machine() as root:
        inside = furnished(root)
        (inside / "units").mkdir()
        for unit in made.iterdir():
            text = unit.read_text(encoding="utf-8")
            (program,) = {
                line.split()[0].removeprefix("ExecStart=")
                for line in text.splitlines()
                if line.startswith("ExecStart=")
            } or {""}
            moved = text.replace(str(folder), "/var/lib/loadsheet").replace(program or "\0", "/usr/local/bin/loadsheet")
            (inside / "units" / unit.name).write_text(moved, encoding="utf-8")
        said = boot(root)
        if not (inside / "log").exists():
            pytest.skip(f"systemd cannot be booted here: {said[-500:]}")
        log = (inside / "log").read_text(encoding="utf-8", errors="replace")
        subprocess.run(["tar", "-C", tmp_path, "-xf", inside / "outcome.tar"], check=True)
    told = dict(line.split("=", 1) for line in log.splitlines() if line.split("=")[0] in EXPECTED)
    assert told == EXPECTED, log
    results = {path.name for path in (tmp_path / "outbox").rglob("*.results.*")}
    assert {name.split(".")[0] for name in results} >= {"acme_orders_2026-03", "harbour_two_sheets", "order_updates"}, (
        log
    )
    assert "no address for notices is set" in log, "the unit that tells of failures reached the doctor"
