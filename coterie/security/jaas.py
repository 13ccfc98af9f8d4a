"""JAAS text: the login module that a client or a listener names, and its options.

A text has one entry: the class, a control flag, options as `key=value` or `key="value"` with `\\"`
inside, and a semicolon. The classes are words here; nothing is loaded by its name.
"""

import re
from typing import NamedTuple

_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(r'\s*(?:([\w.$-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;"]+))|([\w.$-]+)|(;))')


class JaasError(ValueError):
    """The text is no JAAS entry; the message does not repeat values, which may be secrets."""


class JaasEntry(NamedTuple):
    """A login module.

    Attributes:
        module: the class.
        options: its options.
    """

    module: str
    options: dict[str, str]

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"JaasEntry({self.module}, {sorted(self.options)})"


def parse_jaas(text: str) -> JaasEntry:
    """Return the entry of a text.

    Raises:
        JaasError: the text is not one entry.
    """
    words: list[str] = []
    options: dict[str, str] = {}
    position, ended = 0, False
    text = text.strip()
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None or ended:
            raise JaasError(f"it cannot be read from character {position + 1} on")
        key, quoted, bare, word, end = found.groups()
        if key is not None:
            options[key] = bare if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        elif word is not None:
            words.append(word)
        ended = end is not None
        position = found.end()
    if len(words) != 2 or words[1].lower() not in _FLAGS:
        raise JaasError("it does not begin with a class and a flag such as `required`")
    if not ended:
        raise JaasError("it does not end with a semicolon")
    return JaasEntry(words[0], options)
