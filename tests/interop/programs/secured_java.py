"""Kafka's own client with each mechanism and protocol, and the errors that it shows.

One program has a producer and a consumer of each case of `_secured_cases`.
"""

from coterie.lab.live.parts import KAFKA_4_TOOLS, compile_java, jars_of, java_command
from tests.interop.model import Surroundings
from tests.interop.programs._java import OPTIONS, SOURCES
from tests.interop.programs._secured_cases import Errors, run_cases
from tests.live.secured.setup import FAILED_LOGINS

SECURED = True
_ERRORS = Errors(
    logins={
        mechanism: rf"^org\S*SaslAuthenticationException: .*{text}"
        for mechanism, text in FAILED_LOGINS.items()
    },
    host=r"^org\S*SslAuthenticationException: .*No subject alternative names matching",
    topic="^org.apache.kafka.common.errors.TopicAuthorizationException: Not authorized",
    group="^org.apache.kafka.common.errors.GroupAuthorizationException: Not authorized",
)


def run(around: Surroundings) -> None:
    """Run all cases."""
    jars = jars_of(KAFKA_4_TOOLS, around.note)
    sources = [SOURCES / "SecuredClients.java"]
    classes = compile_java(jars, sources, around.directory / "classes")
    command = java_command(jars, "SecuredClients", options=OPTIONS, classes=[classes])
    run_cases(around, command, "java", _ERRORS)
