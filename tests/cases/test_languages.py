"""Words of every script are found inside their sentences, and only where they stand (T4)."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any

import pytest

# Each sentence stands in four notes; what follows it makes their texts different.
STARS = "昨夜は裏庭で望遠鏡を出して流星群を観察した"
PARCEL = "明早九点提醒王阿姨去驿站取快递"
POTTERY = "내일은 도자기 수업이 두 시에 시작한다"
ENDINGS = {
    STARS: ("。一回目。", "。弟も来た。", "。寒かった。", "。写真あり。"),
    PARCEL: ("。记得带伞。", "。她会打电话。", "，然后买菜。", "，别忘了。"),
    POTTERY: (". 준비물은 앞치마.", ". 형도 온다.", ". 늦지 말 것.", ". 주차는 뒤편."),
}
OTHERS = (
    "来週の土曜日に図書館で本を返す", "台所の電球を昨日取り替えた", "母は庭でトマトを育てている",
    "流しの水漏れは管理会社に連絡済み", "夏の星座を子供に教える約束", "望みの薄い抽選に応募した",
    "会議は午後三時から二階で行う", "周末和李叔叔去爬山", "医生说每天要多喝水", "快要下雨了记得收衣服",
    "新买的书架放在客厅", "取消星期三的牙医预约", "明天早上送孩子上学", "王老师的办公室在三楼",
    "우유와 빵을 사야 한다", "자전거 바퀴에 바람을 넣었다", "자기 전에 약을 먹는다",
    "수영장은 월요일에 쉰다", "어제는 비가 많이 왔다", "도서관 카드는 서랍에 있다",
)  # fmt: skip
EXACT = {
    "流星群": STARS, "望遠鏡": STARS, "裏庭 望遠": STARS, "取快递": PARCEL, "快递": PARCEL, "驿站": PARCEL,
    "도자기": POTTERY, "수업": POTTERY, "도자기 수업": POTTERY,
}  # fmt: skip

SCRIPTS = {
    "memory/ru.md": "Пароль от домофона меняем в июне",
    "memory/el.md": "Το ραντεβού με τον οδοντίατρο",
    "memory/hi.md": "नीली साइकिल की चाबी दराज में है",
    "memory/ar.md": "مفتاح المخزن عند الجيران",
    "memory/fr.md": "Le café près de la gare",
    "memory/de.md": "Straße gesperrt bis Montag",
    "memory/at.md": "Treffpunkt Königsplatz um neun",
    "memory/li.md": "Abholung am Muehlweg hinten",
    "memory/ch.md": "Besuch in der Königstraße zwölf",
    "memory/he.md": "הַמַּפְתֵּחַ בַּמְּגֵרָה",
    "memory/vi.md": "Mua cà phê ở chợ Bến Thành",
    "memory/em.md": "launch 🚀🎂",
    "memory/da.md": "Nøglen ligger hos naboen",
    "memory/th.md": "กุญแจสำรองอยู่ใต้กระถางต้นไม้",
}
ASKED = {
    "домофона": "ru", "ПАРОЛЬ": "ru", "ραντεβού": "el", "ΡΑΝΤΕΒΟΥ": "el", "साइकिल": "hi", "مفتاح": "ar",
    "café": "fr", "cafe": "fr", "CAFÉ": "fr", "pres": "fr", "Straße": "de", "STRASSE": "de", "strasse": "de",
    "koenigsplatz": "at", "Konigsplatz": "at", "Königsplatz": "at", "Mühlweg": "li", "noeglen": "da",
    "กุญแจ": "th", "กระถาง": "th", "Koenigstrasse": "ch", "Königstraße": "ch", "Konigstrasse": "ch",
    "KÖNIGSTRASSE": "ch", "koenigstraße": "ch", "המפתח": "he", "הַמַּפְתֵּחַ": "he", "במגרה": "he",
    "مِفْتَاحُ": "ar", "ca phe": "vi", "Bến Thành": "vi", "ben thanh": "vi", "🚀": "em", "🎂": "em",
}  # fmt: skip


def cjk_notes() -> dict[str, str]:
    notes = {
        f"memory/{name}-{number}.md": f"{sentence}{ending}\n"
        for name, sentence in (("ja", STARS), ("zh", PARCEL), ("ko", POTTERY))
        for number, ending in enumerate(ENDINGS[sentence])
    }
    return notes | {f"memory/other-{number}.md": f"{text}\n" for number, text in enumerate(OTHERS)}


@pytest.fixture(scope="module")
def started(shared_launcher: Any, tmp_path_factory: Any, words_only: Any) -> Any:
    workspace = tmp_path_factory.mktemp("workspace")
    (workspace / "memory").mkdir()
    for name, text in {**cjk_notes(), **SCRIPTS}.items():
        (workspace / name).write_text(text, encoding="utf-8")
    return shared_launcher.serve(workspace, environment=words_only)


@pytest.fixture(scope="module")
def near_misses(shared_launcher: Any, tmp_path_factory: Any, words_only: Any) -> Any:
    workspace = tmp_path_factory.mktemp("near")
    (workspace / "memory").mkdir()
    misses = {f"memory/miss-{number}.md": f"{text}\n" for number, text in enumerate(NEAR_MISSES)}
    for name, text in {**cjk_notes(), **misses}.items():
        (workspace / name).write_text(text, encoding="utf-8")
    state = tmp_path_factory.mktemp("state") / "near"
    return shared_launcher.serve(workspace, state=state, environment=words_only)


@pytest.fixture
async def scripts(started: Any) -> Any:
    await started.ready()
    return started


@pytest.mark.parametrize("query", EXACT)
async def test_a_word_inside_an_unspaced_sentence_finds_exactly_the_notes_that_hold_it(
    scripts: Any, both: Any, query: str
) -> None:
    """BR-19."""
    hits = await both(scripts, query)
    assert len({hit.path for hit in hits}) == len(hits) == 4
    assert all(EXACT[query] in hit.text for hit in hits)


@pytest.mark.parametrize("query", ["金魚鉢", "买雨伞", "바나나"])
async def test_a_word_that_no_note_holds_finds_none(scripts: Any, both: Any, query: str) -> None:
    """BR-19."""
    assert await both(scripts, query) == []


NEAR_MISSES = (
    "流星のような速さの投手",
    "星群の地図を買った",
    "望遠レンズを掃除",
    "快递柜满了",
    "자기소개서를 썼다",
)


@pytest.mark.parametrize("query", ["流星群", "望遠鏡", "取快递", "도자기"])
async def test_notes_that_hold_only_a_part_of_the_word_never_come_before_those_that_hold_it(
    near_misses: Any, both: Any, query: str
) -> None:
    """BR-19."""
    await near_misses.ready()
    hits = await both(near_misses, query)
    assert len(hits) >= 4
    assert all(query in hit.text for hit in hits[:4])
    assert not any(query in hit.text for hit in hits[4:])


@pytest.mark.parametrize("query", ASKED)
async def test_words_of_every_script_are_found_in_any_case_and_with_or_without_accents(
    scripts: Any, paths: Any, query: str
) -> None:
    """BR-21."""
    assert await paths(scripts, query) == [f"memory/{ASKED[query]}.md"]


async def test_composed_and_decomposed_spellings_are_the_same_word(
    launcher: Any, workspace: Path, words_only: Any, paths: Any, read_lines: Any
) -> None:
    """BR-23."""
    (workspace / "memory").mkdir()
    names = []
    for form, extra in (("NFC", "first"), ("NFD", "second")):
        name = unicodedata.normalize(form, f"memory/{extra}-résumé-학점.md")
        text = unicodedata.normalize(form, f"The {extra} résumé lists 학점 as well.\n")
        (workspace / name).write_text(text, encoding="utf-8")
        names.append(name)
    service = launcher.serve(workspace, environment=words_only)
    await service.ready()
    for word in ("résumé", "학점"):
        for form in ("NFC", "NFD"):
            found = await paths(service, unicodedata.normalize(form, word))
            assert sorted(found) == sorted(names), (word, form)
    for name in names:
        answer = await read_lines(service, name, 1, 1)
        assert answer["text"] == (workspace / name).read_text(encoding="utf-8").removesuffix("\n")
        other = unicodedata.normalize("NFD" if unicodedata.is_normalized("NFC", name) else "NFC", name)
        by_other = await read_lines(service, other, 1, 1)
        assert by_other["status"] == "not_found" or by_other["text"] == answer["text"]
    assert service.stop() == 0
