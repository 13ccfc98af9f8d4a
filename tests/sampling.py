"""Which cases of large matrices `make test` leaves to `make test ARGS=--extended`.

A check that is repeated with many clients, scenarios or planted bugs finds most mistakes with a
part of them, and all tests together have to be quick enough to run after each change. So some tests
run one in so many of their cases, chosen by their names: every run has the same ones. Each test
here has a longer form (`make crash`, `make sim`, `make conformance-mutants`, `make turns`), or
repeats with other clients what one of them shows. The nightly workflow runs all cases.
"""

# ruff: noqa: E501 - a name of a test is not divided

from collections import defaultdict

import pytest

# By the name without `tests/`. One in so many cases runs. Numbers that are no multiple of the last
# parameter's count take turns with it, so that each client comes up.
ONE_IN = {
    "client_check/test_flaws.py::test_flaw_is_found": 5,
    "client_check/test_flaws.py::test_flaw_is_found_in_the_consumer_protocol": 6,
    "client_check/test_flaws.py::test_flaw_of_a_login_is_found": 3,
    "conformance/test_mutants.py::test_check_of_the_rule_finds_the_planted_bug": 7,
    "conformance/test_settings.py::test_no_check_takes_a_default_for_granted": 2,
    "conformance/test_settings.py::test_no_false_alarm": 7,
    "conformance/test_strange_brokers.py::test_form_of_member_ids_is_one_deviation": 2,
    "conformance/test_strange_brokers.py::test_missing_delay_is_one_deviation": 2,
    "crash/test_crashes.py::test_crashes_of_a_scenario": 5,
    "crash/test_crashes.py::test_every_call_fails_in_turn": 3,
    "crash/test_crashes.py::test_every_window_of_compaction": 2,
    "crash/test_damage.py::test_damage_is_noticed_or_harmless": 2,
    "crash/test_damage.py::test_stale_files_of_producers_change_nothing": 2,
    "crash/test_pairs.py::test_a_few_crashes_of_pairs": 2,
    "crash/test_pairs.py::test_a_planted_bug_is_found_by_a_pair": 5,
    "crash/test_pairs.py::test_cleanings_that_a_setting_makes_due": 5,
    "crash/test_planted_bugs.py::test_a_planted_bug_is_found": 8,
    "crash/test_stories.py::test_a_planted_bug_is_found": 8,
    "crash/test_stories.py::test_a_story_holds_over_crashes": 5,
    "documents/test_tutorials.py::test_a_tutorial_can_be_followed": 2,
    "fuzz/test_fuzz.py::test_every_array_of_every_api_may_be_full": 3,
    "lab/live/test_real_members.py::test_members_log_in_to_a_broker_that_runs": 3,
    "lab/test_measured.py::test_cell_is_in_the_range_of_the_model": 7,
    "lab/test_scenarios.py::test_expectations_hold": 3,
    "live/secured/test_secured_clients.py::test_produces_consumes_and_commits": 4,
    "live/secured/test_secured_clients.py::test_wrong_password": 5,
    "live/test_compaction.py::test_compacted_topic_keeps_the_newest_record_of_each_key": 3,
    "live/test_cooperative.py::test_one_partition_moves_and_the_others_are_read_on": 2,
    "live/test_history.py::test_join_leave_and_crash": 3,
    "live/test_history.py::test_restart_of_a_static_member": 3,
    "live/test_lost_answers.py::test_group_recovers_from_a_lost_response": 7,
    "live/test_restart.py::test_group_survives_with_its_generation": 2,
    "live/test_restart.py::test_restart_under_running_consumers": 2,
    "live/test_retention.py::test_retention_by_time_deletes_all_records_and_offsets_continue": 3,
    "live/test_static_members.py::test_restart_does_not_rebalance": 4,
    "live/test_stop.py::test_stored_batches_are_answered_before_a_stop": 2,
    "live/test_without.py::test_a_broker_works_without_what_a_system_lacks": 2,
    "live/testing/test_cluster_security.py::test_clients_find_leaders_and_coordinators": 4,
    "live/testing/test_process_broker.py::test_users_of_a_process_log_in_until_they_are_revoked": 2,
    "pipeline/findings/test_drawn_stories.py::test_group_that_changes_its_type_is_neither_stormy_nor_unbalanced": 3,
    "pipeline/report/test_command_line.py::test_run_check_and_show": 2,
    "pipeline/test_engines.py::test_rows_do_not_depend_on_how_the_work_is_divided": 3,
    "pipeline/test_source.py::test_stream_has_the_rows_of_a_batch_read": 3,
    "property/test_codec_peers.py::test_bytes_and_values_agree": 4,
    "property/test_codec_round_trips.py::test_a_framed_response_has_length_header_and_body": 3,
    "property/test_codec_round_trips.py::test_every_version_round_trips": 2,
    "property/test_codec_round_trips.py::test_frame_that_is_encoded_in_steps_is_the_same": 3,
    "property/test_codec_round_trips.py::test_request_that_is_decoded_in_steps_is_the_same": 3,
    "property/test_codec_round_trips.py::test_unknown_tags_are_skipped_in_every_structure": 3,
    "property/test_damaged_bytes.py::test_a_flipped_bit_makes_another_message_or_none": 5,
    "property/test_damaged_bytes.py::test_a_message_with_bytes_left_over_is_malformed": 3,
    "property/test_damaged_bytes.py::test_an_incomplete_message_is_malformed": 6,
    "property/test_damaged_bytes.py::test_the_next_frame_does_not_complete_an_incomplete_message": 3,
    "simulation/consumer_groups/test_consumer_groups.py::test_planted_bug_is_found": 8,
    "simulation/test_planted_bugs.py::test_nothing_is_found_without_a_planted_bug": 3,
    "simulation/test_planted_bugs.py::test_planted_bug_is_found": 8,
    "simulation/test_simulation.py::test_profiles_violate_no_invariant": 3,
    "simulation/test_transactional_offsets.py::test_planted_bug_is_found": 4,
    "simulation/transactions/test_transactions.py::test_planted_bug_is_found": 4,
    "soak/test_growth.py::test_cost_of_every_verb_grows_as_its_request_does": 4,
    "soak/test_turns.py::test_largest_request_has_as_many_elements_as_are_allowed": 5,
    "unit/control/test_bounds.py::test_wrong_number_is_refused": 4,
    "unit/control/test_bounds.py::test_wrong_number_is_refused_by_several_brokers": 5,
    "unit/control/test_openapi.py::test_answer_has_the_described_form": 3,
    "unit/coordinator/consumer/test_large_conversions.py::test_group_that_changes_meanwhile_becomes_a_classic_one": 3,
    "unit/coordinator/consumer/test_large_conversions.py::test_upgrade_in_steps_comes_to_the_same_as_one_at_once": 3,
    "unit/coordinator/consumer/test_large_targets.py::test_group_that_changes_meanwhile_comes_to_rest": 3,
    "unit/protocol/test_hostile_messages.py::test_the_densest_request_stays_within_the_limit": 3,
    "unit/protocol/test_record_check.py::test_records_of_one_size": 7,
    "unit/protocol/test_spliced.py::test_spliced_metadata": 3,
    "unit/server/test_handle_shortage.py::test_every_shortage_passes": 2,
    "unit/server/test_handle_shortage.py::test_many_partitions_under_a_small_limit": 3,
    "unit/server/test_long_consumer_groups.py::test_group_is_described_as_it_was_when_it_was_asked_for": 3,
    "unit/storage/test_log_recovery_trust.py::test_every_bit_flip_of_the_last_segment": 2,
    "unit/storage/test_log_recovery_trust.py::test_every_truncation_of_the_last_segment": 2,
}
# Only the extended form has these: each repeats with a Spark session what others show with one.
EXTENDED_ONLY = (
    "pipeline/report/test_epochs.py::test_spark_writes_the_same_rows",
    "pipeline/test_lab_sweep.py::test_spark_makes_the_same_rows",
    "pipeline/test_source.py::test_stream_of_a_log_that_grows_is_cleaned_and_is_torn",
)


def left_out(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return the tests that only the extended form runs."""
    left = set[pytest.Item]()
    cases: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        test = item.nodeid.partition("[")[0].removeprefix("tests/")
        # Its group is a part of the name of a test that is not parametrized.
        if test.partition("@")[0] in EXTENDED_ONLY:
            left.add(item)
        elif test in ONE_IN:
            cases[test].append(item)
    for test, found in cases.items():
        # A selection of few is what somebody asks for: they are all run.
        if len(found) >= ONE_IN[test]:
            found.sort(key=lambda item: item.nodeid)
            left.update(each for index, each in enumerate(found) if index % ONE_IN[test])
    return left
