"""franz-go with each mechanism and protocol, and the errors that it shows."""

import shutil
from pathlib import Path

from tests.interop.model import Surroundings
from tests.interop.programs._secured_cases import Errors, run_cases
from tests.interop.suites import call, need
from tests.live.secured.setup import FAILED_LOGINS

_SOURCE = Path(__file__).parent / "go" / "secured_clients.go"
_MODULE = """module secured

go 1.24.0

require github.com/twmb/franz-go v1.22.2
"""
SECURED = True
_ERRORS = Errors(
    logins=FAILED_LOGINS | {"OAUTHBEARER": "unexpected data in oauth response"},
    host="x509: certificate is not valid|cannot validate certificate",
    topic="TOPIC_AUTHORIZATION_FAILED",
    group="GROUP_AUTHORIZATION_FAILED",
)


def run(around: Surroundings) -> None:
    """Build the program and run all cases."""
    need("go", "the program is built with it")
    folder = around.directory / "go"
    folder.mkdir()
    (folder / "go.mod").write_text(_MODULE, encoding="utf-8")
    shutil.copy(_SOURCE, folder)
    call(["go", "mod", "tidy"], folder)
    call(["go", "build", "-p", "1", "-o", "secured", "."], folder)
    run_cases(around, [str(folder / "secured")], "franz-go", _ERRORS)
