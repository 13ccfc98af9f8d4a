"""One live run: the broker, the topics, the producer, the members, and the row in the store."""

import json
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from coterie import __version__
from coterie.client.errors import ClientError
from coterie.client.groups import delete_groups
from coterie.client.topics import create_topic, delete_topics, describe_topics
from coterie.lab.errors import WrongInput
from coterie.lab.live.clients import LiveClient, LiveRun
from coterie.lab.live.drive import Drive, Progress
from coterie.lab.live.known import client_named
from coterie.lab.live.measure import measure
from coterie.lab.live.settings import live_parameters
from coterie.lab.outcome import RunOutcome
from coterie.lab.scenario import Scenario
from coterie.lab.store import Key, Store, columns_of
from coterie.processes import Children
from coterie.protocol.topic_names import JOURNAL_TOPIC


class LiveOptions(NamedTuple):
    """What a live run may be given.

    Attributes:
        client: its name.
        machine: the machine; "" for the client's usual one.
        bootstrap, zookeeper: servers that run already; "" to start them.
        seed: of the script.
        form_s: how long the group forms; None for the time of the scenario.
        settings: settings, which come before those of the scenario.
        command_config: a file with client properties, for a broker that runs already; "" for none.
        calm_s: a group that has been calm for so long has settled.
    """

    client: str
    machine: str = ""
    bootstrap: str = ""
    zookeeper: str = ""
    seed: int = 0
    form_s: int | None = None
    settings: dict[str, Any] = {}
    command_config: str = ""
    calm_s: int = 10


class LiveResult(NamedTuple):
    """What a live run has given.

    Attributes:
        outcome: what was measured.
        seconds: how long it took.
    """

    outcome: RunOutcome
    seconds: float


def run_live(
    scenario: Scenario,
    options: LiveOptions,
    directory: Path,
    report: Callable[[str], object],
    progress: Callable[[Progress], None],
) -> LiveResult:
    """Run real processes through a scenario.

    Args:
        scenario: what is run.
        options: the rest.
        directory: a directory for logs and lines, which is made.
        report: called with a line of text for the user.
        progress: called several times a second.

    Raises:
        WrongInput: a name, a setting, a step or a server is wrong, or a process fails.
        PartMissing: something can't be fetched.
        KeyboardInterrupt: the user has interrupted it; no process is left.
    """
    began_s = time.monotonic()
    client = client_named(options.client)
    machine = options.machine or client.machines[0]
    if machine not in client.machines:
        raise WrongInput(
            f"The client '{options.client}' can't run '{machine}':"
            f" it has {', '.join(client.machines)}."
        )
    settings = {**scenario.settings, **options.settings}
    parameters = live_parameters(settings)
    if options.command_config:
        _check_login(client, options)
    client.check()
    (directory / "lines").mkdir(parents=True)
    with Children(directory) as children:
        run = LiveRun(scenario, machine, parameters, directory, children, report)
        run.bootstrap, run.zookeeper = options.bootstrap, options.zookeeper
        run.command_config = options.command_config or None
        form_s = scenario.form_s if options.form_s is None else options.form_s
        drive = Drive(run, client, options.seed, form_s, options.calm_s)
        try:
            if client.topics_in_broker:
                _prepare_broker(run, drive)
            client.prepare(run)
            if client.topics_in_broker and client.produces:
                _produce(run)
            client.begin(run)
        except ClientError as error:
            raise WrongInput(str(error)) from None
        try:
            lines, what = drive.finish(progress)
        finally:
            if options.bootstrap and client.topics_in_broker:
                _clean(run)
    settings |= {"client": options.client, "software": client.software, "broker": run.broker}
    what = what._replace(settings=settings)
    outcome = measure(lines, what, parameters.rate, client.replay)
    return LiveResult(outcome, time.monotonic() - began_s)


def _check_login(client: LiveClient, options: LiveOptions) -> None:
    """Check that a client can log in.

    Raises:
        WrongInput: it can't, or the broker is one that the lab starts.
    """
    if not options.bootstrap:
        raise WrongInput(
            "--command-config is for a broker that runs: name it with --bootstrap-server."
        )
    if not client.logs_in:
        raise WrongInput(
            f"The client '{options.client}' can't log in: choose a library of Python, or leave"
            " out --command-config."
        )


def _prepare_broker(run: LiveRun, drive: Drive) -> None:
    """Start a broker if the user gave none, and create the topics.

    Raises:
        ClientError: no broker responds, or it refuses the topics.
    """
    if not run.bootstrap:
        drive.servers.serve(on_disk=drive.restarts_broker)
    with run.cluster() as cluster:
        # A broker that runs already may have the topics and groups of other runs.
        mark = f"{time.time_ns() // 1_000_000:x}"
        run.counts = {f"lab-{mark}-{name}": count for name, count in run.counts.items()}
        run.group = f"lab-{mark}"
        for name, count in run.counts.items():
            made = create_topic(cluster, name, count, 1)
            if made.error:
                raise WrongInput(f"The broker refuses the topic {name}: {made.message}.")


def _clean(run: LiveRun) -> None:
    """Remove the group and the topics from a broker that goes on running."""
    run.children.stop(run.children.all)
    with suppress(ClientError), run.cluster() as cluster:
        # Only Coterie has a journal, from the first member on.
        (journal,) = describe_topics(cluster, [JOURNAL_TOPIC])
        run.broker = "kafka" if journal.error else "coterie"
        delete_groups(cluster, [run.group])
        delete_topics(cluster, run.counts)


def _produce(run: LiveRun) -> None:
    options = {
        "bootstrap": run.bootstrap,
        "command_config": run.command_config,
        "counts": run.counts,
        "rate": run.parameters.rate,
        "lines": str(run.lines / "producer.jsonl"),
    }
    module = "coterie.lab.live.producer"
    run.children.start("producer", [sys.executable, "-m", module, json.dumps(options)])


# -- the store -------------------------------------------------------------------------------------


def live_store(directory: str) -> Store:
    """Return the store of a directory of live runs, which is made if it does not exist.

    Raises:
        WrongInput: the directory has something else.
    """
    store = Store(directory)
    store.begin(json.dumps({"plan": "live runs", "version": __version__}, indent=1))
    return store


def free_seed(store: Store, scenario: Scenario, client: str, machine: str) -> int:
    """Return the lowest seed of which the store has no run of the same kind."""
    machine = machine or client_named(client).machines[0]
    taken = {
        row["seed"]
        for row in store.runs()
        if (row["scenario"], row["machine"]) == (scenario.name, machine)
        and ("client", client) in row["settings"]
    }
    return min(set(range(len(taken) + 1)) - taken)


def add_to_store(store: Store, result: LiveResult) -> None:
    """Store a run and its ownership over time."""
    outcome = result.outcome
    settings = tuple(sorted((name, str(value)) for name, value in outcome.settings.items()))
    identity = Key(
        outcome.scenario, outcome.machine, outcome.members, outcome.partitions, outcome.seed,
        settings,
    )._asdict()  # fmt: skip
    row = {
        **identity,
        "evidence": outcome.evidence,
        "code_version": __version__,
        "violation": None,
        **columns_of(outcome),
        "wall_ms": result.seconds * 1_000,
    }
    store.add([row], [{**identity, **each._asdict()} for each in outcome.intervals])
