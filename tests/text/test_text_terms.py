"""The words of every script, identifiers and dates: what is asked for finds what is written."""

from __future__ import annotations

import base64
import hashlib
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.text.terms import TakenApart, index_terms, query_terms
from sidecar.text.tokens import TERM_BYTES

ANY_TEXT = st.text(st.characters(), max_size=60)
HASH = hashlib.sha256(b"key").hexdigest()
BASE64 = base64.b64encode(hashlib.sha512(b"run").digest()).decode()[:80]
COMPOUND = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamten"
THAI = "วันนี้อากาศดีมากฉันอยากไปเที่ยวทะเลกับเพื่อนที่หัวหินตอนเย็นนี้"
SLUG = "a" * 60 + "b" * 60


def found(query: str, text: str) -> bool:
    """Whether the query shares a term with the text."""
    return not {term.term for term in query_terms(query)}.isdisjoint(index_terms(text))


def terms(query: str) -> dict[str, float]:
    """The query's terms and their weights."""
    return {term.term: term.weight for term in query_terms(query)}


@given(ANY_TEXT)
@settings(max_examples=300, deadline=None)
def test_terms_of_any_text_hold_no_white_space_and_have_a_bound(text: str) -> None:
    """Terms survive being joined by spaces, in the index and in the query, for all of Unicode."""
    for term in (*index_terms(text), *(term.term for term in query_terms(text))):
        assert term.split() == [term]
        assert len(term.encode()) <= TERM_BYTES


@given(st.lists(st.text(st.characters(exclude_categories=["Z", "Cc"]), min_size=1, max_size=12), max_size=6))
@settings(max_examples=250, deadline=None)
def test_a_whole_token_of_a_text_finds_that_text(tokens: list[str]) -> None:
    """All that a query asks for by a token of the text is in the text's index terms."""
    indexed = set(index_terms(" ".join(tokens)))
    for token in tokens:
        assert {term.term for term in query_terms(token)} <= indexed


@given(st.text(st.characters(categories=["L", "N", "M"]), min_size=1, max_size=20))
@settings(max_examples=200, deadline=None)
def test_composed_and_decomposed_spellings_give_the_same_terms(word: str) -> None:
    """macOS writes names decomposed (BR-23)."""
    composed, decomposed = unicodedata.normalize("NFC", word), unicodedata.normalize("NFD", word)
    assert index_terms(composed) == index_terms(decomposed)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("домофона", "Пароль от домофона меняем в июне"),
        ("ПАРОЛЬ", "Пароль от домофона меняем в июне"),
        ("елка", "Ёлка во дворе"),
        ("ραντεβού", "Το ραντεβού με τον οδοντίατρο"),
        ("ΡΑΝΤΕΒΟΥ", "Το ραντεβού με τον οδοντίατρο"),
        ("साइकिल", "नीली साइकिल की चाबी दराज में है"),
        ("مفتاح", "مفتاح المخزن عند الجيران"),
        ("مِفْتَاحُ", "مفتاح المخزن عند الجيران"),
        ("أحمد", "رسالة من احمد"),
        ("שלום", "שָׁלוֹם לכולם"),
        ("café", "Le café près de la gare"),
        ("cafe", "Le café près de la gare"),
        ("près", "Le cafe pres de la gare"),
        ("Straße", "Straße gesperrt bis Montag"),
        ("STRASSE", "Straße gesperrt bis Montag"),
        ("smorrebrod", "Smørrebrød til frokost"),
        ("ＡＢＣ１２", "abc12"),
        ("٢٠٢٣", "in 2023"),
        ("école", "à l'école demain"),
        ("ทะเล", THAI),
        ("👍", "done 👍🏽!"),
        ("🇩🇪", "trip to 🇩🇪."),
        ("zero\u200bwidth", "zerowidth"),
        ("流星群", "昨夜は裏庭で望遠鏡を出して流星群を観察した"),
        ("裏庭 望遠", "昨夜は裏庭で望遠鏡を出して流星群を観察した"),
        ("取快递", "明早九点提醒王阿姨去驿站取快递"),
        ("快递", "明早九点提醒王阿姨去驿站取快递"),
        ("望", "昨夜は裏庭で望遠鏡を出して"),
        ("도자기", "내일은 도자기 수업이 두 시에 시작한다"),
        ("수업", "내일은 도자기 수업이 두 시에 시작한다"),
        ("ﾃﾚﾋﾞ", "新しいテレビを買う"),
    ],
)
def test_words_of_every_script_are_found_with_and_without_their_marks(query: str, text: str) -> None:
    """Case, accents, vowel points and width do not matter; unspaced text is found inside (BR-19, BR-21)."""
    wanted = {term.term for term in query_terms(query) if term.kind != "whole"} or set(terms(query))
    assert wanted <= set(index_terms(text))


@pytest.mark.parametrize("query", ["金魚鉢", "买雨伞", "바나나"])
def test_absent_words_of_unspaced_scripts_are_not_found(query: str) -> None:
    """A shared single character is no match (BR-19 controls)."""
    texts = [
        "昨夜は裏庭で望遠鏡を出して流星群を観察した",
        "明早九点提醒王阿姨去驿站取快递",
        "내일은 도자기 수업이 두 시에 시작한다",
    ]
    assert not any(found(query, text) for text in texts)


def test_vowel_signs_and_voicing_marks_tell_words_apart() -> None:
    """What is a letter to its readers is not folded away."""
    assert not found("की", "का")
    assert not found("か", "が")
    assert not found("мои", "мой")


@pytest.mark.parametrize(
    "whole",
    [
        "https://wiki.example.net/start?a=b",
        "wiki.example.net/start",
        "C:\\Users\\me",
        "src/app/main.py",
        "1.2.3",
        "v1.2.3-rc.1",
        "550e8400-e29b-41d4-a716-446655440000",
        HASH,
        "192.168.0.12:8080",
        "fe80::1",
        "ERR_CONN_RESET",
        "E1234",
        "0x8007",
        "#123",
        "getUserById",
        "memory/2026-05-18.md",
        "me@example.org",
        "C++",
        "c#",
        "well-known",
        "8th",
        "R&D",
        "__init__",
        BASE64,
        COMPOUND,
        THAI,
        SLUG,
        "x" * 5000,
        "ключ-доступа",
        "naïve-Bayes",
    ],
)
@pytest.mark.parametrize("around", ["{}", "see ({}).", '"{}",', "**{}**:", "`{}`;", "[{}]!", "<{}>"])
def test_whole_identifiers_match_whatever_punctuation_stands_around_them(whole: str, around: str) -> None:
    """The heaviest term of the query is the identifier itself, and the text has it."""
    heaviest = max(query_terms(whole), key=lambda term: term.weight)
    assert heaviest.term in index_terms(f"before {around.format(whole)} after")
    assert set(terms(whole)) <= set(index_terms(around.format(whole)))


@pytest.mark.parametrize("whole", [HASH, "deadbeef12345678", "x" * 5000, COMPOUND, SLUG])
def test_a_long_token_with_one_character_changed_is_not_found(whole: str) -> None:
    """Long tokens match only themselves (BR-30)."""
    changed = whole[:-1] + ("1" if whole[-1] != "1" else "2")
    assert not found(changed, f"kept: {whole}")


@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("reset", "ERR_CONN_RESET"),
        ("user", "getUserById"),
        ("main.py", "src/app/main.py"),
        ("1.2.3", "v1.2.3"),
        ("server", "HTTPServer2"),
        ("email", "e-mail"),
        ("e-mail", "email"),
        ("example.org", "me@example.org"),
        ("wiki.example.net", "https://wiki.example.net/start"),
        ("www.example.net/a", "https://example.net/a/"),
        ("123", "#123"),
        ("41d4", "550e8400-e29b-41d4-a716-446655440000"),
        (HASH[:7], HASH),
        (HASH[:12], f"commit {HASH[:40]}."),
        ("8", "8th"),
        ("1234567", "1,234,567"),
        ("running", "she runs"),
        ("Anna", "Anna's boat"),
        ("Anna’s", "Anna"),
        ("dont", "don't"),
        ("me", "C:\\Users\\me"),
    ],
)
def test_identifiers_and_words_match_in_part(part: str, text: str) -> None:
    """Parts, file names, hosts, stems and possessives."""
    assert found(part, text)


@pytest.mark.parametrize(
    ("query", "matches"),
    [
        ("https://wiki.example.net/start", True),
        ("-urgent", True),
        (">>>", False),
        ("urgent:", True),
        ('"urgent', True),
        ("(urgent AND", True),
        ("urgent OR *", True),
        ("AND", True),
        ("NOT", False),
        ("C:\\Users\\me urgent", True),
        ("[1 TO", False),
        ("urgent^2~1", True),
        ("tag:urgent", True),
        ("path:x", False),
        ("upload stopped {0}, code: {1} urgent", True),
        ("\\", False),
        ("\nurgent", True),
        ("", False),
        ("\ud800 urgent", True),
    ],
)
def test_query_signs_are_only_signs(query: str, matches: bool) -> None:
    """Nothing is parsed as a query language (BR-28)."""
    assert (
        found(query, "The wiki moved to https://wiki.example.net/start and urgent pages follow.") is matches
    )


def test_stop_words_are_left_out_unless_nothing_else_is_left() -> None:
    """A question asks for its subject; one without a subject still asks for something."""
    assert set(terms("What did the plumber say about it?")) == {"plumber"}
    assert set(terms("who are you")) == {"who", "are", "you"}
    assert found("not", "do not")


@pytest.mark.parametrize(
    "query",
    [
        "2023-05-08",
        "2023/5/8",
        "8 May 2023",
        "May 8th, 2023",
        "8. Mai 2023",
        "the 8th of May 2023",
        "2023年5月8日",
    ],
)
@pytest.mark.parametrize(
    "text",
    [
        "on 2023-05-08.",
        "2023-05-08T13:56:00Z",
        "(8 May 2023)",
        "May 8, 2023",
        "2023.05.08",
        "8 de mayo de 2023",
        "2023년 5월 8일",
    ],
)
def test_spoken_and_written_dates_find_each_other(query: str, text: str) -> None:
    """Each full date has one canonical term of high weight, whatever its form."""
    assert terms(query)["d2023-05-08"] >= 2
    assert "d2023-05-08" in index_terms(text)


def test_a_month_finds_its_days_and_a_day_only_hints_at_its_month() -> None:
    """`2026-06` and "June 2026" find all of June; a full date weighs its month low (BR-26)."""
    june = index_terms("Insurance renewed on 2026-06-07")
    assert "d2026-06" in june
    assert terms("2026-06")["d2026-06"] == terms("in June 2026")["d2026-06"] > 1
    assert terms("2026-06-07")["d2026-06"] < 0.5
    assert terms("7 June 2026")["d2026-06"] < 0.5
    assert "m06-07" in june
    assert "m06-07" in terms("what happened on June 7?")


def test_impossible_dates_are_only_numbers() -> None:
    """No calendar has them."""
    assert not any(
        term.startswith("d2023") and len(term) == 11 for term in index_terms("2023-02-30 31 June 2023")
    )
    assert index_terms("2023-02-30")[0] == "2023-02-30"


def test_every_word_of_a_long_paste_is_among_its_terms() -> None:
    """Which of them a search takes is decided by what it searches."""
    words = [f"word{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(650)]
    pasted = " ".join(words) + " ERR_X_9"
    assert len(set(index_terms(pasted))) > 600
    assert set(index_terms(pasted)) == {term.term for term in query_terms(pasted)}


def test_a_run_of_han_counts_like_a_word_or_two() -> None:
    """However many pairs a run has, they share its weight; parts never outweigh the whole."""
    for run in ("望遠", "望遠鏡", "望遠鏡を出して流星群を観察した"):
        assert 0.99 <= sum(terms(run).values()) <= 2.01
    parts = {term.kind: term.weight for term in query_terms("ERR_CONN_RESET")}
    assert parts["whole"] > parts["part"]
    assert len({term.group for term in query_terms("ERR_CONN_RESET plumber")}) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "token",
    [
        "a",
        "a/",
        "aB3",
        "1,",
        "望",
        "é",
        "e\u0301\u0e38\u0e48",
        "\u0e38\u0e48",
        "http://",
        "-'",
        "👨\u200d👩",
        "ทะเล",
        "May 1 ",
    ],
)
def test_hostile_text_takes_linear_time(token: str) -> None:
    """A third of a million characters of anything end at once (quadratic work would take minutes)."""
    index_terms(token * (300_000 // len(token)))
    query_terms(token * (8192 // len(token)))


@given(token=st.text(min_size=1, max_size=200).filter(lambda text: len(text.split()) == 1))
def test_a_token_of_a_query_has_the_terms_that_a_note_with_it_has(token: str) -> None:
    apart = TakenApart()
    (token,) = token.split()
    query_terms(token, apart)
    assert apart.index_terms(token) == index_terms(token)
