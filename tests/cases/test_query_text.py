"""A query is text and nothing else: dates, identifiers, and signs that other engines parse (T5)."""

from __future__ import annotations

from typing import Any

import pytest

HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
BASE64 = "TWFueSBoYW5kcyBtYWtlIGxpZ2h0IHdvcmsgYW5kIG1hbnkgbW91dGhzIG1ha2UgbGlnaHQgb2YgaXQxMjM0"[:80]
COMPOUND = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"[:70]
SEGMENT = ("p" + "qzxwv7kjhg" * 12)[:120]
THAI = "กรุงเทพมหานครอมรรัตนโกสินทร์มหินทรายุธยามหาดิลกภพนพรัตนราช"[:60]
LONG = {"hash": HASH, "base64": BASE64, "compound": COMPOUND, "path part": SEGMENT, "Thai run": THAI}

NOTES = {
    "memory/2026-05-18.md": "Paid the plumber\n",
    "memory/bills.md": "Insurance renewed on 2026-06-07\n",
    "memory/wiki.md": "The wiki moved to https://wiki.example.net/start and urgent pages follow.\n",
    "memory/keys.md": "".join(
        f"- {text}\n" for text in (HASH, BASE64, COMPOUND, f"https://host.example/{SEGMENT}", THAI)
    ),
    "memory/errors.md": "- The upload failed with ERR_CONN_4711 in build v2.14.0-rc.3 on 10.20.30.40.\n"
    "- Job 3f2504e0-4f89-11d3-9a0c-0305e82c3301 writes /srv/data/exports/june.tar.gz.\n"
    "- Since 9fceb02d0ae598e95dc970b74767f19372d61af8 getUserByEmailAddress asks ines@post.example.\n"
    "- max_retry_count in com.example.kiln.heater breaks https://docs.zebra.example:8443/v2/ovens?id=77.\n",
}
DATES = {
    "2026-05-18": "memory/2026-05-18.md",
    "2026-05-18.md": "memory/2026-05-18.md",
    '"2026-05-18"': "memory/2026-05-18.md",
    "18 May 2026": "memory/2026-05-18.md",
    "2026-06-07": "memory/bills.md",
    "2026-06": "memory/bills.md",
}
FINDS_WIKI = [
    "https://wiki.example.net/start", "wiki.example.net", "-urgent", "urgent:", '"urgent', "(urgent AND",
    "urgent OR *", r"C:\Users\me urgent", "urgent^2~1", "tag:urgent", "\nurgent", "+urgent -wiki",
    "'urgent'~3", "upload stopped {0}, code: {1} urgent",
]  # fmt: skip
FINDS_NOTHING = [">>>", "\\", "[1 TO", "path:x", "body:*", "*", "()", "^~", "text:zzz", "?"]
IDENTIFIERS = [
    "ERR_CONN_4711", "err_conn_4711", "v2.14.0-rc.3", "2.14.0", "10.20.30.40", "june.tar.gz",
    "/srv/data/exports", "3f2504e0-4f89-11d3-9a0c-0305e82c3301", "exports/june.tar.gz", "0305e82c3301",
    "9fceb02d0ae598e95dc970b74767f19372d61af8", "9fceb02", "9fceb02d0a", "getUserByEmailAddress",
    "EmailAddress",
    "ines@post.example", "post.example", "max_retry_count", "retry_count", "kiln.heater", "heater",
    "https://docs.zebra.example:8443/v2/ovens?id=77", "docs.zebra.example", "zebra", "ovens", "v2.14",
    "10.20",
]  # fmt: skip


@pytest.fixture(scope="module")
def started(shared_launcher: Any, tmp_path_factory: Any, words_only: Any) -> Any:
    workspace = tmp_path_factory.mktemp("workspace")
    (workspace / "memory").mkdir()
    for name, text in NOTES.items():
        (workspace / name).write_text(text, encoding="utf-8")
    return shared_launcher.serve(workspace, environment=words_only)


@pytest.fixture
async def service(started: Any) -> Any:
    await started.ready()
    return started


@pytest.mark.parametrize("query", DATES)
async def test_a_date_or_a_daily_notes_name_finds_its_note_first(
    service: Any, paths: Any, query: str
) -> None:
    """BR-26."""
    assert (await paths(service, query))[0] == DATES[query]


@pytest.mark.parametrize("query", FINDS_WIKI)
async def test_signs_of_query_languages_do_not_hide_the_words_between_them(
    service: Any, paths: Any, query: str
) -> None:
    """BR-28."""
    assert "memory/wiki.md" in await paths(service, query)


@pytest.mark.parametrize("query", FINDS_NOTHING)
async def test_signs_alone_and_names_of_inner_fields_find_nothing(
    service: Any, both: Any, query: str
) -> None:
    """BR-28."""
    assert await both(service, query) == []


@pytest.mark.parametrize("query", ["AND", "NOT", "OR", "AND NOT", "urgent NOT"])
async def test_words_that_are_operators_elsewhere_are_answered_as_words(
    service: Any, both: Any, query: str
) -> None:
    """BR-28."""
    for hit in await both(service, query):
        assert set(query.lower().split()) & set(hit.text.lower().split())


@pytest.mark.parametrize("kind", LONG)
async def test_however_long_a_token_is_it_is_found_whole(service: Any, paths: Any, kind: str) -> None:
    """BR-30."""
    assert (await paths(service, LONG[kind]))[0] == "memory/keys.md"


@pytest.mark.parametrize("changed", [HASH[:-1] + "9", "8" + HASH[1:]])
async def test_a_hash_with_one_other_digit_is_not_found(service: Any, both: Any, changed: str) -> None:
    """BR-30."""
    assert changed != HASH
    assert await both(service, changed) == []


@pytest.mark.parametrize("query", IDENTIFIERS)
async def test_identifiers_are_found_whole_and_in_part(service: Any, paths: Any, query: str) -> None:
    """BR-30, spec §7."""
    assert (await paths(service, query))[0] == "memory/errors.md"


def filler(count: int) -> str:
    """Words that no note holds."""
    letters = "bcdfghjklm"
    return " ".join("x" + "".join(letters[int(digit)] for digit in str(number)) for number in range(count))


@pytest.mark.parametrize("at", ["first", "middle", "last"])
@pytest.mark.parametrize(
    ("word", "note"),
    [
        ("plumber", "memory/2026-05-18.md"),
        ("insurance", "memory/bills.md"),
        ("ERR_CONN_4711", "memory/errors.md"),
    ],
)
async def test_one_known_word_anywhere_in_eight_kilobytes_of_others_finds_its_note(
    service: Any, both: Any, word: str, note: str, at: str
) -> None:
    """A pasted log or mail is no question; what a note says of any of its words is found all the same."""
    others = filler(1500)
    half = len(others) // 2
    query = {
        "first": f"{word} {others}",
        "middle": f"{others[:half]} {word} {others[half:]}",
        "last": f"{others} {word}",
    }[at]
    assert 7_000 < len(query) <= 8_192
    assert [hit.path for hit in await both(service, query)] == [note]
