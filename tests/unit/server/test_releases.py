"""The table of Kafka's releases, and a broker that pretends to be one of them.

Rules: [framing/older-releases].
"""

import itertools
from pathlib import Path

import pytest

from coterie.protocol.api_keys import (
    SERVED_VERSIONS,
    TELEMETRY_APIS,
    ApiKey,
    declared_versions,
)
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.protocol.messages.describe_cluster import DescribeClusterRequest
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.server.releases import Release, UnknownRelease
from tests.releases.made import PATCHES, TABLE, release_of
from tests.unit.server.manual import Client, logged, make_broker

RELEASES = [release_of(patch) for patch in PATCHES]
VERSIONS = ApiVersionsRequest(client_software_name="a", client_software_version="1")


def pretending(release: str) -> Client:
    """Return a client of a broker that pretends to be of a release."""
    broker = make_broker()
    broker.pretend(Release.named(release))
    return Client(broker)


def cells() -> dict[tuple[int, str], tuple[int, int]]:
    """Return the ranges of the table."""
    header, *rows = [line.split("\t") for line in Path(TABLE).read_text().splitlines()]
    assert header == ["key", "api", *RELEASES]
    found = {}
    for row in rows:
        assert len(row) == len(header)
        for release, cell in zip(RELEASES, row[2:], strict=True):
            if cell:
                first, last = (int(each) for each in cell.split("-"))
                found[int(row[0]), release] = first, last
    return found


class TestTable:
    def test_ranges_only_grow_until_kafka_4_drops_old_versions(self) -> None:
        table = cells()
        for key in {key for key, _ in table}:
            ranges = [table.get((key, release)) for release in RELEASES]
            present = [each for each in ranges if each is not None]
            assert all(0 <= first <= last for first, last in present)
            # UpdateMetadata and others of the brokers alone end with ZooKeeper.
            assert all(one[1] <= two[1] for one, two in itertools.pairwise(present)), key
            for (_, before), (release, after) in itertools.pairwise(
                zip(RELEASES, ranges, strict=True)
            ):
                if before is not None and after is not None and before[0] != after[0]:
                    assert release in ("0.11", "1.0", "2.0", "4.0", "4.1"), (key, release)

    def test_every_api_of_ours_is_there_under_its_name(self) -> None:
        names = {
            int(row.split("\t")[0]): row.split("\t")[1]
            for row in Path(TABLE).read_text().splitlines()[1:]
        }
        assert {api: names[api] for api in ApiKey} == {api: api.kafka_name for api in ApiKey}

    def test_no_release_has_a_version_of_ours_that_is_not_declared(self) -> None:
        for api in SERVED_VERSIONS:
            first, last = declared_versions(api)
            ranges = [found for (key, _), found in cells().items() if key == api]
            assert first == min(found[0] for found in ranges), api
            # Version 3 of DeleteGroups is that of Kafka 4.4.
            assert last == max(found[1] for found in ranges) + (api is ApiKey.DELETE_GROUPS), api

    def test_the_newest_one_serves_what_we_serve(self) -> None:
        assert Release.named(RELEASES[-1]).versions == {
            **SERVED_VERSIONS,
            ApiKey.DELETE_GROUPS: (0, 2),
        }


class TestNames:
    def test_releases_have_an_order(self) -> None:
        numbers = [Release.named(name).number for name in RELEASES]
        assert numbers == sorted(numbers)

    @pytest.mark.parametrize("patch", PATCHES)
    def test_a_patch_is_its_release(self, patch: str) -> None:
        assert Release.named(patch).name == release_of(patch)

    @pytest.mark.parametrize("name", ["", "2", "2.88", "0.10", "0.9", "2.8.", "2.8.x", "latest"])
    def test_unknown_one_is_refused_with_the_known_ones(self, name: str) -> None:
        with pytest.raises(UnknownRelease) as refused:
            Release.named(name)
        assert str(refused.value) == (
            f"'{name}' is no release of Kafka; choose one of {', '.join(RELEASES)}"
        )


class TestServed:
    @pytest.mark.parametrize("release", RELEASES)
    def test_versions_are_those_of_the_table(self, release: str) -> None:
        client = pretending(release)
        answer = client.call(VERSIONS, 0)
        table = cells()
        expected = {api: table[api, release] for api in SERVED_VERSIONS if (api, release) in table}
        # Kafka announces these only with a receiver of metrics [telemetry/counted].
        for api in TELEMETRY_APIS:
            expected.pop(api, None)
        if expected[ApiKey.PRODUCE][0] == 3:
            expected[ApiKey.PRODUCE] = 0, expected[ApiKey.PRODUCE][1]
        assert {
            ApiKey(key.api_key): (key.min_version, key.max_version) for key in answer.api_keys
        } == expected

    @pytest.mark.parametrize("release", ["0.10.0", "2.3", "2.4", "3.9"])
    def test_unknown_version_of_api_versions_is_answered_in_version_0(self, release: str) -> None:
        client = pretending(release)
        frame = (18).to_bytes(2) + (9).to_bytes(2) + (7).to_bytes(4) + b"\0\1x"
        client.connection.data_received(len(frame).to_bytes(4) + frame)
        (answer,) = client.transport.written
        response = ApiVersionsResponse.decode(answer[8:], 0)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        last = Release.named(release).versions[ApiKey.API_VERSIONS][1]
        own = [(key.api_key, key.min_version, key.max_version) for key in response.api_keys]
        # Since KIP-511 the answer says which versions there are.
        assert own == ([(18, 0, last)] if release in ("2.4", "3.9") else [])

    @pytest.mark.parametrize(("release", "epoch"), [("2.6", -1), ("2.7", 0), ("4.3", 0)])
    def test_features_came_with_2_7(self, release: str, epoch: int) -> None:
        assert pretending(release).call(VERSIONS, 3).finalized_features_epoch == epoch

    def test_newer_version_closes_the_connection(self) -> None:
        client = pretending("1.0")
        assert client.call(MetadataRequest(topics=[]), 5).brokers
        client.send(MetadataRequest(topics=[]), 6)
        assert client.transport.closed
        (line,) = logged(client.broker, "connection closed")
        assert "Metadata version 6 is not served, only 0 to 5" in line["reason"]

    def test_later_api_closes_the_connection(self) -> None:
        client = pretending("2.7")
        client.send(DescribeClusterRequest(include_cluster_authorized_operations=False), 0)
        assert client.transport.closed
        (line,) = logged(client.broker, "connection closed")
        assert "DescribeCluster is not served" in line["reason"]

    def test_old_versions_are_not_served_by_default(self) -> None:
        client = Client(make_broker())
        client.send(MetadataRequest(topics=[]), 0)
        assert not client.transport.closed
        frame = (1).to_bytes(2) + (3).to_bytes(2) + (7).to_bytes(4) + b"\0\1x" + bytes(20)
        client.connection.data_received(len(frame).to_bytes(4) + frame)
        assert client.transport.closed
