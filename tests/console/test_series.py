"""Numbers over time in bounded memory: lags of a page, and ends from which ages follow.

Rules: [console/time-lag].
"""

import random
from itertools import pairwise

from coterie.console.model.series import STEP_MS, WINDOW_MS, Ends, Steps


def test_a_number_that_stays_is_one_point() -> None:
    lags = Steps()
    for at_ms in range(0, 3 * WINDOW_MS, 1_000):
        lags.add(at_ms, 7)
    assert lags.points == [[0, 7]]


def test_numbers_have_a_point_each_fifteen_seconds_and_none_before_the_window() -> None:
    lags = Steps()
    for at_ms in range(0, 4 * WINDOW_MS, 1_000):
        lags.add(at_ms, at_ms)
    points = lags.points
    assert len(points) <= WINDOW_MS // STEP_MS + 1
    assert all(later[0] - one[0] >= STEP_MS for one, later in pairwise(points))
    # The first says which number it was at the beginning of the window.
    begin = 4 * WINDOW_MS - 1_000 - WINDOW_MS
    assert points[0][0] <= begin < points[1][0]


def test_the_age_of_an_offset_is_the_time_since_the_partition_ended_there() -> None:
    ends = Ends()
    assert ends.age_ms(0, 0) is None
    ends.add(10_000, 100)
    ends.add(20_000, 200)
    ends.add(30_000, 200)
    assert ends.age_ms(200, 31_000) == 0
    # The record at 150 came half-way between the looks.
    assert ends.age_ms(150, 31_000) == 16_000
    assert ends.age_ms(100, 31_000) == 21_000
    assert ends.age_ms(99, 31_000) is None, "it was there before the first look"


def test_records_that_came_after_a_quiet_time_are_not_as_old_as_it() -> None:
    ends = Ends()
    for at_ms in range(0, 600_000, 1_000):
        ends.add(at_ms, 100)
    ends.add(600_000, 110)
    age_ms = ends.age_ms(100, 600_000)
    assert age_ms is not None
    assert age_ms <= 1_000


def test_a_topic_that_was_created_again_begins_again() -> None:
    ends = Ends()
    ends.add(1_000, 500)
    ends.add(2_000, 3)
    assert ends.age_ms(400, 2_000) == 0
    assert ends.age_ms(0, 2_000) is None


def test_ends_stay_few_and_ages_nearly_right() -> None:
    ends = Ends()
    chance = random.Random(7)
    times, found = [], []
    end = 0
    for at_ms in range(0, 900_000, 1_000):
        end += chance.randrange(20)
        ends.add(at_ms, end)
        times.append(at_ms)
        found.append(end)
    assert ends.count <= 32
    now_ms = times[-1]
    for index in range(len(times) - 300, len(times) - 1, 17):
        age_ms = ends.age_ms(found[index], now_ms)
        if age_ms is not None:
            assert abs(age_ms - (now_ms - times[index])) <= 0.2 * (now_ms - times[index]) + 15_000
