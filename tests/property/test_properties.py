"""Properties files: whatever is written is read back, however the file is laid out."""

from hypothesis import given
from hypothesis import strategies as st

from coterie.storage.properties import PropertiesError, properties_text, read_properties

AWKWARD = st.sampled_from(list(" \t\f\\=:#!nrtfu\u00e9\u2028\x0b\x1c\x85😀a0\n\r"))
# Lone surrogates included: Java's strings may hold them.
TEXT = st.text(AWKWARD | st.characters(codec="utf-16"), max_size=12)
LINE_ENDS = st.sampled_from(["\n", "\r", "\r\n"])
BLANKS = st.text(st.sampled_from(" \t\f"), max_size=3)


@given(st.dictionaries(TEXT, TEXT, max_size=5))
def test_what_is_written_is_read_back(properties: dict[str, str]) -> None:
    text = properties_text(properties)
    assert text.isascii()
    assert read_properties(text) == properties


@given(st.dictionaries(TEXT, TEXT, min_size=1, max_size=3), LINE_ENDS, BLANKS, st.data())
def test_layout_does_not_change_the_meaning(
    properties: dict[str, str], line_end: str, blanks: str, data: st.DataObject
) -> None:
    """Comments, blank lines, indentation, line ends and continued lines are layout."""
    lines = []
    for line in properties_text(properties).splitlines():
        # A line may be continued anywhere but inside an escape, or before a blank that counts.
        places = [
            at
            for at in range(1, len(line))
            if "\\" not in line[max(0, at - 5) : at] and line[at] != " "
        ]
        at = data.draw(st.sampled_from([*places, len(line)]))
        if at < len(line):
            line = f"{line[:at]}\\{line_end}{blanks}{line[at:]}"
        lines += [f"{blanks}# a comment \\", f"{blanks}{line}", blanks]
    assert read_properties(line_end.join(lines)) == properties


@given(st.text(AWKWARD, max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        properties = read_properties(text)
    except PropertiesError:
        return
    assert read_properties(properties_text(properties)) == properties
