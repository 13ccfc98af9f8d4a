"""Where a broker runs: listeners, advertised address and data directory."""

import pytest

from coterie.address import Address
from coterie.server.config.config import Config
from coterie.server.config.listeners import Listener, ListenerSettings, SecurityProtocol
from coterie.server.config.place import Place, PlaceOptions, decide_place
from coterie.server.config.sources import ConfigError

KRAFT = """process.roles=broker,controller
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
"""


def decide(properties: str = "", options: PlaceOptions | None = None) -> Place:
    config = Config.load([], {}, properties, "x.properties")
    return decide_place(config, PlaceOptions() if options is None else options)


def test_defaults() -> None:
    assert decide() == Place((Listener(Address("127.0.0.1", 9092)),), "./coterie-data", ())


class TestListeners:
    """[settings/listeners]"""

    @pytest.mark.parametrize(
        ("properties", "name", "host", "port"),
        [
            ("listeners=PLAINTEXT://127.0.0.1:9094", "PLAINTEXT", "127.0.0.1", 9094),
            ("listeners=plaintext://localhost:0", "PLAINTEXT", "localhost", 0),
            ("listeners=PLAINTEXT://[::1]:9094", "PLAINTEXT", "::1", 9094),
            (KRAFT, "PLAINTEXT", "127.0.0.1", 9092),
            (
                (
                    "listeners=EXTERNAL://localhost:9094\n"
                    "listener.security.protocol.map=EXTERNAL:PLAINTEXT,INTERNAL:SSL"
                ),
                "EXTERNAL",
                "localhost",
                9094,
            ),
            (
                "listeners=CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER",
                "PLAINTEXT",
                "127.0.0.1",
                9092,
            ),
        ],
    )
    def test_the_listener_for_clients(
        self, properties: str, name: str, host: str, port: int
    ) -> None:
        (listener,) = decide(properties).listeners
        assert (listener.name, listener.address) == (name, Address(host, port))
        assert listener.protocol is SecurityProtocol.PLAINTEXT

    @pytest.mark.parametrize(
        ("properties", "text"),
        [
            ("listeners=nonsense", "nonsense is not NAME://HOST:PORT"),
            ("listeners=PLAINTEXT://h:70000", "PLAINTEXT://h:70000 is not NAME://HOST:PORT"),
            ("listeners=A_B://h:1,P(x)://h:2", "P(x)://h:2 is not NAME://HOST:PORT"),
            (
                "listeners=PLAINTEXT://localhost:1,SSL://localhost:1",
                "2 listeners have port 1. Give each a port of its own.",
            ),
            (
                "listeners=PLAINTEXT://127.0.0.1:1,SSL://[::1]:1,SASL_SSL://:1",
                "3 listeners have port 1. Give each a port of its own.",
            ),
            (
                "listeners=PLAINTEXT://localhost:1,plaintext://localhost:2",
                "listener PLAINTEXT is named twice. Give each listener a name of its own",
            ),
            ("listeners=EXTERNAL://localhost:1", "Add EXTERNAL:PLAINTEXT to listener.security"),
            (
                "process.roles=controller\nlisteners=CONTROLLER://:9093",
                "describes a node without a broker",
            ),
        ],
    )
    def test_what_is_not_served_is_refused(self, properties: str, text: str) -> None:
        with pytest.raises(ConfigError) as caught:
            decide(properties)
        assert str(caught.value).startswith("x.properties, line 1: ")
        assert text in str(caught.value)


class TestSeveralListeners:
    """[settings/listeners] [security/prefixed-settings]"""

    MANY = (
        "listeners=PLAINTEXT://127.0.0.1:9092,secure://127.0.0.1:9093,SASL_SSL://[::1]:9092\n"
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SECURE:ssl,SASL_SSL:SASL_SSL\n"
    )

    def test_each_has_its_protocol(self) -> None:
        assert [(str(each), each.protocol.name) for each in decide(self.MANY).listeners] == [
            ("PLAINTEXT://127.0.0.1:9092", "PLAINTEXT"),
            ("SECURE://127.0.0.1:9093", "SSL"),
            ("SASL_SSL://[::1]:9092", "SASL_SSL"),
        ]

    def test_some_are_advertised(self) -> None:
        advertised = "advertised.listeners=SECURE://h:7,PLAINTEXT://h:7"
        listeners = decide(self.MANY + advertised).listeners
        assert [each.is_advertised for each in listeners] == [True, True, False]
        assert [each.advertised for each in listeners] == [Address("h", 7), Address("h", 7), None]

    @pytest.mark.parametrize(
        "options", [PlaceOptions(port=1), PlaceOptions(host="::1"), PlaceOptions(advertise="h:1")]
    )
    def test_options_are_for_one_listener(self, options: PlaceOptions) -> None:
        with pytest.raises(ConfigError, match=r"is for one listener.*line 1 has 3 .*Change the"):
            decide(self.MANY, options)

    def test_a_map_without_sense_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="line 1: A:TLS is not NAME:PROTOCOL with one of"):
            decide("listener.security.protocol.map=A:TLS\nlisteners=A://:1")

    def test_a_prefixed_setting_beats_that_of_the_broker(self) -> None:
        config = Config.load(
            [
                "ssl.client.auth=required",
                "listener.name.a.ssl.client.auth=requested",
                "listener.name.b.scram-sha-256.connections.max.reauth.ms=7",
                "listener.name.b.connections.max.reauth.ms=8",
            ]
        )
        first, second = (ListenerSettings(config, name) for name in ("A", "B"))
        assert first.text("ssl.client.auth") == "requested"
        assert second.text("ssl.client.auth") == "required"
        assert second.own_text("ssl.client.auth") is None
        assert first.value("connections.max.reauth.ms") == 0
        assert second.value("connections.max.reauth.ms", "SCRAM-SHA-256") == 7
        assert second.value("connections.max.reauth.ms", "PLAIN") == 8
        assert second.origin("connections.max.reauth.ms").startswith("--config listener.name.b.c")


class TestAdvertisedListeners:
    """[settings/listeners]"""

    @pytest.mark.parametrize(
        ("properties", "advertise"),
        [
            (KRAFT, Address("localhost", 9092)),
            ("advertised.listeners=PLAINTEXT://example.org:7", Address("example.org", 7)),
            ("advertised.listeners=PLAINTEXT://:7", None),
            (
                (
                    "listeners=A://localhost:1\nadvertised.listeners=A://h:2\n"
                    "listener.security.protocol.map=A:PLAINTEXT"
                ),
                Address("h", 2),
            ),
        ],
    )
    def test_the_address_that_clients_are_told(
        self, properties: str, advertise: Address | None
    ) -> None:
        assert decide(properties).listeners[0].advertised == advertise

    @pytest.mark.parametrize(
        ("setting", "text"),
        [
            ("PLAINTEXT://0.0.0.0:1", "clients cannot connect to 0.0.0.0"),
            ("PLAINTEXT://a:1,OTHER://b:1", "names OTHER, but the listeners for clients are PLAIN"),
            ("OTHER://a:1", "Advertise one of these, or add OTHER to listeners."),
        ],
    )
    def test_what_cannot_be_advertised_is_refused(self, setting: str, text: str) -> None:
        names = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT"
        with pytest.raises(ConfigError) as caught:
            decide(f"advertised.listeners={setting}\n{names}")
        assert text in str(caught.value)


class TestLoopback:
    """[settings/loopback-by-default]"""

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
    def test_other_machines_are_let_in_only_on_request(self, host: str) -> None:
        bracketed = f"[{host}]" if ":" in host else host
        properties = f"listeners=PLAINTEXT://{bracketed}:9092\n"
        advertised = f"{properties}advertised.listeners=PLAINTEXT://example.org:9092"
        for given, options in (
            (advertised, PlaceOptions()),
            ("", PlaceOptions(host=host, advertise="example.org:9092")),
        ):
            with pytest.raises(ConfigError, match="--allow-remote"):
                decide(given, options)
            assert decide(given, options._replace(allow_remote=True)).host == host

    @pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
    def test_a_wildcard_needs_an_advertised_address(self, host: str) -> None:
        bracketed = f"[{host}]" if ":" in host else host
        properties = f"listeners=PLAINTEXT://{bracketed}:9092"
        for given, options in (
            (properties, PlaceOptions(allow_remote=True)),
            ("", PlaceOptions(host=host, allow_remote=True)),
        ):
            with pytest.raises(ConfigError, match="--advertise HOST:PORT"):
                decide(given, options)

    @pytest.mark.parametrize(
        ("properties", "host"),
        [
            ("listeners=SASL_PLAINTEXT://192.0.2.1:1", "192.0.2.1"),
            ("listeners=SASL_SSL://:1", "127.0.0.1"),
            ("listeners=SASL_SSL://:1\nadvertised.listeners=SASL_SSL://h:1", ""),
            ("listeners=SSL://192.0.2.1:1\nssl.client.auth=required", "192.0.2.1"),
            (
                "listeners=SSL://192.0.2.1:1\nlistener.name.ssl.ssl.client.auth=required",
                "192.0.2.1",
            ),
        ],
    )
    def test_clients_with_credentials_may_be_elsewhere(self, properties: str, host: str) -> None:
        assert decide(properties).listeners[0].address.host == host

    @pytest.mark.parametrize("host", ["192.0.2.1", "127.evil.example", "localhost.example"])
    def test_unsigned_tokens_are_no_authentication(self, host: str) -> None:
        """[security/oauthbearer]"""
        given = f"listeners=SASL_SSL://{host}:1\nsasl.enabled.mechanisms=PLAIN,OAUTHBEARER"
        with pytest.raises(ConfigError, match=r"nobody has signed: .* --insecure-oauth"):
            decide(given, PlaceOptions(allow_remote=True))
        assert decide(given, PlaceOptions(insecure_oauth=True)).host == host
        handler = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
        setting = "listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class"
        assert decide(f"{given}\n{setting}={handler}").host == host
        assert decide(given.replace(host, "127.0.0.1")).host == "127.0.0.1"
        assert decide(given.replace(",OAUTHBEARER", "")).host == host

    def test_encryption_is_no_authentication(self) -> None:
        with pytest.raises(ConfigError, match=r"Set ssl\.client\.auth=required\. Add --allow-r"):
            decide("listeners=SSL://192.0.2.1:1\nssl.client.auth=requested")

    def test_a_listener_without_host_is_for_this_machine_unless_allowed(self) -> None:
        assert decide(KRAFT).host == "127.0.0.1"
        assert decide(KRAFT, PlaceOptions(allow_remote=True)).host == ""


class TestDataDirectory:
    """[settings/options-replace]"""

    @pytest.mark.parametrize(
        ("properties", "directory"),
        [
            ("log.dirs=/a", "/a"),
            ("log.dir=/b", "/b"),
            ("log.dir=/b\nlog.dirs=/a", "/a"),
            ("log.dirs=\nlog.dir=/b", "/b"),
        ],
    )
    def test_the_directory(self, properties: str, directory: str) -> None:
        assert decide(properties).data_dir == directory

    def test_several_directories_are_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"line 1: log\.dirs names 2 directories"):
            decide("log.dirs=/a,/b")


class TestOptions:
    """Options replace settings, and say so [settings/options-replace]."""

    def test_each_option_names_what_it_replaces(self) -> None:
        properties = f"{KRAFT}log.dirs=/a\n"
        place = decide(properties, PlaceOptions(port=9099, data_dir=":memory:"))
        assert place.listeners == (Listener(Address("127.0.0.1", 9099)),)
        assert place.data_dir == ":memory:"
        assert place.replaced == (
            "--port 9099 replaces listeners (x.properties, line 2)",
            "--port 9099 replaces advertised.listeners (x.properties, line 3)",
            "--data-dir :memory: replaces log.dirs (x.properties, line 5)",
        )
        place = decide(KRAFT, PlaceOptions(host="::1"))
        assert (place.host, place.port) == ("::1", 9092)
        assert place.listeners[0].advertised == Address("localhost", 9092)
        place = decide(KRAFT, PlaceOptions(port=1, advertise="h:2"))
        assert place.listeners[0].advertised == Address("h", 2)

    def test_nothing_is_said_where_nothing_is_replaced(self) -> None:
        options = PlaceOptions("127.0.0.1", 1, "h:2", "/d")
        assert decide("num.io.threads=3", options).replaced == ()

    @pytest.mark.parametrize(
        ("setting", "options"),
        [
            ("listeners=PLAINTEXT://localhost:1", PlaceOptions(port=2)),
            ("listeners=PLAINTEXT://localhost:1", PlaceOptions(host="::1")),
            ("advertised.listeners=PLAINTEXT://h:1", PlaceOptions(advertise="h:2")),
            ("log.dirs=/a", PlaceOptions(data_dir="/b")),
        ],
    )
    def test_two_options_for_one_thing_are_refused(
        self, setting: str, options: PlaceOptions
    ) -> None:
        with pytest.raises(ConfigError, match="contradict each other; give one of them"):
            decide_place(Config.load([setting]), options)

    def test_an_address_that_is_none_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="--advertise: 'nonsense' is not HOST:PORT"):
            decide("", PlaceOptions(advertise="nonsense"))
