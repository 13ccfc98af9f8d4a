"""docs/configuration.md agrees with the code; `--rewrite` writes its lists anew."""

import re
from collections.abc import Iterable
from pathlib import Path

from coterie.server.config.broker_keys import BROKER
from coterie.server.config.config import Config
from coterie.server.config.kafka_keys import reasons
from coterie.server.config.keys import ConfigKey, UpdateMode

DOCUMENT = Path(__file__).parents[3] / "docs" / "configuration.md"
HEAD = "<!-- settings -->\n"
HEAD_WITHOUT_EFFECT = "<!-- settings without effect -->\n"


OURS = ("event.loop.", "journal.")
GROUP_TYPES = ("group.consumer.", "group.share.", "group.streams.")


def written(key: ConfigKey) -> str:
    default = "" if key.default in (None, "") else f" {key.default}"
    mark = "" if key.update is UpdateMode.READ_ONLY else "\N{DAGGER}"
    return f"`{key.name}`{mark}{default}"


def lines_of_settings() -> str:
    """Return a line for the settings of each subject, and one with its text for each of ours."""
    lines: dict[str, list[str]] = {}
    for key in (BROKER[name] for name in sorted(BROKER)):
        if key.name.startswith(OURS):
            lines[key.name] = [f"{written(key)}: {key.documentation}"]
        else:
            subject = next(filter(key.name.startswith, GROUP_TYPES), key.name.partition(".")[0])
            lines.setdefault(subject, []).append(written(key))
    return "".join(f"- {', '.join(found)}\n" for found in lines.values())


def lines_by_text(texts: Iterable[tuple[str, str]]) -> str:
    """Return a line for each text, with all that it is about."""
    names: dict[str, list[str]] = {}
    for name, text in texts:
        names.setdefault(text, []).append(name)
    return "".join(f"- {', '.join(found)}: {text}\n" for text, found in names.items())


def check_list(head: str, lines: str, *, rewrite: bool) -> None:
    """Compare the list that begins with `head` with the one of the code, or write it anew."""
    text = DOCUMENT.read_text(encoding="utf-8")
    before, found, rest = text.partition(head)
    assert found
    found_lines = re.match(r"(- .*\n)*", rest)
    assert found_lines is not None
    if rewrite:
        DOCUMENT.write_text(before + head + lines + rest[found_lines.end() :], encoding="utf-8")
    else:
        assert found_lines[0] == lines


def test_the_list_is_that_of_the_code(rewrite: bool) -> None:
    check_list(HEAD, lines_of_settings(), rewrite=rewrite)


def test_the_list_of_settings_without_effect_is_that_of_the_code(rewrite: bool) -> None:
    lines = lines_by_text((f"`{name}`", reason) for name, reason in sorted(reasons().items()))
    check_list(HEAD_WITHOUT_EFFECT, lines, rewrite=rewrite)


def test_the_examples_are_accepted() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    commands = re.findall(r"^ +coterie serve .*", text, re.MULTILINE)
    options = re.findall(r"--config (\S+)", " ".join(commands))
    variables = dict(re.findall(r"^ +(COTERIE_\w+)=(\S+)", text, re.MULTILINE))
    assert (len(options), len(variables)) == (2, 1)
    Config.load(options, variables)
