"""A workspace to measure speed over: notes of about 2 KB in mixed scripts, the same for the same seed."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

NOTE_CHARACTERS = 1900
FIRST_DAY = datetime.date(2020, 1, 1)

_SYLLABLES = (
    *("ka", "lo", "mi", "ter", "ran", "sel", "vor", "dun", "pra", "ket", "ino", "bar", "shi"),
    *("gal", "ten", "rus", "mor", "fel", "and", "ista", "per", "con", "ver", "tal", "ne", "sta"),
)
_OTHERS = (
    ("привет", "встреча", "договор", "проект", "погода", "деньги", "сервер", "письмо", "решение", "вопрос"),
    ("Überweisung", "Straße", "Köln", "Äpfel", "naïve", "café", "Größe", "façade", "jalapeño", "smörgås"),
    ("会議", "東京", "予定", "設定", "問題", "電車", "予算", "資料", "連絡", "確認"),
    ("회의", "서울", "일정", "설정", "문제", "예산", "자료", "연락", "확인", "계획"),
    ("اجتماع", "مشروع", "رسالة", "خادم", "ميزانية", "موعد", "قرار", "سؤال", "طقس", "ملف"),
)
_WORDS = 12_000
# So often a line holds a phrase of another script, an identifier, and begins a new section.
_OTHER_SCRIPT = 0.12
_IDENTIFIER = 0.08
_HEADING = 0.1
_PARAGRAPH = 0.15


class Vocabulary:
    """Invented words, of which few are said often and many seldom, as in any language."""

    def __init__(self, source: random.Random) -> None:
        found: dict[str, None] = {}
        while len(found) < _WORDS:
            found["".join(source.choices(_SYLLABLES, k=source.randint(2, 4)))] = None
        self.words = list(found)
        self._weights = list(accumulate(1 / (rank + 10) for rank in range(_WORDS)))

    def some(self, source: random.Random, count: int) -> list[str]:
        """Words as a text would say them."""
        return source.choices(self.words, cum_weights=self._weights, k=count)


def write_notes(directory: Path, count: int, seed: int) -> list[Path]:
    """Write `count` notes below `memory/`: one in five a daily one, the others by topic. Gives paths."""
    source = random.Random(seed)  # noqa: S311 - repeatable, not secret
    vocabulary = Vocabulary(source)
    paths = []
    for number in range(count):
        if number % 5 == 0:
            day = FIRST_DAY + datetime.timedelta(days=number // 5)
            name = f"memory/{day.isoformat()}.md"
        else:
            name = f"memory/topics/{number % 40:02}/{vocabulary.some(source, 1)[0]}-{number}.md"
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_note(source, vocabulary), encoding="utf-8")
        paths.append(path)
    return paths


def queries(seed: int, count: int) -> Iterator[str]:
    """Queries of four words that the notes of this seed say, the same for the same seed."""
    vocabulary = Vocabulary(random.Random(seed))  # noqa: S311 - as above
    source = random.Random(seed + 1)  # noqa: S311 - as above
    for _ in range(count):
        yield " ".join(vocabulary.some(source, 4))


def _note(source: random.Random, vocabulary: Vocabulary) -> str:
    lines = [f"# {' '.join(vocabulary.some(source, 3))}", ""]
    size = 0
    while size < NOTE_CHARACTERS:
        drawn = source.random()
        if drawn < _HEADING:
            line = f"\n## {' '.join(vocabulary.some(source, 2))}\n"
        elif drawn < _HEADING + _PARAGRAPH:
            line = "\n" + ". ".join(_phrase(source, vocabulary, 9) for _ in range(3)) + ".\n"
        else:
            line = "- " + _phrase(source, vocabulary, source.randint(6, 14))
        lines.append(line)
        size += len(line) + 1
    return "\n".join(lines) + "\n"


def _phrase(source: random.Random, vocabulary: Vocabulary, count: int) -> str:
    words = vocabulary.some(source, count)
    if source.random() < _OTHER_SCRIPT:
        words[1:3] = source.choices(source.choice(_OTHERS), k=3)
    if source.random() < _IDENTIFIER:
        words.append(f"{words[0]}_{words[-1]}-{source.randrange(10_000)}")
    return " ".join(words).capitalize()
