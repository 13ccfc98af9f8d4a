"""The installed wheel: it brings one name and hides no module of the project that uses it."""

import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from release.files import run
from release.trial import installed as installed_in

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 300

# A project with packages of the names that our repository has at its top, and a service that uses
# them beside a broker of its own and a consumer.
PROJECT = {
    "protocol/__init__.py": "NAME = 'their protocol'\n",
    "protocol/records.py": "NAME = 'their records'\n",
    "storage/__init__.py": "NAME = 'their storage'\n",
    "storage/log.py": "NAME = 'their log'\n",
    "coordinator/__init__.py": "NAME = 'their coordinator'\n",
    "assignors/__init__.py": "NAME = 'their assignors'\n",
    "service.py": r"""
import json
import re
import subprocess
import sys

import assignors
import coordinator
import protocol.records
import storage.log

names = [protocol.records.NAME, storage.log.NAME, coordinator.NAME, assignors.NAME]
assert names == ["their records", "their log", "their coordinator", "their assignors"], names

command = [sys.executable, "-m", "coterie"]
server = subprocess.Popen(
    [*command, "serve", "--port", "0", "--data-dir", ":memory:",
     "--config", "group.initial.rebalance.delay.ms=0"],
    stdout=subprocess.PIPE, text=True,
)
try:
    bootstrap = re.search(r"127\.0\.0\.1:\d+", server.stdout.readline())[0]

    def cli(*arguments):
        done = subprocess.run(
            [*command, *arguments, "--bootstrap-server", bootstrap],
            capture_output=True, text=True, timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    cli("topics", "create", "orders", "--partitions", "2")

    import kafka

    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(10):
        producer.send("orders", b"%d" % number)
    producer.close()
    consumer = kafka.KafkaConsumer(
        "orders", group_id="billing", bootstrap_servers=bootstrap,
        auto_offset_reset="earliest", consumer_timeout_ms=20_000,
    )
    seen = [next(consumer).value for _ in range(10)]
    consumer.commit()
    consumer.close()
    assert sorted(seen) == [b"%d" % number for number in range(10)], seen
    groups = json.loads(cli("groups", "list", "--json"))
    assert "billing" in json.dumps(groups), groups
finally:
    server.terminate()
    server.wait(30)
print("the project works")
""",
}


class Installed(NamedTuple):
    """A virtual environment with the wheel in it, and the project beside it."""

    python: Path
    project: Path
    wheel: Path


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Build the wheel, install it and one client into an empty environment, write the project."""
    directory = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    run(*pip, "wheel", "--no-deps", "--wheel-dir", str(directory), str(ROOT))
    (wheel,) = directory.glob("coterie-*.whl")
    python = installed_in(wheel, directory / "venv")
    project = directory / "project"
    for name, text in PROJECT.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    return Installed(python, project, wheel)


@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S)
@pytest.mark.xdist_group("installed wheel")
class TestInstalledWheel:
    def test_it_contains_one_package(self, installed: Installed) -> None:
        with zipfile.ZipFile(installed.wheel) as archive:
            names = archive.namelist()
        assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"coterie"}
        for part in ("protocol", "storage", "assignors", "coordinator"):
            checkout = {path.name for path in (ROOT / "coterie" / part).glob("*.py")}
            inside = {name.split("/")[2] for name in names if name.startswith(f"coterie/{part}/")}
            assert checkout <= inside

    def test_only_one_importable_name_is_installed(self, installed: Installed) -> None:
        listing = (
            "import importlib.metadata as m;"
            "print(*{str(file).split('/')[0] for file in m.files('coterie')})"
        )
        names = run(str(installed.python), "-c", listing).split()
        # "..", for the command in the environment's bin directory.
        assert {name for name in names if ".dist-info" not in name} == {"coterie", ".."}

    def test_server_command_line_and_consumer_run_beside_packages_of_the_same_names(
        self, installed: Installed
    ) -> None:
        output = run(str(installed.python), "service.py", cwd=installed.project)
        assert output.endswith("the project works\n")

    def test_the_command_is_installed(self, installed: Installed) -> None:
        command = installed.python.parent / "coterie"
        assert run(str(command), "--version", cwd=installed.project).startswith("coterie")
