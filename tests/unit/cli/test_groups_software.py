"""The client library of members in `groups describe --members --verbose`.

Rules: [journal/members].
"""

from coterie import __version__
from coterie.client.cluster import Cluster
from coterie.client.software import Software, client_software
from coterie.testing import Broker
from tests.live.deadlines import eventually
from tests.unit.cli.command import cells_of, rows_of, run
from tests.unit.cli.live_member import join


def members(broker: Broker, *options: str) -> tuple[str, ...]:
    address = "--bootstrap-server", broker.bootstrap_servers
    return ("groups", "describe", "g", "--members", *options, *address)


def written(cluster: Cluster, *member_ids: str) -> dict[str, Software]:
    """Return the software of members as soon as the journal has it; it is written a little late."""
    return eventually(lambda: client_software(cluster, member_ids), "facts of the journal")


def test_software_of_members_is_in_the_journal() -> None:
    with Broker(topics={"t": 2}) as broker:
        with Cluster(broker.bootstrap_servers) as cluster:
            member_id = join(cluster, t=[0, 1])
            found = written(cluster, member_id, "other")
            assert found == {member_id: Software("coterie", __version__)}
        header, line = cells_of(run(None, *members(broker, "--verbose")))
        (row,) = rows_of(run(None, *members(broker, "--verbose", "--json")))
        (plain,) = rows_of(run(None, *members(broker, "--json")))
    assert header[-3:] == ["SUBSCRIPTION", "SOFTWARE", "VERSION"]
    assert line[-3:] == ["t", "coterie", __version__]
    assert (row["client_software"], row["client_software_version"]) == ("coterie", __version__)
    assert row["subscription"] == ["t"]
    # The journal is read for --verbose only.
    assert plain["client_software"] is None


def test_restarted_static_member_has_the_software_of_its_new_process() -> None:
    with Broker(topics={"t": 2}) as broker, Cluster(broker.bootstrap_servers) as cluster:
        join(cluster, instance="i1", t=[0, 1])
        again = join(cluster, instance="i1", t=[0, 1])
        assert written(cluster, again)[again].name == "coterie"


def test_without_a_journal_the_column_is_left_out() -> None:
    with Broker(topics={"t": 2}, config={"journal.enable": "false"}) as broker:
        with Cluster(broker.bootstrap_servers) as cluster:
            join(cluster, t=[0, 1])
        result = run(None, *members(broker, "--verbose"))
    assert cells_of(result)[0][-1] == "SUBSCRIPTION"
