"""Members are counted by identity, which a restart does not change [pipeline/member-identity]."""

from coterie.pipeline.timeline.from_journal import journal_history
from coterie.pipeline.timeline.from_log import log_history
from coterie.pipeline.timeline.model import Generation, RecordedMember, identity_of, member_identity
from tests.pipeline.timeline.facts import (
    began,
    completed,
    joined,
    member_of,
    partitions,
    removed,
    replaced,
)


def test_identity_is_the_instance_or_else_client_and_host() -> None:
    assert member_identity("i1", "billing", "/10.0.0.7") == "i1"
    assert member_identity(None, "billing", "/10.0.0.7") == "billing at 10.0.0.7"
    assert member_identity(None, None, None) is None
    # By the key in tables: that of a static member is its instance id.
    assert identity_of("i1", "billing-1", "billing", "/h") == "i1"
    assert identity_of("billing-1", "billing-1", "billing", "/h") == "billing at h"


def generation_of(number: int, at_ms: int, *members: str) -> Generation:
    """Return a generation; a member is `client/id`."""
    found = (each.partition("/") for each in members)
    return Generation(
        number,
        at_ms,
        "consumer",
        "range",
        None,
        tuple(
            RecordedMember(f"{client}-{name}", None, client, "/h", ("a",), (), partitions(""))
            for client, _, name in found
        ),
    )


def test_client_that_returns_as_another_member_caused_its_rebalance() -> None:
    """It left and joined between two generations; nobody else did [pipeline/cause-inference]."""
    found = log_history(
        "g",
        [
            generation_of(1, 100, "a/1", "b/1", "flaky/1"),
            generation_of(2, 200, "a/1", "b/1", "flaky/2"),
            generation_of(3, 300, "a/1", "b/1", "flaky/3"),
            generation_of(4, 400, "a/2", "b/1", "flaky/4"),
        ],
    )
    triggers = [(each.trigger.member_key, each.trigger.identity) for each in found.rebalances]
    assert triggers == [(None, None), (None, "flaky at h"), (None, "flaky at h"), (None, None)]


def test_sessions_count_the_rebalances_that_they_are_known_to_have_caused() -> None:
    """[pipeline/member-sessions]"""
    found = log_history(
        "g",
        [
            generation_of(1, 100, "a/1", "b/1"),
            generation_of(2, 200, "a/1", "b/1", "c/1"),
            generation_of(3, 300, "a/1", "b/1"),
            generation_of(4, 400, "a/2", "b/1"),
        ],
    )
    caused = {each.member_id: each.rebalances_caused for each in found.sessions}
    # Both a-1 and b-1 may have begun the first one; a-1 left in the last one.
    assert caused == {"a-1": 1, "b-1": None, "c-1": 2, "a-2": 0}


def test_cause_after_a_static_restart_names_the_new_process() -> None:
    """The facts of a static member name its first process [pipeline/static-restart]."""
    restarted = replaced(500, "i1", "one", "one-2", client_id="second", client_host="/other")
    found = journal_history(
        "g",
        [
            joined(0, "one", "i1"),
            began(0, "join", "one", 0, state="Empty", group_instance_id="i1"),
            completed(100, 1, 0, member_of("one", "a-0", instance="i1")),
            restarted,
            removed(900, "one-2", "session expiry", "i1"),
            began(900, "session expiry", "one-2", 1, group_instance_id="i1"),
        ],
    )
    last = found.rebalances[-1].trigger
    assert (last.client_id, last.client_host, last.identity) == ("second", "/other", "i1")
    # It cost nothing, and is counted with the rebalance before it.
    assert found.rebalances[0].replaced == ("i1",)
    assert [(each.client_id, each.entry_kind, each.exit_kind) for each in found.sessions] == [
        ("client-one", "join", "replaced"),
        ("second", "static restart without rebalance", "session expiry"),
    ]
