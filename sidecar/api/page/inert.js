/* Text of notes, shown as what it is: never markup, never a link, and nothing in it that cannot be seen.

   Characters that turn the direction of what follows, or that have no shape at all, are shown by their
   number in a box of their own, and take no effect. Joiners that scripts and emoji need stay as they are. */

const HIDDEN = new RegExp(
  "(?:[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e" +
  "\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb]" +
  "|[\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]|[\\ufe00-\\ufe0f]{2,}|\\p{Surrogate})+", "gu");
const NAMES = new Map([
  [0x061c, "Arabic letter mark"], [0x200b, "zero-width space"], [0x200e, "left-to-right mark"],
  [0x200f, "right-to-left mark"], [0x202a, "left-to-right embedding"], [0x202b, "right-to-left embedding"],
  [0x202c, "end of direction"], [0x202d, "left-to-right override"], [0x202e, "right-to-left override"],
  [0x2066, "left-to-right isolate"], [0x2067, "right-to-left isolate"], [0x2068, "first-strong isolate"],
  [0x2069, "end of isolate"], [0x2060, "word joiner"], [0xfeff, "byte-order mark"], [0x00ad, "soft hyphen"],
]);
const MOST_NAMED = 3;

/* A fragment of the text. `terms`, a pattern of `wordsOf`, marks where the words of a query stand. */
export function inert(text, terms = null) {
  const out = document.createDocumentFragment();
  const plain = text.replaceAll("\r\n", "\n");
  let at = 0;
  for (const found of plain.matchAll(HIDDEN)) {
    marked(out, plain.slice(at, found.index), terms);
    out.append(shown(found[0]));
    at = found.index + found[0].length;
  }
  marked(out, plain.slice(at), terms);
  return out;
}

function shown(hidden) {
  const codes = [...hidden].map((character) => character.codePointAt(0));
  const numbers = codes.slice(0, MOST_NAMED).map((code) => `U+${code.toString(16).toUpperCase().padStart(4, "0")}`);
  const more = codes.length - numbers.length;
  const box = document.createElement("span");
  box.className = "hidden-character";
  box.title = [...new Set(codes)].slice(0, 8).map((code) => NAMES.get(code) ?? "character without a shape").join(", ");
  box.textContent = numbers.join(" ") + (more ? ` and ${more} more` : "");
  return box;
}

function marked(out, text, terms) {
  if (!text) return;
  let at = 0;
  for (const found of terms === null ? [] : text.matchAll(terms)) {
    out.append(text.slice(at, found.index));
    const mark = document.createElement("mark");
    mark.textContent = found[0];
    out.append(mark);
    at = found.index + found[0].length;
  }
  out.append(text.slice(at));
}

/* A pattern of the words of a query that are worth marking, or null. It only helps the eye: what was found,
   and why, the service says. */
export function wordsOf(query) {
  const words = [...new Set(query.slice(0, 2000).match(/[\p{L}\p{N}][\p{L}\p{M}\p{N}]*/gu) ?? [])]
    .filter((word) => word.length > 3 || /[^a-z]/iu.test(word)).slice(0, 32)
    .sort((one, other) => other.length - one.length);
  if (!words.length) return null;
  return new RegExp(words.map((word) => (/^[\p{Script=Latin}\p{N}]/u.test(word) ? `(?<![\\p{L}\\p{N}])${word}` : word)).join("|"), "giu");
}
