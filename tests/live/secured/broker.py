"""Our broker with all listeners of `Setup`, as a process."""

from collections.abc import Mapping
from pathlib import Path

from coterie.storage.properties import properties_text
from tests.live.broker_process import FAST_GROUPS, BrokerProcess
from tests.live.secured.setup import Setup


class SecuredBroker(BrokerProcess):
    """A broker that can be started in a directory, with users, rules and tokens.

    Attributes:
        setup: its certificates, listeners and users.
    """

    def __init__(self, directory: Path, config: Mapping[str, str] | None = None) -> None:
        """Describe a broker.

        Args:
            directory: has all of its files.
            config: further settings.
        """
        super().__init__(directory / "data", {**FAST_GROUPS, **(config or {})})
        self.setup = Setup(directory / "certificates")
        self.port = self.setup.ports["PLAINTEXT"]
        self.bootstrap = self.setup.bootstrap("PLAINTEXT")
        self._properties = directory / "server.properties"

    def command(self) -> list[str]:
        """Return the command line: the settings are in a file, as an operator has them."""
        settings = {**self.config, **self.setup.settings()}
        self._properties.write_text(properties_text(settings), encoding="utf-8")
        place = ["--properties", str(self._properties), "--data-dir", str(self.data_dir)]
        program, *_ = super().command()
        return [program, "serve", *place]
