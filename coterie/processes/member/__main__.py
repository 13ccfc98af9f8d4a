"""The command line of a member; see the package for what a member does."""

import importlib
import sys

from coterie.processes.member.application import Application, parser

# Only the chosen library is imported: if it is an old one, the others may not work beside it.
_MODULES = {
    "kafka-python": "kafka_python",
    "aiokafka": "aiokafka_member",
    "confluent": "confluent",
    "confluent-share": "confluent_share",
}


def main() -> int:
    """Run the member and return the exit code."""
    options = parser()
    options.add_argument("--library", choices=sorted(_MODULES), required=True)
    application = Application(options.parse_args())
    library = application.options.library
    module = importlib.import_module(f"coterie.processes.member.{_MODULES[library]}")
    application.write("ready")
    application.wait_join()
    code: int = module.run(application)
    application.write("closed", code=code)
    return code


if __name__ == "__main__":
    sys.exit(main())
