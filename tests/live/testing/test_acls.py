"""Brokers of tests with access rules, for real clients."""

from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from coterie.testing import Broker, WrongUse

READ = "User:alice ALLOW READ TOPIC orders"
WRITE = "User:alice ALLOW WRITE TOPIC orders"
GROUP = "User:alice ALLOW READ GROUP billing"


def produce(broker: Broker, user: str | None) -> KafkaError | None:
    """Produce a record; return the error of its delivery."""
    errors: list[KafkaError | None] = []
    producer = Producer(broker.client_config("confluent-kafka", user=user))
    producer.produce("orders", b"one", on_delivery=lambda error, _: errors.append(error))
    producer.flush(20)
    (error,) = errors
    return error


def test_rights_of_a_user_change_while_it_works() -> None:
    with Broker(
        topics={"orders": 1}, security="SASL_PLAINTEXT", users=["alice"], acls=[READ, GROUP]
    ) as broker:
        error = produce(broker, "alice")
        assert error is not None
        assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        broker.add_acls(WRITE)
        assert produce(broker, "alice") is None
        config = broker.client_config("confluent-kafka", user="alice", group_id="billing")
        consumer = Consumer(config)
        consumer.subscribe(["orders"])
        message = consumer.poll(30)
        assert message is not None
        assert (message.error(), message.value()) == (None, b"one")
        broker.remove_acls(GROUP)
        with pytest.raises(KafkaException) as refused:
            consumer.commit(message=message, asynchronous=False)
        assert refused.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
        consumer.close()
        broker.restart()
        assert produce(broker, "alice") is None


def test_an_administrator_sees_the_rules() -> None:
    with Broker(acls=["User:ANONYMOUS ALLOW DESCRIBE CLUSTER", READ]) as broker:
        admin = AdminClient(broker.client_config("confluent-kafka"))
        # Its types say that a filter has names; its documentation, that they may be missing.
        anything: Any = None
        everything = AclBindingFilter(
            ResourceType.ANY,
            anything,
            ResourcePatternType.ANY,
            anything,
            anything,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        found = admin.describe_acls(everything).result(20)
        assert {(each.principal, each.operation) for each in found} == {
            ("User:ANONYMOUS", AclOperation.DESCRIBE),
            ("User:alice", AclOperation.READ),
        }


def test_wrong_rules_are_named() -> None:
    with pytest.raises(WrongUse, match="acls: 'alice' is not a rule"):
        Broker(acls=["alice"])
    with Broker() as broker, pytest.raises(WrongUse, match="no authorizer"):
        broker.add_acls(READ)
    with Broker(acls=[]) as broker, pytest.raises(WrongUse, match="no such rule"):
        broker.remove_acls(READ)
