/* One hit of either contract: where it stands, its text, why it came here, and the note around it. */

import { disclosure, element, facts, replace } from "./elements.js";
import { inert } from "./inert.js";
import { showNote } from "./note.js";

const FULL_SCORE = 1.5;
let made = 0;

export function hitV2(hit, rank, { terms, explain, get }) {
  const cited = hit.citations ?? [];
  const reference = hit.reference;
  const more = cited.slice(1).map((each) => each.label);
  return card({
    contract: "v2", rank, terms, get,
    label: cited[0]?.label ?? [reference.id, reference.fragment].filter(Boolean).join("#"),
    score: hit.score, source: hit.source, text: hit.excerpt,
    place: { ...reference, startLine: cited[0]?.startLine, endLine: cited[0]?.endLine },
    chips: [...recall(hit.automaticRecall), ...(more.length ? [`also in ${more.slice(0, 3).join(", ")}${more.length > 3 ? ` and ${more.length - 3} more` : ""}`] : [])],
    why: async (part) => {
      replace(part, element("p", { class: "quiet" }, "Asking …"));
      const parts = await explain(hit, rank);
      if (parts === undefined) replace(part, element("p", { class: "warning" }, "The service ranks this text differently by now. Search again."));
      else replace(part, ...reasons(parts, hit.score));
    },
  });
}

export function hitV1(hit, rank, { terms, providerOf, get }) {
  return card({
    contract: "v1", rank, terms, get,
    label: `${hit.path}#L${hit.startLine}-L${hit.endLine}`,
    score: hit.score, source: hit.source, text: hit.snippet,
    place: { get providerId() { return providerOf(); }, id: hit.path, startLine: hit.startLine, endLine: hit.endLine },
    chips: recall({ projectKeys: hit.projectKey ? [hit.projectKey] : [], triggers: hit.triggers, importance: hit.importance }),
    why: async (part) => replace(part, ...reasons({ text: hit.textScore, vector: hit.vectorScore }, hit.score),
      element("p", { class: "quiet" }, "v1 tells these two alone; v2 beside it also tells the adjustments.")),
  });
}

function recall(value) {
  if (!value) return [];
  return [
    ...(value.eligible ? ["may be recalled by itself"] : []),
    ...(value.importance !== undefined ? [`importance ${value.importance}`] : []),
    ...(value.triggers ? [`triggers: ${value.triggers}`] : []),
    ...(value.projectKeys ?? []).map((key) => `project ${key}`),
  ];
}

function card({ contract, rank, label, score, source, text, terms, place, chips, why, get }) {
  const id = `hit-${made += 1}`;
  const explained = disclosure("Why", why, `${id}-why`);
  const note = disclosure("Note", (part) => showNote(part, place, get), `${id}-note`);
  const bar = element("span", { class: "bar-of-score", "aria-hidden": "true" });
  bar.style.setProperty("--share", `${Math.min(1, Math.max(0, (score ?? 0) / FULL_SCORE)) * 100}%`);
  const item = element("li", { class: "hit", tabindex: "-1", "aria-labelledby": `${id}-label`, "data-id": place.id },
    element("div", { class: "hit-head" },
      element("span", { class: "rank", "aria-hidden": "true" }, rank),
      element("h3", { id: `${id}-label` }, label),
      score === undefined ? null : element("span", { class: "score", title: "score" }, score.toFixed(3))),
    bar,
    element("pre", { class: "text excerpt" }, inert(text, terms)),
    element("div", { class: "hit-foot" },
      explained.toggle, note.toggle,
      source === "sessions" ? element("span", { class: "chip" }, "transcript") : null,
      chips.map((chip) => element("span", { class: "chip" }, chip))),
    explained.part, note.part);
  for (const toggle of [explained.toggle, note.toggle]) toggle.setAttribute("aria-label", `${toggle.textContent}: ${contract} hit ${rank}`);
  item.addEventListener("keydown", (event) => {
    if (event.target !== item || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter") note.toggle.click();
    else if (event.key === "e") explained.toggle.click();
    else return;
    event.preventDefault();
  });
  return item;
}

function reasons(parts, score) {
  const { text, vector, ...factors } = parts;
  const number = (value) => (value === undefined ? "nothing" : value.toFixed(3));
  return [
    facts([
      ["Words", `${number(text)} of what this query could attain`],
      ["Meaning", vector === undefined ? "nothing" : `${number(vector)} cosine with the query`],
      ...Object.entries(factors).map(([name, factor]) => [name.charAt(0).toUpperCase() + name.slice(1), `× ${factor.toFixed(3)}`]),
      ["Score", number(score)],
    ]),
  ];
}
