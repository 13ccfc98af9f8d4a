"""The functional tests of sarama pass, with five brokers as in its own environment.

They name the ports of a Toxiproxy and of the brokers behind it, so all are in a network of their
own. A script takes the place of `docker`, with which the tests stop and start a broker.
"""

import json
import os
import sys
from pathlib import Path

from tests.interop import commanded_brokers
from tests.interop.go_suites import build_program, build_tests, outcomes, package_directory
from tests.interop.model import Skipped, Surroundings
from tests.interop.own_network import beside, start_alone
from tests.interop.suites import built, judge, run_test

_MODULE = "github.com/IBM/sarama"
_VERSION = "v1.61.1"
_PACKAGE = "sarama"
_PROGRAM = Path(commanded_brokers.__file__)
_TOXIPROXY, _TOXIPROXY_VERSION = "github.com/Shopify/toxiproxy/v2", "v2.12.0"
_BROKERS = 5
# As in its docker-compose.yml and, for log.min.isr, in the server.properties that comes with Kafka:
# a transaction has two brokers, and a test stops one of them.
_CONFIG = {
    "advertised.listeners": "PLAINTEXT://127.0.0.1:29091",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "2",
}
_PROXIES = [
    {
        "name": f"kafka{number}",
        "listen": f"127.0.0.1:{29090 + number}",
        "upstream": f"127.0.0.1:{9091 + number}",
    }
    for number in range(1, _BROKERS + 1)
]
_DOCKER = """#!{python}
import pathlib, socket, sys
verb, service = sys.argv[2], sys.argv[-1]
if verb == "logs":
    print(pathlib.Path("{log}").read_text())
else:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect("{commands}")
        connection.sendall(f"{{verb}} {{service.removeprefix('kafka-')}}\\n".encode())
        answer = connection.makefile().readline()
        print(answer)
        sys.exit(answer != "done\\n")
"""
_EXPLAINED = {
    "TestFuncConsumerGroupCooperative": "waits for fetches as long as its rebalance timeout"
}
_LIMIT_S = 1500.0


def run(around: Surroundings) -> None:
    """Build the tests and Toxiproxy, and run them."""
    if not around.owns_broker:
        raise Skipped("the tests name the ports of their broker")
    folder = built(f"sarama-{_VERSION}-functional", _build)
    toxiproxy = built(
        f"toxiproxy-{_TOXIPROXY_VERSION}",
        lambda new: build_program(
            new, _TOXIPROXY, _TOXIPROXY_VERSION, f"{_TOXIPROXY}/cmd/server", "toxiproxy"
        ),
    )
    commands = around.directory / "commands"
    command = ["env", f"COMMANDS={commands}", sys.executable, str(_PROGRAM), "serve"]
    command += ["--brokers", str(_BROKERS), "--data-dir", str(around.directory / "data")]
    command += [f"--config={name}={value}" for name, value in _CONFIG.items()]
    brokers = start_alone(around, "sarama-brokers", command)
    brokers.wait_for_line("ready on")
    proxies = around.directory / "proxies.json"
    proxies.write_text(json.dumps(_PROXIES), encoding="utf-8")
    proxy = beside(brokers, [str(toxiproxy / "toxiproxy"), "-config", str(proxies)])
    environment = {**os.environ, "LOG_LEVEL": "info"}
    around.children.start("toxiproxy", proxy, environment).wait_for_line("29095")
    docker = around.directory / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(
        _DOCKER.format(
            python=sys.executable,
            log=around.children.directory / "sarama-brokers.log",
            commands=commands,
        ),
        encoding="utf-8",
    )
    docker.chmod(0o755)
    printed = run_test(
        beside(brokers, [str(folder / _PACKAGE), "-test.v", f"-test.timeout={_LIMIT_S:.0f}s"]),
        package_directory(folder, _PACKAGE),
        around.directory / "sarama.log",
        {
            "PATH": f"{docker.parent}:{os.environ['PATH']}",
            "TOXIPROXY_ADDR": "http://127.0.0.1:8474",
            "KAFKA_VERSION": "4.3.1",
        },
        _LIMIT_S + 10,
    )
    judge(around, f"sarama {_VERSION}", outcomes(printed), _EXPLAINED)


def _build(folder: Path) -> None:
    build_tests(folder, _MODULE, _VERSION, {_PACKAGE: _MODULE}, "functional")
