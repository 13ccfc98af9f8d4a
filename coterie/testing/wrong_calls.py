"""What to write instead of a wrong call: an attribute that people guess, wrong arguments.

    kafka.create_topic("orders")                 -> kafka.topic("orders", partitions=3)
    kafka.topics()                               -> kafka.topics
    kafka.fault("Produce", error="NOT_LEADER")   -> kafka.fault(AnswerError(...), api="Produce")

The call is found in the line of the test; nothing is called to find out what it is about. What is
right follows from the signatures of the public classes, and from a table of what other libraries
call these things.
"""

import ast
import inspect
import linecache
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, get_args, get_origin, get_type_hints

from coterie.near_names import did_you_mean
from coterie.protocol.api_keys import SERVED_VERSIONS
from coterie.testing.broker import Broker
from coterie.testing.callers import is_inner
from coterie.testing.cluster import Cluster
from coterie.testing.faults import Fault
from coterie.testing.groups import Group
from coterie.testing.members import Member
from coterie.testing.records import Record
from coterie.testing.requests import Request, Requests
from coterie.testing.views import Views
from coterie.testing.virtual_time import VirtualClock
from coterie.testing.waiting import Waiting

# The public classes, with the name that examples have for an object of them.
_NAMES: dict[type, str] = {
    Broker: "kafka",
    Cluster: "kafka",
    Group: 'kafka.group("billing")',
    Fault: "fault",
    Requests: "kafka.requests",
    Request: "request",
    Member: "member",
    Record: "record",
    VirtualClock: "kafka.clock",
}
# What people write, and what is right; for a name of several words any order of guessing counts.
_GUESSES: dict[type, dict[str, str]] = {
    Broker: {
        'topic("orders", partitions=3)': "create_topic create_topics new_topic add_topic make_topic"
        " ensure_topic",
        "topics": "list_topics topic_names get_topics",
        'produce("orders", "espresso")': "send publish produce_records produce_messages write"
        " produce_message send_and_wait append",
        'records("orders")': "consume messages read fetch poll get_records read_records values"
        " read_messages get_messages",
        "bootstrap_servers": "bootstrap_server bootstrap brokers address_text url servers"
        " get_bootstrap_server get_bootstrap_servers connection_string uri broker_list",
        'client_config("aiokafka", group_id="billing")': "consumer producer config get_config"
        " consumer_config producer_config admin get_consumer get_producer create_consumer"
        " create_producer client",
        'group("billing")': "consumer_group get_group describe_group",
        "groups": "list_groups consumer_groups group_ids list_consumer_groups",
        'group("billing").wait_stable(members=2)': "wait_stable wait_for_group wait_group"
        " wait_until_stable wait_members",
        'group("billing").wait_assigned("orders")': "wait_assigned wait_ready wait_assignment",
        'group("billing").wait_committed()': "wait_committed wait_consumed wait_lag",
        'group("billing").offsets': "offsets committed committed_offsets get_offsets",
        'group("billing").lag': "lag get_lag",
        'fault(AnswerError("NOT_COORDINATOR"), api="Heartbeat")': "inject inject_fault inject_error"
        " add_fault fail set_error fail_next error",
        "faults[0].remove()": "clear_faults remove_faults remove_fault reset_faults",
        "advance(46)": "tick forward sleep advance_time wait skip_time fast_forward",
        "close()": "stop shutdown terminate",
        "kill()": "crash abort sigkill",
        "unique('orders')": "unique_name unique_topic random_topic",
        'delete_topic("orders")': "delete_topics remove_topic drop_topic",
    },
    Cluster: {
        'topic("orders", partitions=3)': "create_topic create_topics new_topic add_topic",
        "bootstrap_servers": "bootstrap_server bootstrap servers url connection_string broker_list",
        "brokers": "nodes node_ids live_brokers running",
        'kill(kafka.coordinator_of("billing"))': "kill_broker crash kill_coordinator sigkill",
        'leader_of("orders", 0)': "leader get_leader partition_leader",
        'coordinator_of("billing")': "coordinator get_coordinator find_coordinator",
        'move("orders", 0, to=2)': "move_leader elect elect_leader reassign transfer",
        "paused(2)": "pause suspend freeze sigstop",
        'group("billing")': "consumer_group get_group describe_group",
        'group("billing").wait_stable(members=2)': "wait_stable wait_for_group wait_group",
        'fault(AnswerError("NOT_COORDINATOR"), api="Heartbeat")': "inject inject_fault add_fault",
    },
    Group: {
        "wait_stable(members=2)": "wait wait_until_stable wait_for_members wait_members wait_joined"
        " wait_for_stable wait_ready join",
        'wait_assigned("orders")': "wait_assignment wait_partitions_assigned wait_until_assigned",
        "wait_committed()": "wait_lag wait_caught_up wait_consumed wait_offsets wait_for_lag"
        " wait_zero_lag wait_until_consumed",
        "wait_empty()": "wait_gone wait_dead wait_left wait_no_members",
        "wait_rebalanced(since_generation=1)": "wait_rebalance wait_generation",
        "wait_acknowledged()": "wait_accepted wait_done wait_processed wait_handled",
        "wait_acquired()": "wait_locked wait_delivered wait_in_flight wait_taken",
        'wait_archived({("orders", 0): 7})': "wait_rejected wait_poison wait_dropped",
        "wait_tasks()": "wait_tasks_assigned wait_standbys wait_task",
        "tasks": "active_tasks standby_tasks task_assignment",
        "share_partitions": "locks in_flight acquired records_in_flight",
        "deliveries": "acknowledgements acknowledged delivered",
        "offsets": "committed committed_offsets get_offsets",
        "members": "consumers member_ids get_members",
        "sessions": "heartbeats last_heard last_heartbeat silent",
        "generation": "generation_id epoch",
        'state == "Stable"': "is_stable stable",
        "assignment": "assignments partitions assigned",
        'expel("worker-1")': "kick remove_member evict remove fence disconnect",
        "history": "rebalances events",
        "stuck()": "describe status why explain picture",
        "rebalance()": "trigger_rebalance force_rebalance begin_rebalance",
    },
    Fault: {
        "hits": "hit hit_count count was_hit calls called times",
        "must_have_hit()": "must_hit assert_hit assert_was_hit assert_called verify must_be_hit",
        "remove()": "stop clear end cancel disable close",
    },
    Requests: {
        'of("JoinGroup")': "find filter get all by_api list matching",
        'last("JoinGroup")': "latest newest get_last",
        "clear()": "reset",
    },
    Member: {
        "member_id": "id",
        "client_host": "host address",
        "instance_id": "group_instance_id static_id",
        "assignment": "partitions assignments",
        "topics": "subscription subscribed_topics",
    },
    Record: {"value": "data body payload message content", "timestamp_ms": "timestamp time"},
    VirtualClock: {
        "advance(46)": "tick forward sleep move skip",
        "elapsed_s": "elapsed seconds",
        "now_ms()": "now time",
    },
}


def right_call(error: BaseException) -> str | None:
    """Return what to write instead of the wrong call that an error comes from; None if none does.

    Args:
        error: with its traceback.
    """
    if isinstance(error, AttributeError):
        for cls in _NAMES:
            if isinstance(error.obj, cls) and error.name is not None:
                return _attribute(cls, error.name)
    if isinstance(error, TypeError):
        entry = _caller(error.__traceback__)
        call = None if entry is None else _call_at(entry)
        if entry is not None and call is not None:
            return _called(call, entry.tb_frame)
    return None


def _attribute(cls: type, name: str) -> str:
    """Return what to write instead of an attribute that does not exist."""
    subject = _NAMES[cls]
    for right, guesses in _GUESSES.get(cls, {}).items():
        if name in guesses.split():
            return f"{cls.__name__} has no `{name}`: write `{subject}.{right}`"
    known = [each for each in dir(cls) if not each.startswith("_")]
    return f"{cls.__name__} has no `{name}`{did_you_mean(name, known, 'attributes')}"


def _called(call: ast.Call, frame: FrameType) -> str | None:
    """Return what to write instead of a call that could not be made."""
    if not isinstance(call.func, ast.Attribute):
        return None
    cls, name = _type_of(call.func.value, frame), call.func.attr
    if cls not in _NAMES:
        return None
    subject = ast.unparse(call.func.value)
    attribute = inspect.getattr_static(cls, name, None)
    if isinstance(attribute, property) or name in getattr(cls, "_fields", ()):
        return f"`{name}` is no method: write `{subject}.{name}`"
    if not inspect.isfunction(attribute) or _fits(attribute, call):
        return None
    shown = _signature(attribute)
    right = _right_fault(call) if attribute is Views.fault else None
    text = f"`{name}` is called as `{subject}.{name}{shown}`"
    return text if right is None else f"{text}\nwrite `{subject}.{right}`"


def _fits(function: Callable[..., Any], call: ast.Call) -> bool:
    """Return whether a function can be called so; with stars in the call nobody can say."""
    if any(isinstance(each, ast.Starred) for each in call.args) or any(
        each.arg is None for each in call.keywords
    ):
        return True
    try:
        inspect.signature(function).bind(
            None, *call.args, **{each.arg: None for each in call.keywords if each.arg is not None}
        )
    except TypeError:
        return False
    return True


def _signature(function: Callable[..., Any]) -> str:
    """Return the parameters of a method without their types."""
    signature = inspect.signature(function)
    plain = [
        each.replace(annotation=inspect.Parameter.empty)
        for each in list(signature.parameters.values())[1:]
    ]
    return str(signature.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def _right_fault(call: ast.Call) -> str:
    """Return the call of `fault` that has the API and the error of another one."""
    api, error = "Heartbeat", "NOT_COORDINATOR"
    given = [*call.args, *(each.value for each in call.keywords)]
    names = {each.kafka_name.lower(): each.kafka_name for each in SERVED_VERSIONS}
    for each in given:
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            if each.value.lower() in names:
                api = names[each.value.lower()]
            elif each.value.isupper():
                error = each.value
    return f'fault(AnswerError("{error}"), api="{api}")'


# --- finding the call ---------------------------------------------------------------------------


def _caller(traceback: TracebackType | None) -> TracebackType | None:
    """Return the innermost entry that is not of Coterie or of Python's library."""
    found = None
    while traceback is not None:
        if not is_inner(traceback.tb_frame.f_code.co_filename):
            found = traceback
        traceback = traceback.tb_next
    return found


def _call_at(entry: TracebackType) -> ast.Call | None:
    """Return the call that a frame was making."""
    code = entry.tb_frame.f_code
    positions = list(code.co_positions())[entry.tb_lasti // 2]
    line, end_line, column, end_column = positions
    if line is None or end_line is None or column is None or end_column is None:
        return None
    lines = linecache.getlines(code.co_filename)[line - 1 : end_line]
    if not lines:
        return None
    # Columns count bytes.
    whole = [each.encode() for each in lines]
    whole[-1] = whole[-1][:end_column]
    whole[0] = whole[0][column:]
    try:
        parsed = ast.parse(b"(" + b"".join(whole) + b")", mode="eval")
    except (SyntaxError, ValueError):
        return None
    return parsed.body if isinstance(parsed.body, ast.Call) else None


def _type_of(node: ast.expr, frame: FrameType) -> Any:
    """Return the class of what an expression gives, without evaluating it; None if not known."""
    if isinstance(node, ast.Name):
        value = frame.f_locals.get(node.id, frame.f_globals.get(node.id))
        return next((cls for cls in _NAMES if isinstance(value, cls)), None)
    if isinstance(node, ast.Await):
        return _type_of(node.value, frame)
    is_call = isinstance(node, ast.Call)
    attribute = node.func if isinstance(node, ast.Call) else node
    if not isinstance(attribute, ast.Attribute):
        return None
    holder = _type_of(attribute.value, frame)
    if isinstance(attribute.value, ast.Name) and holder is None:
        # self.kafka
        value = frame.f_locals.get(attribute.value.id)
        held = getattr(value, "__dict__", {}).get(attribute.attr)
        return next((cls for cls in _NAMES if isinstance(held, cls)), None)
    if holder is None:
        return None
    found = inspect.getattr_static(holder, attribute.attr, None)
    function = found.fget if isinstance(found, property) else found
    if not inspect.isfunction(function) or is_call is isinstance(found, property):
        return None
    returned = get_type_hints(function, vars(inspect.getmodule(function) or Views)).get("return")
    return get_args(returned)[0] if get_origin(returned) is Waiting else returned
