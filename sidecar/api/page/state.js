/* How the memory of an agent is, as `memory.status` tells it; each card changes only when its facts do. */

import { element, facts, replace, table } from "./elements.js";
import { inert } from "./inert.js";

const MOST_ROWS = 100;

export class StateView {
  #seen = new Map();

  constructor(section) { this.section = section; this.clear(); }

  clear() {
    this.#seen.clear();
    this.asOf = element("p", { class: "quiet" });
    this.grid = element("div", { class: "cards" });
    this.lists = element("div", { class: "lists" });
    replace(this.section, this.asOf, this.grid, this.lists);
  }

  /* `problem` is said when the service does not answer, above what was known last. */
  away(problem) { replace(this.asOf, inert(problem)); }

  show(answer, declared, caller) {
    this.asOf.textContent = `As of ${new Date().toLocaleTimeString()}, asked every two seconds while this tab is in sight.`;
    const details = answer.details ?? {};
    const { files, index, watch, embeddings, work, sessions } = details;
    this.card("Health", [
      ["Status", word(answer.status)], ["Why", answer.message], ["Provider", answer.providerId], ["Agent", answer.agentId],
    ]);
    this.card("Index", files && index && [
      ["Notes on disk", files.onDisk ?? "not scanned yet"], ["Indexed", files.indexed], ["Waiting", files.pending],
      ["Pieces", index.units], ["Vectors", `${index.blocks - index.pendingVectors} of ${index.blocks}`],
      ["Generation", index.generation], ["Phase", index.phase], ["Not settled", index.unsettled || undefined],
      ["Repairs", index.repairs?.length ? index.repairs.join("; ") : undefined],
    ]);
    this.card("Watcher", watch && [["Mode", watch.mode], ["Why", watch.reason], ["Folders", watch.folders]]);
    this.card("Embeddings", embeddings && flat(embeddings));
    this.card("Transcripts", sessions && flat({ ...sessions.files, phase: sessions.phase, watcher: sessions.watch?.mode,
      vectorsWaiting: sessions.pendingVectors, ...sessions.notRemembered }));
    this.card("Since the start", work && flat(work));
    this.card("Capabilities", declared && [
      ["Corpora", declared.capabilities.sources.join(", ")], ["Pages", yes(declared.capabilities.pagination)],
      ["Candidates", declared.capabilities.candidates.join(", ") || "none"],
      ["Project filter", yes(declared.capabilities.projectFilter)],
      ["Path and day filters", yes(declared.capabilities.noteFilter)], ["v1", yes(declared.servesV1)],
    ]);
    this.card("This token", caller && [
      ["Name", caller.name], ["Role", caller.role], ["Scopes", caller.scopes.join(", ") || "none"],
      ["Agents", caller.agents.join(", ")], ["Service", `version ${caller.serviceVersion}`],
    ]);
    this.list("Skipped files", details.skipped, details.skippedCount);
    this.list("Indexed in part", details.partlyIndexed);
    this.list("Unreadable folders", details.unreadable);
    this.list("Skipped transcripts", sessions?.skipped, sessions?.skippedCount);
  }

  card(title, rows) {
    this.#part(this.grid, title, rows, () => element("section", { class: "panel card" }, element("h2", {}, title), facts(rows)));
  }

  list(title, items, count = items?.length) {
    this.#part(this.lists, title, items?.length ? [items, count] : undefined, () => element("section", { class: "panel" },
      element("h2", {}, `${title} (${count})`),
      table(["Path", "Why", "What to do"], items.slice(0, MOST_ROWS).map((item) => [item.path, item.reason, item.hint ?? ""]), title),
      count > items.length ? element("p", { class: "quiet" }, `The first ${items.length} are named.`) : null));
  }

  /* The part of that name in its place: made anew only when what it shows is another. */
  #part(parent, title, value, make) {
    const known = this.#seen.get(title);
    const text = value ? JSON.stringify(value) : "";
    if ((known?.text ?? "") === text) return;
    const node = value ? make() : element("div", { hidden: true });
    if (known) known.node.replaceWith(node); else parent.append(node);
    this.#seen.set(title, { text, node });
  }
}

function word(status) { return { ready: "ready", degraded: "degraded", unavailable: "unavailable" }[status] ?? String(status); }
function yes(value) { return value ? "yes" : "no"; }

/* Plain facts under names that a reader knows: `pendingVectors` becomes "Pending vectors". */
function flat(values) {
  return Object.entries(values).filter(([, value]) => ["string", "number", "boolean"].includes(typeof value)).map(
    ([name, value]) => [name.charAt(0).toUpperCase() + name.slice(1).replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`), value]);
}
