"""The functional tests of sarama pass, as far as a broker of one node allows.

They name the ports of a Toxiproxy and of the brokers behind it, so all are in a network of their
own. A script takes the place of `docker`, with which the tests stop a broker: it is killed, and
starts again two seconds later, because there is no other.
"""

import json
import os
from pathlib import Path

from tests.interop.go_suites import build_program, build_tests, outcomes, package_directory
from tests.interop.model import Skipped, Surroundings
from tests.interop.own_network import beside, broker_command, start_alone
from tests.interop.suites import built, judge, run_test

_MODULE = "github.com/IBM/sarama"
_VERSION = "v1.61.1"
_PACKAGE = "sarama"
# The only change: topics of one replica, because there is one broker.
_CHANGES = {"functional_test.go": ("ReplicationFactor: 3", "ReplicationFactor: 1")}
_TOXIPROXY, _TOXIPROXY_VERSION = "github.com/Shopify/toxiproxy/v2", "v2.12.0"
_CONFIG = {
    "advertised.listeners": "PLAINTEXT://127.0.0.1:29091",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
}
_PROXIES = [
    {
        "name": f"kafka{number}",
        "listen": f"127.0.0.1:{29090 + number}",
        "upstream": "127.0.0.1:9092",
    }
    for number in range(1, 6)
]
# The broker ends with the shell, which the kernel kills with this program.
_SERVE = """cd {folder}
while :; do
    setpriv --pdeathsig KILL -- "$@" & echo $! > broker.pid
    wait $!
    sleep 2
done
"""
_DOCKER = """#!/bin/sh
case "$2" in
stop) kill -9 $(cat {folder}/broker.pid) ;;
logs) cat {folder}/sarama-broker.log ;;
esac
"""
_LIMIT_S = 1500.0
_SEVERAL_BROKERS = "several brokers"
_EXPLAINED = {
    "TestConsumerFetchFollowerFailover": _SEVERAL_BROKERS,
    "TestFuncAdminDescribeLogDirs": _SEVERAL_BROKERS,
    "TestFuncAdminAlterPartitionReassignments": _SEVERAL_BROKERS,
    "TestFuncAdminListConsumerGroupOffsets": _SEVERAL_BROKERS,
}


def run(around: Surroundings) -> None:
    """Build the tests and Toxiproxy, and run them."""
    if not around.owns_broker:
        raise Skipped("the tests name the ports of their broker")
    folder = built(f"sarama-{_VERSION}", _build)
    toxiproxy = built(
        f"toxiproxy-{_TOXIPROXY_VERSION}",
        lambda new: build_program(
            new, _TOXIPROXY, _TOXIPROXY_VERSION, f"{_TOXIPROXY}/cmd/server", "toxiproxy"
        ),
    )
    command = broker_command(around, _CONFIG)
    serve = _SERVE.format(folder=around.children.directory)
    broker = start_alone(around, "sarama-broker", ["sh", "-c", serve, "sh", *command])
    broker.wait_for_line("ready on")
    proxies = around.directory / "proxies.json"
    proxies.write_text(json.dumps(_PROXIES), encoding="utf-8")
    proxy = beside(broker, [str(toxiproxy / "toxiproxy"), "-config", str(proxies)])
    environment = {**os.environ, "LOG_LEVEL": "info"}
    around.children.start("toxiproxy", proxy, environment).wait_for_line("29095")
    docker = around.directory / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(_DOCKER.format(folder=around.children.directory), encoding="utf-8")
    docker.chmod(0o755)
    printed = run_test(
        beside(broker, [str(folder / _PACKAGE), "-test.v", f"-test.timeout={_LIMIT_S:.0f}s"]),
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
    build_tests(folder, _MODULE, _VERSION, {_PACKAGE: _MODULE}, "functional", _CHANGES)
