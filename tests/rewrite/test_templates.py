"""What stays of a text: found again in every version that it was made of."""

from __future__ import annotations

from time import process_time

from hypothesis import given, settings
from hypothesis import strategies as st

from agentaccel.rewrite.templates import Template, merged, units_of, with_holes
from tests.anything import CHARACTERS

LINES = st.lists(st.sampled_from([f"Rule {n}: look before you speak.\n" for n in range(9)] + ["\n", "x\n"]), max_size=9)
TEXTS = st.one_of(LINES.map("".join), st.text(CHARACTERS, max_size=400), st.text("ab. \n", max_size=900))


@given(TEXTS, st.booleans())
def test_units_make_up_their_text(text: str, words: bool) -> None:
    assert "".join(units_of(text, words=words)) == text


@settings(max_examples=3 * settings.default.max_examples)
@given(st.lists(LINES, min_size=1, max_size=4))
def test_what_stays_is_found_in_the_last_version_and_never_grows(versions: list[list[str]]) -> None:
    """Each version takes something away from what stays, or nothing."""
    template = Template((units_of("".join(versions[0])),))
    for version in versions[1:]:
        units = units_of("".join(version))
        before = template.stable
        if template.match(units) is None:
            template = merged(template, units)
        holes = template.match(units)
        assert holes is not None
        assert len(holes) == template.holes
        assert template.stable <= before


@given(LINES, st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=3))
def test_holes_that_are_asked_for_are_holes(lines: list[str], asked: list[tuple[int, int]]) -> None:
    """Where a line stands twice a hole may be found at the other one; what stays is the same."""
    units = units_of("".join(lines))
    holes = [(min(a, b), max(a, b)) for a, b in asked if max(a, b) <= len(units)]
    template = with_holes(units, holes)
    found = template.match(units)
    assert found is not None
    stays = sum(len(unit) for unit in units) - sum(len(unit) for start, end in found for unit in units[start:end])
    assert stays == template.stable


def test_a_clock_in_the_middle_leaves_the_rest() -> None:
    one, other = (units_of(f"You are Ada, an agent.\nIt is {time}.\nBe brief and kind.\n") for time in ("1:01", "1:02"))
    template = merged(Template((one,)), other)
    assert template.runs == (("You are Ada, an agent.\n",), ("Be brief and kind.\n",))
    assert template.match(other) == ((1, 2),)


def test_long_lines_are_taken_by_sentences_and_long_sentences_by_words() -> None:
    sentence = "a" * 100 + ". "
    assert units_of(sentence * 3) == (sentence,) * 3
    assert units_of("word " * 100) == ("word ",) * 100


def test_a_long_table_that_changes_everywhere_takes_no_time() -> None:
    """Rows that are alike, between ones that are not: half a minute for a comparison that looks at all pairs."""
    one, other = (tuple("- item\n" if i % 3 else f"x {i * 7 + day}\n" for i in range(1498)) for day in (0, 1))
    start = process_time()
    template = merged(Template((("You are Ada.\n", *one),)), ("You are Ada.\n", *other))
    assert process_time() - start < 3.0
    assert template.holes == 1
    assert template.match(("You are Ada.\n", *other)) is not None
