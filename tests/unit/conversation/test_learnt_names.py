"""The names of groups and ids in a cluster are those that the broker under check coordinates."""

from coterie.conversation.learnt_names import LearntNames
from coterie.conversation.structures import build_structure
from coterie.conversation.syntax import parse_request_line


def starts_with_a_digit(name: str) -> bool:
    return name.removeprefix("run-")[0].isdigit()


def test_group_gets_the_first_name_that_is_here() -> None:
    names = LearntNames("run-", is_here=starts_with_a_digit)
    assert names.group("orders") == names.own("orders") == "run-0-orders"
    assert names.group_text("run-0-orders") == "orders"
    assert names.own("sales") == "run-sales"
    assert names.group("") == ""


def test_name_may_be_chosen_for_another_broker() -> None:
    names = LearntNames("run-", is_here=starts_with_a_digit)
    names.spell("orders", lambda name: not starts_with_a_digit(name))
    assert names.group("orders") == "run-orders"


def test_ids_of_a_request_have_a_coordinator_and_topics_have_none() -> None:
    names = LearntNames("run-", is_here=starts_with_a_digit)
    line = parse_request_line(
        "c1> AddPartitionsToTxn v1 transactional_id=@transaction topics=[{name: @sales}]"
    )
    assert line is not None
    assert "run-0-transaction" in repr(build_structure(line, names))
    assert "run-sales" in repr(build_structure(line, names))
