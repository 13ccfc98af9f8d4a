"""KafkaJS with each mechanism and protocol, and the errors that it shows.

It cannot say that a user of SCRAM is a delegation token.
"""

import shutil
from pathlib import Path

from tests.interop.model import Surroundings
from tests.interop.programs._secured_cases import Errors, run_cases
from tests.interop.suites import built, call, need
from tests.live.secured.setup import FAILED_LOGINS

_SOURCE = Path(__file__).parent / "node" / "secured_clients.mjs"
_PACKAGE = "kafkajs@2.2.4"
_LOGINS = {
    name: f"KafkaJSSASLAuthenticationError: .*{text}" for name, text in FAILED_LOGINS.items()
}
SECURED = True
_ERRORS = Errors(
    # It takes the refusal of a token for success, and asks for metadata. Kafka's refusal of that
    # names the topics, and ours, which does not look at the request, none [security/login-states].
    logins=_LOGINS | {"OAUTHBEARER": "not valid given the current SASL state|Closed connection"},
    host="KafkaJSConnectionError: .*does not match certificate's altnames",
    topic="Not authorized to access topics",
    # So it says when it may not ask for the coordinator.
    group="KafkaJSGroupCoordinatorNotFound: Failed to find group coordinator",
)


def _install(folder: Path) -> None:
    call(["npm", "install", "--no-audit", "--no-fund", _PACKAGE], folder)


def run(around: Surroundings) -> None:
    """Install the library and run all cases."""
    for program in ("node", "npm"):
        need(program, "the library is installed and run with it")
    folder = built(_PACKAGE.replace("@", "-"), _install)
    shutil.copy(_SOURCE, folder)
    run_cases(around, ["node", _SOURCE.name], "KafkaJS", _ERRORS, folder=folder, has_tokens=False)
