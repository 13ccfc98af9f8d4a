"""Changes of a console, over a broker: what previews say, what is carried out, what is refused."""

from collections.abc import Iterator
from typing import Any

import pytest

from coterie.client.cluster import Cluster
from coterie.client.groups import describe_groups
from coterie.console.changes.verbs import VERBS
from coterie.console.places import Place
from coterie.console.serving import ConsoleServer
from tests.console.changing import Changing, Row, changing_console, refused
from tests.console.raw_requests import LIMIT_S, ask
from tests.unit.cli.live_member import join, leave


@pytest.fixture(scope="module")
def changing() -> Iterator[Changing]:
    """A console of a topic with ten records in each partition."""
    with changing_console(orders=2) as running:
        for index in range(2):
            running.kafka.produce("orders", *map(str, range(10)), partition=index)
        yield running


# --- every verb -----------------------------------------------------------------------------------


def test_console_that_is_read_only_previews(changing: Changing) -> None:
    servers = changing.kafka.bootstrap_servers
    with ConsoleServer(Place(lambda: Cluster(servers, LIMIT_S), servers)) as console:
        answered = ask(console, "POST", "/api/changes/create-topic/preview", {"topic": "new"})
        assert answered.status == 200
        token = answered.json["token"]
        refused(ask(console, "POST", "/api/changes/create-topic", {"token": token}), 403, "read-")
    assert "new" not in changing.kafka.topics


@pytest.mark.parametrize("verb", VERBS, ids=lambda each: each.name)
def test_fields_are_checked(changing: Changing, verb: Any) -> None:
    required = [each for each in verb.parameters if each.is_required]
    refused(changing.asked(f"{verb.name}/preview", {}), 400, f"{required[0].name}: missing")
    for each in verb.parameters:
        for wrong in (None, 1.5, True, [1], {"a": 1}):
            given = {**{other.name: example(other.schema) for other in required}, each.name: wrong}
            refused(changing.asked(f"{verb.name}/preview", given), 400, f"{each.name}")


def example(schema: Any) -> Any:
    return {
        "string": schema.get("enum", ["x"])[0],
        "integer": 0,
        "array": ["x"],
        "object": {},
    }[schema["type"]]


def test_token_is_of_one_verb_and_one_change(changing: Changing) -> None:
    shown = changing.preview("create-topic", topic="once")
    refused(changing.asked("delete-topics", {"token": shown["token"]}), 410, "preview")
    assert changing.carry_out(shown)["carried_out"]
    refused(changing.asked("create-topic", {"token": shown["token"]}), 410, "preview")
    refused(changing.asked("create-topic", {"token": "made up"}), 410, "preview")
    changing.kafka.delete_topic("once")


# --- offsets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("to", "value", "new"),
    [
        ("earliest", None, [0, 0]),
        ("latest", None, [10, 10]),
        ("current", None, [4, 5]),
        ("offset", "7", [7, 7]),
        ("shift", "-2", [2, 3]),
        ("datetime", "2020-01-01T00:00:00.000", [0, 0]),
        ("duration", "PT1H", [0, 0]),
        ("group", "model", [8, 9]),
    ],
)
def test_offsets_are_reset_by_each_rule(
    changing: Changing, to: str, value: str | None, new: list[int]
) -> None:
    changing.commit("model", 8, 9)
    group = f"reset {to}"
    changing.commit(group, 4, 5)
    given = {"value": value} if value else {}
    shown = changing.preview("reset-offsets", group=group, to=to, **given)
    assert [row["current_offset"] for row in shown["rows"]] == [4, 5]
    assert [row["new_offset"] for row in shown["rows"]] == new
    assert (shown["refused"], shown["confirm"]) == ([], None)
    assert list(changing.committed(group).values()) == [4, 5], "a preview changes nothing"
    done = changing.carry_out(shown)
    assert done["carried_out"]
    assert [row["committed"] for row in done["rows"]] == [True, True]
    assert list(changing.committed(group).values()) == new
    # The command line does the same.
    changing.commit(group, 4, 5)
    changing.command(shown)
    assert list(changing.committed(group).values()) == new


def test_offset_outside_of_a_partition_has_a_remark(changing: Changing) -> None:
    changing.commit("outside", 4)
    shown = changing.preview(
        "reset-offsets", group="outside", topics=["orders:0"], to="offset", value="99"
    )
    (row,) = shown["rows"]
    assert (row["new_offset"], row["remark"]) == (10, "99 is above the end")


def test_partition_that_cannot_be_shifted_is_left_out(changing: Changing) -> None:
    changing.commit("shifted", 4)
    fields = {"group": "shifted", "topics": ["orders"], "to": "shift", "value": "1"}
    shown = changing.preview("reset-offsets", **fields)
    assert [row["partition"] for row in shown["rows"]] == [0]
    (left_out,) = shown["refused"]
    assert left_out["subject"] == "orders-1"
    assert "no committed offset" in left_out["cause"]
    changing.carry_out(shown)
    assert changing.committed("shifted") == {("orders", 0): 5}


def test_reset_is_refused_with_a_new_preview_if_offsets_have_moved(changing: Changing) -> None:
    changing.commit("moved", 4, 5)
    shown = changing.preview("reset-offsets", group="moved", to="earliest")
    changing.commit("moved", 6)
    done = changing.carry_out(shown)
    assert not done["carried_out"]
    assert [row["current_offset"] for row in done["preview"]["rows"]] == [6, 5]
    assert changing.committed("moved") == {("orders", 0): 6, ("orders", 1): 5}
    assert changing.carry_out(done["preview"])["carried_out"]
    assert set(changing.committed("moved").values()) == {0}


def test_reset_to_the_end_commits_the_end_that_was_shown(changing: Changing) -> None:
    changing.kafka.topic("growing", partitions=1, records=["a", "b"])
    changing.commit("end", 0, topic="growing")
    shown = changing.preview("reset-offsets", group="end", to="latest")
    changing.kafka.produce("growing", "c")
    assert changing.carry_out(shown)["carried_out"]
    assert changing.committed("end") == {("growing", 0): 2}
    changing.kafka.delete_topic("growing")


def test_group_without_offsets_has_nothing_to_reset(changing: Changing) -> None:
    shown = changing.preview("reset-offsets", group="nobody", to="earliest")
    assert (shown["token"], shown["rows"]) == (None, [])
    assert "no committed offsets" in shown["refused"][0]["cause"]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"to": "offset", "value": "-1"}, "value"),
        ({"to": "offset", "value": "9" * 30}, "value"),
        ({"to": "offset", "value": "٣"}, "value"),
        ({"to": "shift", "value": "1.5"}, "value"),
        ({"to": "duration", "value": "an hour"}, "value"),
        ({"to": "datetime", "value": "yesterday"}, "value"),
        ({"to": "earliest", "value": "1"}, "value: none"),
        ({"to": "offset"}, "value: one"),
        ({"to": "group", "value": "g"}, "the same group"),
        ({"to": "sideways"}, "to: one of"),
        ({"to": "earliest", "topics": [""]}, "topics[0]: it is empty"),
    ],
)
def test_wrong_fields_of_a_reset(changing: Changing, fields: Row, text: str) -> None:
    refused(changing.asked("reset-offsets/preview", {"group": "g", **fields}), 400, text)


def test_committed_offsets_are_deleted(changing: Changing) -> None:
    changing.commit("done", 4, 5)
    shown = changing.preview("delete-offsets", group="done", topics=["orders:1"])
    assert [row["current_offset"] for row in shown["rows"]] == [5]
    refused(changing.asked("delete-offsets", {"token": shown["token"]}), 400, "confirm")
    done = changing.carry_out(shown, "done")
    assert [row["deleted"] for row in done["rows"]] == [True]
    assert changing.committed("done") == {("orders", 0): 4}
    again = changing.preview("delete-offsets", group="done", topics=["orders:1"])
    assert again["token"] is None
    assert "Nothing is committed" in again["refused"][0]["cause"]


# --- groups and their members ---------------------------------------------------------------------


def test_groups_are_deleted(changing: Changing) -> None:
    changing.commit("old", 4, 5)
    changing.commit("-older", 1)
    shown = changing.preview("delete-groups", groups=["old", "-older", "nobody"])
    assert [row["group"] for row in shown["rows"]] == ["old", "-older"]
    assert shown["rows"][0]["offsets"] == {"orders-0": 4, "orders-1": 5}
    assert [each["subject"] for each in shown["refused"]] == ["nobody"]
    assert (shown["warnings"], shown["confirm"]) == (
        ["3 committed offsets will be lost."],
        "2 groups",
    )
    done = changing.carry_out(shown, "2 groups")
    assert [row["deleted"] for row in done["rows"]] == [True, True]
    assert not {"old", "-older"} & set(changing.kafka.groups)
    changing.commit("old", 4, 5)
    changing.commit("-older", 1)
    changing.command(shown)
    assert not {"old", "-older"} & set(changing.kafka.groups)


def test_group_with_members_is_left_alone(changing: Changing) -> None:
    changing.commit("busy", 4, 5)
    empty = changing.preview("reset-offsets", group="busy", to="earliest")
    deletion = changing.preview("delete-groups", groups=["busy"])
    member_id = join(changing.cluster, group_id="busy", orders=[0, 1])
    for shown, confirm in ((empty, None), (deletion, "busy")):
        done = changing.carry_out(shown, confirm)
        assert not done["carried_out"], "a member has joined since"
        (left_out,) = done["preview"]["refused"]
        assert left_out["subject"] == "busy"
        assert "1 member: coterie" in left_out["cause"]
        assert done["preview"]["token"] is None
    subscribed = changing.preview("delete-offsets", group="busy", topics=["orders"])
    assert "still subscribed" in subscribed["refused"][0]["cause"]
    assert changing.committed("busy") == {("orders", 0): 4, ("orders", 1): 5}
    leave(changing.cluster, member_id, group_id="busy")


def test_member_is_expelled(changing: Changing) -> None:
    member_id = join(changing.cluster, group_id="crowd", orders=[0, 1])
    shown = changing.preview("expel-members", group="crowd", members=[member_id, "x"])
    (row,) = shown["rows"]
    assert (row["member_id"], row["partition_count"]) == (member_id, 2)
    assert [each["subject"] for each in shown["refused"]] == ["x"]
    (done,) = changing.carry_out(shown)["rows"]
    assert (done["removed"], done["error"]) == (True, None)
    assert describe_groups(changing.cluster, ["crowd"])["crowd"].members == []
    assert any("expelled in the console" in line for line in history(changing, "crowd"))
    again = join(changing.cluster, group_id="crowd", orders=[0, 1])
    changing.command(changing.preview("expel-members", group="crowd", members=[again]))
    assert describe_groups(changing.cluster, ["crowd"])["crowd"].members == []


def history(changing: Changing, group: str) -> list[str]:
    return changing.kafka.group(group).history_lines()
