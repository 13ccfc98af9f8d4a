"""Features: what ApiVersions lists, and what UpdateFeatures changes; texts of Kafka 4.3.1."""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.api_versions import ApiVersionsRequest
from coterie.protocol.messages.update_features import (
    SAFE_DOWNGRADE,
    UNSAFE_DOWNGRADE,
    UPGRADE,
    UpdateFeaturesRequest,
    UpdateFeaturesRequestFeature,
)
from coterie.server.broker import Broker
from coterie.server.features import parse_levels, supported_features
from coterie.server.releases import Release
from tests.unit.server.manual import Client, make_broker, restarted

VERSIONS = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
# Served whatever else is.
METADATA = "metadata.version"
REPLICAS = "eligible.leader.replicas.version"


def listed(broker: Broker, version: int = 4) -> Any:
    return Client(broker).call(VERSIONS, version)


def finalized(broker: Broker, version: int = 4) -> dict[str, int]:
    return {
        each.name: each.max_version_level for each in listed(broker, version).finalized_features
    }


def update(
    broker: Broker, *updates: tuple[str, int, int], version: int = 1, validate_only: bool = False
) -> Any:
    features = [
        UpdateFeaturesRequestFeature(feature=name, max_version_level=level, upgrade_type=kind)
        for name, level, kind in updates
    ]
    request = UpdateFeaturesRequest(feature_updates=features, validate_only=validate_only)
    return Client(broker).call(request, version)


def test_versions_list_features_and_their_levels() -> None:
    answer = listed(make_broker())
    supported = {
        each.name: (each.min_version, each.max_version) for each in answer.supported_features
    }
    assert supported[METADATA] == (7, 30)
    assert supported[REPLICAS] == (0, 1)
    assert supported["group.version"] == (0, 1)
    assert supported["share.version"] == (0, 1)
    assert supported["streams.version"] == (0, 1)
    assert "kraft.version" not in supported
    assert all(
        each.max_version_level == each.min_version_level == supported[each.name][1]
        for each in answer.finalized_features
    )
    assert answer.finalized_features_epoch == 0


def test_version_3_lists_no_feature_whose_lowest_level_is_0() -> None:
    """[features/levels]"""
    answer = listed(make_broker(), 3)
    assert [each.name for each in answer.supported_features] == [METADATA]
    assert REPLICAS in [each.name for each in answer.finalized_features]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_change_survives_a_restart_and_raises_the_epoch(version: int) -> None:
    """[features/levels]"""
    broker = make_broker()
    kind = UPGRADE if version == 0 else SAFE_DOWNGRADE
    answer = update(broker, (REPLICAS, 0, kind), version=version)
    if version == 0:
        # Its flag for downgrades has no effect in Kafka [features/update-checks].
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        return
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    rows = [(each.feature, each.error_code, each.error_message) for each in answer.results]
    assert rows == ([(REPLICAS, 0, "NONE")] if version == 1 else [])
    again = restarted(broker, killed=True)
    assert REPLICAS not in finalized(again)
    assert listed(again).finalized_features_epoch == 1
    assert update(again, (REPLICAS, 1, UPGRADE)).error_code == ErrorCode.NONE
    assert finalized(again)[REPLICAS] == 1
    assert listed(again).finalized_features_epoch == 2


def test_a_higher_level_is_no_downgrade() -> None:
    broker = make_broker()
    update(broker, (REPLICAS, 0, SAFE_DOWNGRADE))
    assert "Can't downgrade to a newer version." in (
        update(broker, (REPLICAS, 1, SAFE_DOWNGRADE)).error_message
    )


def test_the_last_update_of_a_feature_counts() -> None:
    broker = make_broker()
    answer = update(broker, (REPLICAS, 1, UPGRADE), (REPLICAS, 0, UNSAFE_DOWNGRADE))
    assert len(answer.results) == 2
    assert REPLICAS not in finalized(broker)


def test_validation_and_equal_levels_change_nothing() -> None:
    broker = make_broker()
    update(broker, (REPLICAS, 0, SAFE_DOWNGRADE), validate_only=True)
    update(broker, (METADATA, 30, UPGRADE))
    assert update(broker).error_code == ErrorCode.NONE
    assert listed(broker).finalized_features_epoch == 0


def test_levels_of_the_start_are_stored() -> None:
    """[features/chosen-levels]"""
    broker = make_broker()
    broker.features.start_with({REPLICAS: 0})
    again = restarted(broker, killed=False)
    assert again.features.level(REPLICAS) == 0
    again.features.start_with({REPLICAS: 0})
    assert again.features.epoch == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("foo=1", "'foo' is not a feature of this broker; it has "),
        (REPLICAS, "the level must be a whole number from 0 to 1"),
        (f"{REPLICAS}=2", "the level must be a whole number from 0 to 1"),
    ],
)
def test_an_invalid_level_of_the_start_is_named(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_levels([text], supported_features())


@pytest.mark.parametrize(("release", "level"), [("2.8", 0), ("4.0", 25), ("4.2", 29), ("4.3", 30)])
def test_an_older_release_has_its_own_levels(release: str, level: int) -> None:
    broker = make_broker()
    broker.pretend(Release.named(release))
    assert finalized(broker, 3).get(METADATA, 0) == level
