"""Rates of quotas equal those of Kafka 4.3.1, whose classes have computed the expected values."""

import pytest

from coterie.server.quotas.rates import Rate, TokenBucket, throttle_ms

# The number of windows; then each record (time, value) and the measured rate (time, rate, span).
KAFKA: list[tuple[int, list[tuple[int, int, int, float, int]]]] = [
    (
        11,
        [
            (1000672, 4040, 1000739, 401.3112148604351, 10067),
            (1000889, 4606, 1001108, 828.4783441931775, 10436),
            (1001276, 94, 1001362, 817.5865294667914, 10690),
            (1014476, 3514, 1014592, 347.37050217477264, 10116),
            (1014691, 4530, 1014822, 777.4985501643147, 10346),
            (1018969, 3599, 1019111, 1094.7813822284909, 10635),
            (1019825, 3562, 1019860, 1464.2719568567027, 10384),
            (1020422, 4179, 1020548, 1924.543288324067, 10072),
            (1020898, 3430, 1021122, 2142.9644937065564, 10646),
            (1021237, 367, 1021425, 2117.1796511096904, 10949),
            (1022080, 358, 1022099, 2215.8523957450816, 10623),
            (1030839, 4134, 1031022, 1176.2264150943397, 10600),
            (1031789, 4759, 1031955, 1493.713691147143, 11533),
            (1032286, 2899, 1032395, 1177.896267571498, 10315),
        ],
    ),
    (
        3,
        [
            (1000560, 4210, 1000741, 1930.307198532783, 2181),
            (1014443, 4549, 1014507, 2203.9728682170544, 2064),
            (1020968, 585, 1021050, 280.9798270893372, 2082),
            (1021564, 2981, 1021670, 1319.7631384159881, 2702),
            (1021907, 886, 1022106, 2082.3199251637043, 2138),
            (1025698, 3385, 1025793, 1615.7517899761335, 2095),
            (1026406, 357, 1026465, 1352.367184676545, 2767),
            (1027358, 2638, 1027393, 2367.3469387755104, 2695),
            (1027861, 3192, 1027978, 4198.245614035088, 2280),
            (1028212, 4153, 1028399, 5081.4513143280265, 2701),
            (1028488, 632, 1028762, 4685.704960835509, 3064),
            (1029204, 4928, 1029239, 5446.20163795538, 3541),
            (1029553, 1539, 1029574, 7708.483754512635, 2216),
            (1029863, 3229, 1030101, 7404.66642362377, 2743),
        ],
    ),
]


@pytest.mark.parametrize(("windows", "steps"), KAFKA)
def test_rates_are_those_of_kafka(
    windows: int, steps: list[tuple[int, int, int, float, int]]
) -> None:
    """[quotas/windows]"""
    rate = Rate(windows, 1000)
    for recorded_ms, value, measured_ms, expected, span_ms in steps:
        rate.record(value, recorded_ms)
        assert rate.measure(measured_ms) == pytest.approx(expected, rel=1e-12)
        assert rate.span_ms(measured_ms) == span_ms


def test_a_rate_at_the_quota_does_not_throttle() -> None:
    rate = Rate(11, 1000)
    rate.record(10_000, 0)
    assert throttle_ms(rate, 1000.0, 0) == 0
    rate.record(1000, 0)
    assert throttle_ms(rate, 1000.0, 0) == 1000


def test_an_idle_rate_is_forgotten_after_its_windows() -> None:
    rate = Rate(3, 1000)
    assert rate.is_idle(0)
    rate.record(5, 100)
    assert not rate.is_idle(3099)
    assert rate.is_idle(3100)
    assert rate.measure(3100) == 0


def test_tokens_come_back_up_to_the_size_of_the_bucket() -> None:
    """[quotas/token-bucket]"""
    bucket = TokenBucket(11)
    assert bucket.refill(2.0, 5000) == 22
    bucket.take(30, 2.0, 5000)
    assert bucket.refill(2.0, 6000) == -6
    assert bucket.refill(2.0, 60_000) == 22
