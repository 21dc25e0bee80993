"""Characters of every script: one spelling for what readers take to be the same (spec §7).

What is folded, on both sides of a search:
- compatibility forms (NFKC): full-width letters, ligatures, superscripts; decimal digits of all scripts
- case, with ß = ss; ё = е, ø = o, æ = ae, ł = l and the like
- combining accents of Latin, Greek and Cyrillic (café = cafe), but й stays a letter of its own
- Arabic harakat, hamza seats and tatweel, ى = ي, ة = ه, Persian ک and ی; Hebrew niqqud
- zero-width characters, variation selectors, skin tones, soft hyphens
What is not: vowel signs of Indic scripts, kana voicing marks, Hangul, anything in Han.
"""

from __future__ import annotations

import re
import unicodedata

HAN_KANA = (
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u303b\u3041-\u3096\u3099\u309a\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff"
    "\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U0003fffd"
)
HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb"
# Thai, Lao, Myanmar, Khmer: written without spaces between words.
UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ece\u0edc-\u0edf"
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"
    "\u1780-\u17d3\u17d7\u17dc\u17dd"
)
REGIONAL = "\U0001f1e6-\U0001f1ff"
EMOJI = "\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f1e5\U0001f200-\U0001faff"

_REMOVED_RANGES = (
    # Zero-width and formatting characters.
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xE0000, 0xE01EF),
    # Combining accents of Latin, Greek and Cyrillic; enclosing marks; skin tones.
    (0x0300, 0x036F),
    (0x0483, 0x0489),
    (0x1AB0, 0x1AFF),
    (0x1DC0, 0x1DFF),
    (0x20D0, 0x20FF),
    (0xFE20, 0xFE2F),
    (0x1F3FB, 0x1F3FF),
    # Hebrew niqqud and cantillation.
    (0x0591, 0x05BD),
    (0x05BF, 0x05BF),
    (0x05C1, 0x05C2),
    (0x05C4, 0x05C5),
    (0x05C7, 0x05C7),
    # Arabic harakat, hamza and madda above, Quranic marks, tatweel.
    (0x0610, 0x061A),
    (0x0640, 0x0640),
    (0x064B, 0x065F),
    (0x0670, 0x0670),
    (0x06D6, 0x06DC),
    (0x06DF, 0x06E4),
    (0x06E7, 0x06E8),
    (0x06EA, 0x06ED),
    (0x08D3, 0x08FF),
)
_SAME_LETTER = {
    "ø": "o", "đ": "d", "ð": "d", "ł": "l", "æ": "ae", "œ": "oe", "þ": "th", "ħ": "h", "ı": "i", "ŋ": "n",
    "ŧ": "t", "ى": "ي", "ة": "ه", "ک": "ك", "ی": "ي", "ہ": "ه",
}  # fmt: skip
_SAME_SIGN = {"’": "'", "‘": "'", "ʼ": "'", "ʹ": "'", "‐": "-", "‑": "-", "‒": "-", "−": "-", "⁄": "/"}
_LETTERS = str.maketrans(_SAME_LETTER)
_LONG = 64
_MARK_CATEGORIES = frozenset({"Mn", "Mc", "Me"})


def _tables() -> tuple[str, dict[int, str]]:
    """All combining marks as the inside of a character class, and all decimal digits with their value."""
    marks: list[str] = []
    digits: dict[int, str] = {}
    start = previous = -2
    points = range(0x300, 0x20000)
    # Every process begins with this: so few calls of ours as can be.
    for point, category in zip(points, map(unicodedata.category, map(chr, points)), strict=True):
        if category == "Nd":
            digits[point] = str(unicodedata.digit(chr(point)))
        elif category in _MARK_CATEGORIES:
            if point != previous + 1:
                if start >= 0:
                    marks.append(f"{chr(start)}-{chr(previous)}")
                start = point
            previous = point
    marks.append(f"{chr(start)}-{chr(previous)}")
    return "".join(marks), digits


MARKS, _DIGITS = _tables()
_CLEANING: dict[int, str | None] = {
    **_DIGITS,
    **{ord(sign): same for sign, same in _SAME_SIGN.items()},
    **{point: None for first, last in _REMOVED_RANGES for point in range(first, last + 1)},
}
# Ordering the marks of one letter is quadratic in their number; no script stacks this many.
_MARK_PILE = re.compile(f"([{MARKS}]{{8}})[{MARKS}]+")


_SPELLINGS = str.maketrans(
    {"ä": "ae", "ö": "oe", "ü": "ue", "Ä": "Ae", "Ö": "Oe", "Ü": "Ue"}
    | {"å": "aa", "Å": "Aa", "ø": "oe", "Ø": "Oe", "æ": "ae", "Æ": "Ae"}
)
_UMLAUT = re.compile("[äöüÄÖÜåÅøØæÆ]")


def clean(text: str) -> str:
    """The text in compatibility form without accents and invisible characters; case is kept.

    Linear in the length of the text. May hold white space where a compatibility form does.
    """
    if text.isascii():
        return text
    if len(text) > _LONG:
        text = _MARK_PILE.sub(r"\1", text)
    text = unicodedata.normalize("NFKD", text)
    if "\u0306" in text:
        text = text.replace("и\u0306", "й").replace("И\u0306", "Й")
    return unicodedata.normalize("NFC", text.translate(_CLEANING))


def spell_out(text: str) -> str | None:
    """The text with its umlauts in two letters (ä = ae, å = aa), or None where there are none.

    Only the beginning of a long text is composed first: a pile of marks must not cost more than its length.
    """
    composed = unicodedata.normalize("NFC", text[:_LONG]) + text[_LONG:]
    return composed.translate(_SPELLINGS) if _UMLAUT.search(composed) else None


def fold(cleaned: str) -> str:
    """The caseless form of what `clean` gave."""
    if cleaned.isascii():
        return cleaned.lower()
    folded = cleaned.casefold()
    return unicodedata.normalize("NFC", folded.translate(_LETTERS))
