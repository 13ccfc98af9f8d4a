"""`coterie groups remove-members`, against a scripted broker."""

from collections.abc import Callable
from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeaveGroupResponseMember,
)
from tests.unit.cli.command import described, group, member, rows_of, run
from tests.unit.cli.test_completion import complete
from tests.unit.client.fake_broker import FakeBroker

__all__ = ["complete"]


def removing(**errors: int) -> Any:
    """Respond to LeaveGroup, with errors by member id."""

    def respond(request: Any, _: int) -> LeaveGroupResponse:
        return LeaveGroupResponse(
            error_code=0,
            members=[
                LeaveGroupResponseMember(
                    member_id=each.member_id, error_code=errors.get(each.member_id, 0)
                )
                for each in request.members
            ],
        )

    return respond


def broker(**errors: int) -> FakeBroker:
    """Return a broker with a group of two members."""
    members = member("one", t=[0]), member("two", "static", t=[1])
    return FakeBroker(
        {
            ApiKey.DESCRIBE_GROUPS: described(group("g", "Stable", *members)),
            ApiKey.LEAVE_GROUP: removing(**errors),
        }
    )


def ids() -> list[str]:
    with broker() as responding:
        rows = rows_of(run(responding, "groups", "describe", "--members", "g", "--json"))
    return [each["consumer_id"] for each in rows]


def test_members_are_removed_with_their_instance_ids_and_a_reason() -> None:
    one, two = ids()
    with broker() as responding:
        given = ("--group", "g", one, two, one, "--reason", "it hangs")
        result = run(responding, "groups", "remove-members", *given)
        sent = responding.seen(ApiKey.LEAVE_GROUP)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [f"Removed member '{each}'." for each in (one, two)]
    (request,) = sent
    assert isinstance(request, LeaveGroupRequest)
    assert [(each.member_id, each.group_instance_id, each.reason) for each in request.members] == [
        (one, None, "it hangs"),
        (two, "static", "it hangs"),
    ]


def test_a_member_that_is_none_and_one_that_is_refused_end_with_1() -> None:
    one, two = ids()
    with broker(**{two: ErrorCode.FENCED_INSTANCE_ID}) as responding:
        result = run(
            responding, "groups", "remove-members", "--group", "g", "--json", one, two, "x"
        )
    assert result.exit_code == 1
    assert [(each["removed"], each["error"]) for each in rows_of(result)] == [
        (True, None),
        (False, "FENCED_INSTANCE_ID"),
        (False, "UNKNOWN_MEMBER_ID"),
    ]
    assert "Member 'x' of group 'g' was not removed: UNKNOWN_MEMBER_ID." in result.stderr


def test_ids_are_completed(complete: Callable[..., list[str]]) -> None:
    with broker() as responding:
        words = ("groups", "remove-members", "--group", "g", "")
        assert complete(responding.bootstrap, *words) == ids()
