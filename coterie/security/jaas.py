"""The text of a JAAS configuration, as `sasl.jaas.config` has it.

    org.apache.kafka.common.security.plain.PlainLoginModule required
        user_alice="secret" user_bob="other";

The class is a word of a closed list here: nothing is loaded by name [security/login-settings]. The
words are those of Java's StreamTokenizer, which Kafka reads the text with.
"""

import re
from typing import NamedTuple

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
LOGIN_MODULES = (PLAIN_MODULE, SCRAM_MODULE, OAUTHBEARER_MODULE)

_FLAGS = ("required", "requisite", "sufficient", "optional")
_SPACE = r"(?:\s|//[^\n]*|/\*.*?\*/)*"
_TOKEN = re.compile(
    rf"""{_SPACE}(?:
        (?P<word>[A-Za-z_$\x80-\U0010ffff][A-Za-z0-9_$.\-\x80-\U0010ffff]*)
        | "(?P<double>(?:[^"\\\r\n]|\\.)*)"
        | '(?P<single>(?:[^'\\\r\n]|\\.)*)'
        | (?P<sign>[=;])
        | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPED = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class JaasError(ValueError):
    """A text is no JAAS configuration. The error does not show it, because it has passwords."""


class LoginModule(NamedTuple):
    """The one entry of a configuration.

    Attributes:
        name: its class.
        options: its options.
    """

    name: str
    options: dict[str, str]

    @property
    def users(self) -> dict[str, str]:
        """The passwords of the users, which PLAIN has as options `user_NAME`."""
        prefix = "user_"
        return {
            key.removeprefix(prefix): value
            for key, value in self.options.items()
            if key.startswith(prefix)
        }


class _Reader:
    """The tokens of a text, one after another."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0

    def next(self) -> tuple[str, str]:
        """Return the kind of the next token, and its text."""
        found = _TOKEN.match(self._text, self._position)
        if found is None:
            line = self._text.count("\n", 0, self._position) + 1
            raise JaasError(f"no word, quoted text, = or ; follows in line {line}")
        self._position = found.end()
        kind = found.lastgroup
        assert kind is not None, "each alternative has a name"
        if kind in ("double", "single"):
            return "text", _ESCAPE.sub(_unescaped, found[kind])
        return kind, found[kind]

    def expect(self, kinds: tuple[str, ...], what: str) -> str:
        """Return the text of the next token, which must be of one of some kinds."""
        kind, text = self.next()
        if kind not in kinds:
            raise JaasError(f"{what} is missing")
        return text


def parse_jaas(text: str) -> LoginModule:
    """Parse the text of one entry.

    Raises:
        JaasError: it is none, or its class is no login module that is known here.
    """
    reader = _Reader(text)
    name = reader.expect(("word", "text"), "the class of a login module")
    if name not in LOGIN_MODULES:
        known = ", ".join(each.rpartition(".")[2] for each in LOGIN_MODULES)
        raise JaasError(f"the login module is not one of {known}, with Kafka's package before it")
    flag = reader.expect(("word", "text"), f"one of {', '.join(_FLAGS)} behind the class")
    if flag.lower() not in _FLAGS:
        raise JaasError(f"behind the class is one of {', '.join(_FLAGS)}")
    options: dict[str, str] = {}
    while True:
        kind, key = reader.next()
        if (kind, key) == ("sign", ";"):
            break
        if kind not in ("word", "text"):
            raise JaasError("the entry does not end with ;")
        if reader.next() != ("sign", "="):
            raise JaasError("an option has no = behind its name")
        options[key] = reader.expect(("word", "text"), "the value of an option")
    if reader.next()[0] != "end":
        raise JaasError("there is more than one login module")
    return LoginModule(name, options)


def _unescaped(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _ESCAPED.get(code, code)
