"""docs/configuration.md agrees with the code; `--rewrite` writes its table anew."""

import re
from pathlib import Path

from coterie.server.config.broker_keys import BROKER
from coterie.server.config.config import Config
from coterie.server.config.keys import ConfigKey, UpdateMode

DOCUMENT = Path(__file__).parents[3] / "docs" / "configuration.md"
HEAD = "| setting | default | meaning | may be altered |\n|---|---|---|---|\n"


def row(key: ConfigKey) -> str:
    default = "" if key.default in (None, "") else f"`{key.default}`"
    altered = "" if key.update is UpdateMode.READ_ONLY else "yes"
    return f"| `{key.name}` | {default} | {key.documentation} | {altered} |\n"


def test_the_table_is_that_of_the_code(rewrite: bool) -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    before, head, rest = text.partition(HEAD)
    assert head
    rows = re.match(r"(\|.*\n)*", rest)
    assert rows is not None
    table = "".join(row(BROKER[name]) for name in sorted(BROKER))
    if rewrite:
        DOCUMENT.write_text(before + head + table + rest[rows.end() :], encoding="utf-8")
    else:
        assert rows[0] == table


def test_the_examples_are_accepted() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    commands = re.findall(r"^ +coterie serve .*", text, re.MULTILINE)
    options = re.findall(r"--config (\S+)", " ".join(commands))
    variables = dict(re.findall(r"^ +(COTERIE_\w+)=(\S+)", text, re.MULTILINE))
    assert (len(options), len(variables)) == (2, 1)
    Config.load(options, variables)
