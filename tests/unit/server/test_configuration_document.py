"""The examples of docs/configuration.md are accepted; the page of the settings has the reasons."""

import re
from pathlib import Path

from coterie.server.config.config import Config
from coterie.server.config.kafka_keys import reasons
from documentation.reference.settings import settings_page

DOCUMENT = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_says_why_a_setting_has_no_effect() -> None:
    _, _, text = settings_page().partition("## Settings of brokers without an effect\n")
    assert set(re.findall(r"`([\w.*]+)`", text)) >= reasons().keys()


def test_the_examples_are_accepted() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    commands = re.findall(r"^ +coterie serve .*", text, re.MULTILINE)
    options = re.findall(r"--config (\S+)", " ".join(commands))
    variables = dict(re.findall(r"^ +(COTERIE_\w+)=(\S+)", text, re.MULTILINE))
    assert (len(options), len(variables)) == (2, 1)
    Config.load(options, variables)
