"""The audit of packages, which fails for a known vulnerability and says when it could not look; and the man pages."""

import importlib.util
import json
import runpy
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import click
import pytest

from loadsheet.cli import COMMANDS, loadsheet

ROOT = Path(__file__).parents[2]


@contextmanager
def service(known, status=200):
    """A service of vulnerabilities that speaks OSV: package name to the versions in which a hole was mended."""

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name = asked["package"]["name"]
            hole = {"id": "GHSA-test", "summary": "a hole", "published": "2026-01-01T00:00:00Z", "affected": [
                {"package": {"name": name, "ecosystem": "PyPI"}, "ranges": [
                    {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": known.get(name)}]}]}]}  # fmt: skip
            body = json.dumps({"vulns": [hole]} if name in known else {}).encode()
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture
def packages(tmp_path):
    """A folder in which two packages are installed."""
    for name in ("sound", "holey"):
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    return tmp_path


def audit(folder, url):
    if importlib.util.find_spec("pip_audit") is None:
        pytest.skip("pip-audit is not installed here (the extra ship; CI's own audit has it)")
    words = [folder, "--vulnerability-service", "osv", "--osv-url", url, "--cache-dir", folder / "cache"]
    command = [sys.executable, ROOT / ".ci" / "audit.py", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_known_vulnerability_fails_the_audit_and_is_named_with_its_cure(packages):
    with service({"holey": "1.1"}) as url:
        done = audit(packages, url)
    assert done.returncode == 1, done.stderr
    assert "vulnerable: holey 1.0: GHSA-test (mended in 1.1)" in done.stdout
    assert "audited: 2 of 2 packages, 1 with known vulnerabilities" in done.stdout


def test_a_service_that_cannot_be_reached_is_said_and_is_no_failure(packages):
    """No known vulnerability is reported with the number of packages."""
    with service({}) as url:
        done = audit(packages, url)
    assert (done.returncode, done.stdout) == (0, "audited: 2 of 2 packages, 0 with known vulnerabilities\n")
    shutil.rmtree(packages / "cache", ignore_errors=True)
    done = audit(packages, url)
    assert done.returncode == 0
    assert done.stderr.startswith("not audited: ")
    assert "audited:" not in done.stdout


def test_every_command_has_a_man_page_with_its_options(tmp_path):
    runpy.run_path(ROOT / ".ci" / "man.py")["main"](tmp_path)
    context = click.Context(loadsheet)
    for name in COMMANDS:
        command = loadsheet.get_command(context, name)
        text = (tmp_path / f"loadsheet-{name}.1").read_text(encoding="utf-8").replace("\\-", "-")
        assert text.startswith(".TH")
        for option in command.params:
            assert isinstance(option, click.Argument) or option.opts[0] in text, (name, option.opts)
    first = (tmp_path / "loadsheet.1").read_text(encoding="utf-8").replace("\\-", "-")
    assert [name for name in COMMANDS if f"loadsheet-{name}(1)" not in first and name not in first] == []
    assert (tmp_path / "loadsheet-deploy-systemd.1").is_file()
