/* The note's text around a hit, read from the disk at that moment by `memory.get`. */

import { button, element, replace } from "./elements.js";
import { inert } from "./inert.js";

const CONTEXT = 6;
const STEP = 20;
const MOST_LINES = 120;
const MOST_SHOWN = 600;
const LONGEST_LINE = 4000;

/* `place` is {providerId, id, revision?, fragment?, startLine?, endLine?}; `get` reads a reference. */
export async function showNote(part, place, get) {
  replace(part, element("p", { class: "quiet" }, "Reading …"));
  const reference = { providerId: place.providerId, id: place.id };
  if (place.revision !== undefined) {
    const exact = await get({ reference: { ...reference, revision: place.revision, fragment: place.fragment } });
    if (exact.status !== "ok") return gone(part);
    const cited = exact.citations?.[0] ?? {};
    const apart = /@c\d+-\d+$/.exec(exact.reference.fragment ?? "");
    if (cited.startLine === undefined || apart) {
      const where = apart ? `A part of the over-long line ${cited.startLine ?? ""}: characters ${apart[0].slice(2)}` : "The whole text of the reference";
      return replace(part, element("p", { class: "quiet" }, where), element("pre", { class: "text" }, exact.text));
    }
    place = { providerId: place.providerId, id: place.id, startLine: cited.startLine, endLine: cited.endLine ?? cited.startLine };
  }
  const first = Math.max(1, place.startLine - CONTEXT);
  const wanted = Math.min(MOST_LINES, place.endLine - first + 1 + CONTEXT);
  const around = await get({ reference, from: first, lines: wanted });
  if (around.status !== "ok") return gone(part);
  return new Around(part, place, reference, get).show(around, first);
}

function gone(part) {
  replace(part, element("p", { class: "warning" }, "This text is no longer in the note. Search again for what is there now."));
}

class Around {
  constructor(part, place, reference, get) {
    Object.assign(this, { part, place, reference, get });
    this.rows = element("div", { class: "lines" });
    this.earlier = button("Earlier lines", () => this.more(false), { class: "plain" });
    this.later = button("Later lines", () => this.more(true), { class: "plain" });
    this.problem = element("p", { class: "error", role: "alert", hidden: true });
  }

  show(answer, first) {
    this.first = first;
    this.next = answer.nextFrom;
    this.rows.append(...this.lines(answer, first));
    replace(this.part,
      element("p", { class: "quiet" }, `${this.reference.id} as it is on disk now`),
      this.earlier, this.rows, this.later, this.problem);
    this.settle();
    const hit = this.rows.querySelector(".hit-line");
    if (hit) this.rows.scrollTop = hit.offsetTop - this.rows.offsetTop - this.rows.clientHeight / 4;
  }

  async more(later) {
    this.problem.hidden = true;
    const from = later ? this.next : Math.max(1, this.first - STEP);
    const lines = later ? STEP : this.first - from;
    try {
      const answer = await this.get({ reference: this.reference, from, lines });
      if (answer.status !== "ok") return gone(this.part);
      if (later) {
        this.rows.append(...this.lines(answer, from));
        this.next = answer.nextFrom;
      } else {
        this.rows.prepend(...this.lines(answer, from));
        this.first = from;
      }
      this.settle();
    } catch (error) {
      replace(this.problem, inert(error.message));
      this.problem.hidden = false;
    }
  }

  settle() {
    const full = this.rows.childElementCount >= MOST_SHOWN;
    this.earlier.hidden = full || this.first <= 1;
    this.later.hidden = full || this.next === undefined;
  }

  /* Rows with their numbers. Where lines of a transcript render to more or fewer, they have none. */
  lines(answer, first) {
    const texts = answer.text.split("\n");
    const numbered = answer.lines === undefined || answer.lines === texts.length;
    return texts.map((text, at) => {
      const number = (answer.from ?? first) + at;
      const hit = numbered && number >= this.place.startLine && number <= this.place.endLine;
      const long = text.length > LONGEST_LINE;
      return element("div", { class: hit ? "line hit-line" : "line" },
        element("span", { class: "number", "aria-hidden": "true" }, numbered ? number : "·"),
        element("span", { class: "text" }, long ? text.slice(0, LONGEST_LINE) : text || "\u00a0",
          long ? element("span", { class: "chip" }, `${text.length - LONGEST_LINE} more characters`) : null));
    });
  }
}
