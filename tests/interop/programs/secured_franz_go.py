"""franz-go with each mechanism and protocol, and the errors that it shows."""

from pathlib import Path

from tests.interop.go_suites import build_source
from tests.interop.model import Surroundings
from tests.interop.programs._secured_cases import Errors, run_cases
from tests.live.secured.setup import FAILED_LOGINS

SOURCES = Path(__file__).parent / "go"
MODULE, VERSION = "github.com/twmb/franz-go", "v1.22.2"
SECURED = True
_ERRORS = Errors(
    logins=FAILED_LOGINS | {"OAUTHBEARER": "unexpected data in oauth response"},
    host="x509: certificate is not valid|cannot validate certificate",
    topic="TOPIC_AUTHORIZATION_FAILED",
    group="GROUP_AUTHORIZATION_FAILED",
)


def run(around: Surroundings) -> None:
    """Build the program and run all cases."""
    folder = around.directory / "go"
    build_source(folder, SOURCES / "secured_clients.go", MODULE, VERSION)
    run_cases(around, [str(folder / "program")], "franz-go", _ERRORS)
