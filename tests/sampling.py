"""Which cases of large matrices `make test` leaves to `make test ARGS=--extended`.

A check that is repeated with many clients, scenarios or planted bugs finds most mistakes with a
part of them, and all tests together have to be quick enough to run after each change. So some tests
run one in so many of their cases, chosen by their names: every run has the same ones. Each test
here has a longer form (`make crash`, `make sim`, `make conformance-mutants`, `make turns`), or
repeats with other clients what one of them shows. The nightly workflow runs all cases.
"""

from collections import defaultdict

import pytest

# One in so many cases runs. Numbers that are no multiple of the last parameter's count take turns
# with it, so that each client comes up.
ONE_IN = {
    "tests/client_check/test_flaws.py::test_flaw_is_found": 3,
    "tests/client_check/test_flaws.py::test_flaw_is_found_in_the_consumer_protocol": 4,
    "tests/client_check/test_flaws.py::test_flaw_of_a_login_is_found": 3,
    "tests/conformance/test_mutants.py::test_check_of_the_rule_finds_the_planted_bug": 4,
    "tests/conformance/test_settings.py::test_no_check_takes_a_default_for_granted": 2,
    "tests/conformance/test_settings.py::test_no_false_alarm": 3,
    "tests/conformance/test_strange_brokers.py::test_form_of_member_ids_is_one_deviation": 2,
    "tests/conformance/test_strange_brokers.py::test_missing_delay_is_one_deviation": 2,
    "tests/crash/test_crashes.py::test_crashes_of_a_scenario": 3,
    "tests/crash/test_crashes.py::test_every_call_fails_in_turn": 3,
    "tests/crash/test_crashes.py::test_every_window_of_compaction": 2,
    "tests/crash/test_damage.py::test_stale_files_of_producers_change_nothing": 2,
    "tests/crash/test_pairs.py::test_a_few_crashes_of_pairs": 2,
    "tests/crash/test_pairs.py::test_a_planted_bug_is_found_by_a_pair": 3,
    "tests/crash/test_pairs.py::test_cleanings_that_a_setting_makes_due": 3,
    "tests/crash/test_planted_bugs.py::test_a_planted_bug_is_found": 3,
    "tests/crash/test_stories.py::test_a_planted_bug_is_found": 4,
    "tests/crash/test_stories.py::test_a_story_holds_over_crashes": 3,
    "tests/fuzz/test_fuzz.py::test_every_array_of_every_api_may_be_full": 3,
    "tests/lab/test_measured.py::test_cell_is_in_the_range_of_the_model": 4,
    "tests/lab/test_scenarios.py::test_expectations_hold": 2,
    "tests/live/secured/test_secured_clients.py::test_wrong_password": 5,
    "tests/live/test_lost_answers.py::test_group_recovers_from_a_lost_response": 4,
    "tests/live/test_restart.py::test_group_survives_with_its_generation": 2,
    "tests/live/test_static_members.py::test_restart_does_not_rebalance": 4,
    "tests/live/test_without.py::test_a_broker_works_without_what_a_system_lacks": 2,
    "tests/pipeline/report/test_command_line.py::test_run_check_and_show": 2,
    "tests/pipeline/test_source.py::test_stream_has_the_rows_of_a_batch_read": 3,
    "tests/property/test_codec_peers.py::test_bytes_and_values_agree": 2,
    "tests/property/test_damaged_bytes.py::test_a_flipped_bit_makes_another_message_or_none": 3,
    "tests/property/test_damaged_bytes.py::test_an_incomplete_message_is_malformed": 2,
    "tests/simulation/consumer_groups/test_consumer_groups.py::test_planted_bug_is_found": 4,
    "tests/simulation/test_planted_bugs.py::test_planted_bug_is_found": 4,
    "tests/simulation/test_simulation.py::test_profiles_violate_no_invariant": 3,
    "tests/simulation/test_transactional_offsets.py::test_planted_bug_is_found": 4,
    "tests/simulation/transactions/test_transactions.py::test_planted_bug_is_found": 4,
    "tests/soak/test_turns.py::test_largest_request_has_as_many_elements_as_are_allowed": 5,
    "tests/unit/control/test_bounds.py::test_wrong_number_is_refused_by_several_brokers": 5,
    "tests/unit/protocol/test_record_check.py::test_records_of_one_size": 4,
    "tests/unit/server/test_handle_shortage.py::test_every_shortage_passes": 2,
    "tests/unit/storage/test_log_recovery_trust.py::test_every_bit_flip_of_the_last_segment": 2,
    "tests/unit/storage/test_log_recovery_trust.py::test_every_truncation_of_the_last_segment": 2,
}


def left_out(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the tests that only the extended form runs."""
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        test = item.nodeid.partition("[")[0]
        if test in ONE_IN:
            cases[test].append(item)
    left = set[pytest.Item]()
    for test, found in cases.items():
        # A selection of few is what somebody asks for: they are all run.
        if len(found) >= ONE_IN[test]:
            found.sort(key=lambda item: item.nodeid)
            left.update(each for index, each in enumerate(found) if index % ONE_IN[test])
    return left
