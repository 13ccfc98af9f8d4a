"""Where share groups begin: what the setting may be, by Kafka 4.3.1's answers."""

import pytest

from coterie.server.config.config import Config
from coterie.server.config.keys import InvalidValue
from coterie.server.config.resource_keys import check_group_values
from coterie.server.config.share_leaders import LATEST, leader_settings, offset_reset

_SETTING = "share.auto.offset.reset"


@pytest.mark.parametrize(
    ("text", "back_ms"),
    [
        ("earliest", 0),
        ("by_duration:P1DT1H", 25 * 3_600_000),
        ("by_duration:pt1h", 3_600_000),
        ("by_duration:+PT1H", 3_600_000),
        ("by_duration:-PT-1H", 3_600_000),
        ("by_duration:PT2H-90M", 1_800_000),
        ("by_duration:PT1,5S", 1_500),
        ("by_duration:PT1.S", 1_000),
        ("by_duration:-PT0S", 0),
        ("by_duration:PT1M-0.5S", 59_500),
        ("by_duration:P106751991167300D", 106751991167300 * 86_400_000),
    ],
)
def test_where_a_group_may_begin(text: str, back_ms: int) -> None:
    check_group_values(Config(), {_SETTING: text})
    assert offset_reset(text) == (text.partition(":")[0], back_ms)


@pytest.mark.parametrize(
    "text",
    [
        "Earliest",
        "BY_DURATION:PT1H",
        "by_duration",
        "by_duration:",
        "by_duration:1h",
        "by_duration:P",
        "by_duration:P1DT",
        "by_duration:PT.5S",
        "by_duration:-PT1H",
        "by_duration:PT1H-90M",
        "by_duration:PT-0.5S",
        "by_duration:P106751991167301D",
    ],
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="must be either 'earliest', 'latest' or"):
        check_group_values(Config(), {_SETTING: text})


def test_a_value_of_an_earlier_version_is_none() -> None:
    assert leader_settings(Config(), {_SETTING: "by_duration:-PT1H"}).reset == LATEST
