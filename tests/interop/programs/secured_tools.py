"""Kafka's command-line tools print the same lines about a secured broker of ours as about Kafka's.

They come over SASL_SSL, with `--command-config`: as alice, who may do everything, as bob, who may
not, and as alice with a wrong password.
"""

from coterie.storage.properties import properties_text
from tests.interop.kafka_node import KafkaNode
from tests.interop.model import Failed, Surroundings
from tests.interop.programs._tool_calls import TRACE, Tool
from tests.interop.tool_runs import Place, compare
from tests.live.secured.setup import WRONG_PASSWORD, Setup, Way

SECURED = True
_WAY = Way("SASL_SSL", "SCRAM-SHA-512")
_ALICE = "--command-config {directory}/alice.properties"
_BOB = "--command-config {directory}/bob.properties"
_WRONG = "--command-config {directory}/wrong.properties"
_INTERNAL = r"__consumer_offsets|__transaction_state|coterie\.journal"
_ACLS = f"kafka-acls {_ALICE}"
_USERS = f"kafka-configs {_ALICE} --entity-type users"
_GROUPS = f"kafka-consumer-groups {_ALICE}"
_TOKENS = f"kafka-delegation-tokens {_ALICE}"
# The password, the id and the times of a token.
_TOKEN_CHANGES = (
    (r"[\w+/]{80,}=*", "<hmac>"),
    (r"[\w-]{22}\b", "<id>"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d", "<time>"),
)
# Kafka names an object of its process.
_REFUSED = ((r"Request Request\(.* needs [A-Z]+ permission\.", "Cluster authorization failed."),)
# Kafka has the mechanisms in the order of a hash table.
_MECHANISMS = ((r"(SCRAM-SHA-512=\S+), (SCRAM-SHA-256=\S+)", r"\2, \1"),)
_CALLS = [
    Tool(f"kafka-topics {_ALICE} --create --topic orders --partitions 2"),
    Tool(f"kafka-topics {_ALICE} --create --topic orders", differs=TRACE),
    Tool(f"kafka-topics {_ALICE} --list", differs=_INTERNAL),
    Tool(f"kafka-topics {_ALICE} --describe --topic orders"),
    Tool(f"kafka-topics {_BOB} --list", differs=_INTERNAL),
    Tool(f"kafka-topics {_BOB} --create --topic bobs", differs=TRACE, shows="Authorization"),
    Tool(f"kafka-topics {_BOB} --delete --topic orders", differs=TRACE, shows="Authorization"),
    Tool(f"kafka-topics {_WRONG} --list", differs=TRACE, shows="SaslAuthenticationException"),
    Tool(f"{_ACLS} --list", sorted=True, shows="User:bob"),
    Tool(
        f"{_ACLS} --add --allow-principal User:carol --operation Read --operation Describe"
        " --topic orders --group *",
        sorted=True,
    ),
    Tool(
        f"{_ACLS} --add --deny-principal User:eve --deny-host 10.0.0.1 --operation All --topic ord"
        " --resource-pattern-type prefixed"
    ),
    Tool(
        f"{_ACLS} --add --allow-principal User:dan --producer --topic orders"
        " --transactional-id moves --idempotent",
        sorted=True,
    ),
    Tool(f"{_ACLS} --add --allow-principal User:c --consumer --topic o --group g", sorted=True),
    Tool(f"{_ACLS} --add --allow-principal nobody --operation Read --topic orders", differs=TRACE),
    Tool(f"{_ACLS} --list --topic orders --resource-pattern-type match", sorted=True),
    Tool(f"{_ACLS} --list --principal User:carol", sorted=True),
    Tool(f"{_ACLS} --remove --topic ord --resource-pattern-type prefixed --force"),
    Tool(
        f"{_ACLS} --remove --allow-principal User:carol --operation Read --topic orders --force",
        sorted=True,
    ),
    Tool(f"{_ACLS} --list", sorted=True, shows="User:dan"),
    Tool(
        f"kafka-acls {_BOB} --list",
        differs=TRACE,
        changes=_REFUSED,
        shows="ClusterAuthorizationException",
    ),
    Tool(
        f"kafka-acls {_BOB} --add --allow-principal User:bob --operation Read --topic orders",
        differs=TRACE,
        changes=_REFUSED,
        shows="ClusterAuthorizationException",
    ),
    Tool(
        f"{_USERS} --entity-name dave --alter"
        " --add-config SCRAM-SHA-256=[iterations=8192,password=dave-secret]"
    ),
    Tool(f"{_USERS} --entity-name dave --alter --add-config SCRAM-SHA-512=[password=other]"),
    Tool(f"{_USERS} --entity-name dave --describe", changes=_MECHANISMS, shows="iterations=8192"),
    Tool(f"{_USERS} --describe", changes=_MECHANISMS, sorted=True, shows="user-principal 'alice'"),
    Tool(f"{_USERS} --entity-name dave --alter --delete-config SCRAM-SHA-256"),
    Tool(
        f"{_USERS} --entity-name dave --alter --delete-config SCRAM-SHA-256",
        differs=TRACE,
        shows="Attempt to delete a user credential that does not exist",
    ),
    Tool(f"{_USERS} --entity-name dave --describe"),
    Tool(
        f"kafka-configs {_BOB} --entity-type users --describe",
        differs=TRACE,
        shows="ClusterAuthorizationException",
    ),
    Tool(
        f"kafka-configs {_BOB} --entity-type topics --entity-name orders --alter"
        " --add-config retention.ms=5000",
        differs=TRACE,
        shows="TopicAuthorizationException",
    ),
    Tool(f"kafka-configs {_ALICE} --entity-type topics --entity-name orders --describe"),
    Tool(
        f"kafka-configs {_ALICE} --entity-type brokers --entity-name 1 --alter"
        " --add-config log.cleaner.threads=2"
    ),
    Tool(f"kafka-console-producer {_ALICE} --topic orders", stdin="one\ntwo\nthree\n"),
    Tool(
        f"kafka-console-producer {_BOB} --topic orders",
        stdin="no\n",
        differs=TRACE,
        shows="TopicAuthorizationException",
    ),
    Tool(
        f"kafka-console-consumer {_ALICE} --topic orders --group readers --from-beginning"
        " --max-messages 3",
        sorted=True,
        shows="three",
    ),
    Tool(
        f"kafka-console-consumer {_BOB} --topic orders --group bobs --max-messages 1",
        differs=TRACE,
        shows="GroupAuthorizationException",
    ),
    Tool(f"kafka-get-offsets {_ALICE} --topic orders", sorted=True, changes=((r":\d+$", ""),)),
    Tool(f"{_GROUPS} --list"),
    Tool(f"{_GROUPS} --list --state"),
    Tool(
        f"{_GROUPS} --describe --group readers",
        sorted=True,
        changes=((r"(orders\s+\d\s+)\d+(\s+)\d+", r"\1<n>\2<n>"),),
    ),
    Tool(f"kafka-consumer-groups {_BOB} --list"),
    Tool(
        f"kafka-consumer-groups {_BOB} --describe --group readers",
        differs=TRACE,
        shows="GroupAuthorizationException",
    ),
    Tool(
        f"kafka-consumer-groups {_BOB} --delete --group readers",
        differs=TRACE,
        shows="GroupAuthorizationException",
    ),
    Tool(f"{_GROUPS} --reset-offsets --group readers --topic orders --to-earliest --execute"),
    Tool(f"{_GROUPS} --delete --group readers"),
    Tool(
        f"{_TOKENS} --create --renewer-principal User:bob --max-life-time-period -1",
        changes=_TOKEN_CHANGES,
        shows="User:bob",
    ),
    Tool(
        f"{_TOKENS} --describe --owner-principal User:alice",
        changes=_TOKEN_CHANGES,
        sorted=True,
        shows="User:bob",
    ),
    Tool(
        f"kafka-delegation-tokens {_BOB} --describe --owner-principal User:bob",
        changes=_TOKEN_CHANGES,
    ),
    Tool(
        f"{_ACLS} --add --allow-principal User:bob --operation CreateTokens"
        " --user-principal User:alice"
    ),
    Tool(
        f"kafka-delegation-tokens {_BOB} --create --owner-principal User:alice"
        " --max-life-time-period -1",
        changes=_TOKEN_CHANGES,
        shows="User:alice",
    ),
    Tool(f"kafka-delegation-tokens {_BOB} --describe", shows="Total number of tokens : 0"),
    Tool(
        f"kafka-delegation-tokens {_BOB} --describe --owner-principal User:alice",
        changes=_TOKEN_CHANGES,
        sorted=True,
        shows="User:alice +User:bob",
    ),
    Tool(f"{_TOKENS} --renew --hmac AAAA --renew-time-period -1", differs=TRACE),
    Tool(f"{_TOKENS} --expire --hmac AAAA --expiry-time-period -1", differs=TRACE),
    Tool(f"kafka-transactions {_ALICE} list"),
    Tool(f"kafka-log-dirs {_ALICE} --describe --topic-list orders"),
    Tool(f"kafka-log-dirs {_BOB} --describe --topic-list orders", differs=TRACE),
    Tool(
        f"kafka-metadata-quorum {_BOB} describe --status",
        differs=TRACE,
        shows="ClusterAuthorizationException",
    ),
]


def run(around: Surroundings) -> None:
    """Run every tool against both brokers and compare what they print."""
    setup = Setup(around.directory / "kafka-certificates")
    kafka = KafkaNode(around, setup=setup)
    child = kafka.start()
    setup.prepare()
    differences: list[str] = []
    brokers = {"kafka": setup, "ours": around.setup}
    places = [_place(around, each, name) for name, each in brokers.items()]
    for call in _CALLS:
        differences += compare(around, kafka, places, call)
    child.kill()
    if differences:
        raise Failed("\n".join(("tools print other lines:", *differences)))
    around.note(f"{len(_CALLS)} calls over SASL_SSL print the same lines")


def _place(around: Surroundings, setup: Setup, name: str) -> Place:
    """Write the properties of the users of a broker."""
    directory = around.directory / name
    directory.mkdir()
    users = {"alice": ("alice", None), "bob": ("bob", None), "wrong": ("alice", WRONG_PASSWORD)}
    for file, (user, password) in users.items():
        text = properties_text(setup.client_properties(_WAY, user, password))
        (directory / f"{file}.properties").write_text(text, encoding="utf-8")
    return Place(setup.bootstrap("SASL_SSL"), directory)
