"""docs/configuration.md agrees with the code; `--rewrite` writes its table anew."""

import re
from pathlib import Path

from coterie.server.config.broker_keys import BROKER
from coterie.server.config.config import Config
from coterie.server.config.kafka_keys import reasons
from coterie.server.config.keys import ConfigKey, UpdateMode

DOCUMENT = Path(__file__).parents[3] / "docs" / "configuration.md"
HEAD = "| setting | default | meaning |\n|---|---|---|\n"


HEAD_WITHOUT_EFFECT = "| settings | why they have no effect |\n|---|---|\n"


def row(key: ConfigKey) -> str:
    default = "" if key.default in (None, "") else f"`{key.default}`"
    mark = "" if key.update is UpdateMode.READ_ONLY else "*"
    return f"| `{key.name}`{mark} | {default} | {key.documentation} |\n"


def rows_by_reason() -> str:
    """Return a row for each reason, with all settings that have it."""
    names: dict[str, list[str]] = {}
    for name, reason in sorted(reasons().items()):
        names.setdefault(reason, []).append(f"`{name}`")
    return "".join(f"| {', '.join(found)} | {reason} |\n" for reason, found in names.items())


def check_table(head: str, table: str, *, rewrite: bool) -> None:
    """Compare the table that begins with `head` with the one of the code, or write it anew."""
    text = DOCUMENT.read_text(encoding="utf-8")
    before, found, rest = text.partition(head)
    assert found
    rows = re.match(r"(\|.*\n)*", rest)
    assert rows is not None
    if rewrite:
        DOCUMENT.write_text(before + head + table + rest[rows.end() :], encoding="utf-8")
    else:
        assert rows[0] == table


def test_the_table_is_that_of_the_code(rewrite: bool) -> None:
    table = "".join(row(BROKER[name]) for name in sorted(BROKER))
    check_table(HEAD, table, rewrite=rewrite)


def test_the_table_of_settings_without_effect_is_that_of_the_code(rewrite: bool) -> None:
    check_table(HEAD_WITHOUT_EFFECT, rows_by_reason(), rewrite=rewrite)


def test_the_examples_are_accepted() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    commands = re.findall(r"^ +coterie serve .*", text, re.MULTILINE)
    options = re.findall(r"--config (\S+)", " ".join(commands))
    variables = dict(re.findall(r"^ +(COTERIE_\w+)=(\S+)", text, re.MULTILINE))
    assert (len(options), len(variables)) == (2, 1)
    Config.load(options, variables)
