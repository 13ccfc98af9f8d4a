"""The start script of the image: what it gives to `coterie serve`, and what that makes of it.

The Dockerfile and the Testcontainers modules say the same names as the script.
"""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from coterie.server.config.config import Config
from coterie.server.config.place import PlaceOptions, decide_place
from tests.live.deadlines import eventually

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "container" / "start-broker.sh"
MODULES = ROOT / "container" / "testcontainers"
# Stands for the broker: it prints its arguments and then its environment, a line for each.
SHOWS = "#!/bin/sh\nprintf '%s\\n' \"$@\" --\nexec env\n"
LIMIT_S = 60.0


class Start:
    """A start of the image with these variables, in which `coterie` shows what it is given."""

    def __init__(self, directory: Path, *arguments: str, **variables: str) -> None:
        for name, text in {"coterie": SHOWS, "hostname": "#!/bin/sh\necho f00d\n"}.items():
            (directory / name).write_text(text)
            (directory / name).chmod(0o755)
        self.process = subprocess.Popen(
            ["/bin/sh", str(SCRIPT), *arguments],
            env={"PATH": f"{directory}:/usr/bin:/bin", **variables},
            stdout=subprocess.PIPE,
            text=True,
        )

    def shown(self) -> tuple[list[str], dict[str, str]]:
        """Return the arguments and the environment of `coterie`."""
        output, _ = self.process.communicate(timeout=LIMIT_S)
        assert self.process.returncode == 0, output
        arguments, environment = output.split("--\n")
        return arguments.split("\n")[:-1], dict(each.split("=", 1) for each in environment.split())

    def waits(self) -> None:
        """Wait until the script waits: its pauses are a program, and `coterie` starts none."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        eventually(children.read_text, "the script waits")

    def listeners(self) -> dict[str, tuple[str, str]]:
        """Return where the broker listens, and what it advertises, by the name of the listener."""
        arguments, environment = self.shown()
        assert arguments[:2] == ["serve", "--allow-remote"]
        place = decide_place(Config.load((), environment), PlaceOptions(allow_remote=True))
        return {each.name: (str(each.address), str(each.advertised)) for each in place.listeners}


def test_clients_of_both_sides_are_given_an_address_of_theirs(tmp_path: Path) -> None:
    assert Start(tmp_path).listeners() == {
        "HOST": ("0.0.0.0:9092", "localhost:9092"),
        "NETWORK": ("0.0.0.0:19092", "f00d:19092"),
    }


def test_addresses_may_be_said(tmp_path: Path) -> None:
    said = {"COTERIE_ADVERTISE": "localhost:5000", "COTERIE_ADVERTISE_NETWORK": "broker:1"}
    shown = Start(tmp_path, **said).listeners()
    assert [each for _, each in shown.values()] == ["localhost:5000", "broker:1"]


def test_listeners_of_the_user_replace_both(tmp_path: Path) -> None:
    said = {
        "COTERIE_LISTENERS": "PLAINTEXT://0.0.0.0:9092",
        "COTERIE_ADVERTISED_LISTENERS": "PLAINTEXT://broker:9092",
    }
    assert Start(tmp_path, **said).listeners() == {"PLAINTEXT": ("0.0.0.0:9092", "broker:9092")}


def test_it_waits_for_the_address_that_the_engine_chooses(tmp_path: Path) -> None:
    file = tmp_path / "address"
    start = Start(tmp_path, COTERIE_ADVERTISE_FILE=str(file))
    start.waits()
    (tmp_path / "new").write_text("localhost:49153")
    (tmp_path / "new").rename(file)
    assert start.listeners()["HOST"][1] == "localhost:49153"


def test_it_can_be_stopped_while_it_waits(tmp_path: Path) -> None:
    """The first process of a container ignores SIGTERM without a trap."""
    start = Start(tmp_path, COTERIE_ADVERTISE_FILE=str(tmp_path / "address"))
    start.waits()
    start.process.terminate()
    start.process.communicate(timeout=LIMIT_S)
    assert start.process.returncode == 143


def test_options_are_those_of_serve_and_other_words_a_command(tmp_path: Path) -> None:
    options = ["--config", "num.partitions=3"]
    assert Start(tmp_path, *options).shown()[0] == ["serve", "--allow-remote", *options]
    assert Start(tmp_path, "coterie", "topics", "list").shown()[0] == ["topics", "list"]


def test_variables_of_the_script_do_not_reach_the_broker(tmp_path: Path) -> None:
    """One is an option for a single listener, the others are no settings, which it would refuse."""
    (tmp_path / "address").write_text("a:1")
    said: dict[str, Any] = {
        "COTERIE_ADVERTISE": "a:1",
        "COTERIE_ADVERTISE_NETWORK": "b:1",
        "COTERIE_ADVERTISE_FILE": str(tmp_path / "address"),
    }
    _, environment = Start(tmp_path, **said).shown()
    assert not set(environment) & set(said)


@pytest.mark.parametrize(
    "module",
    [
        "python/coterie_container.py",
        "java/src/main/java/coterie/testcontainers/CoterieContainer.java",
    ],
)
def test_modules_say_the_names_and_ports_of_the_script(module: str) -> None:
    text, script = (MODULES / module).read_text(), SCRIPT.read_text()
    assert set(re.findall(r'"(COTERIE_\w+)"', text)) == {"COTERIE_ADVERTISE_FILE"}
    assert "COTERIE_ADVERTISE_FILE" in script
    ports = [int(each) for each in re.findall(r"_PORT = (\d+)", text)]
    assert ports == [9092, 19092]
    assert f"EXPOSE {ports[0]} {ports[1]}" in (ROOT / "Dockerfile").read_text()
    for port in ports:
        assert f"://0.0.0.0:{port}" in script
