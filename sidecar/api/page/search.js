/* One question, asked in both contracts at once, and their answers side by side. */

import { button, byId, element, replace } from "./elements.js";
import { hitV1, hitV2 } from "./hits.js";
import { wordsOf } from "./inert.js";

const FILTERS = ["path", "since", "until", "sources", "min-score", "max-results", "max-chars"];
const DEFAULT_RESULTS = 10;
const MOST_EXPLAINED = 50;
const SEARCH_SECONDS = 30;

export class Search {
  #running = null;
  #shown = null;

  /* `agent()` gives {id, providerId, servesV1, noteFilter, generation}. */
  constructor({ service, agent, onSearch }) {
    Object.assign(this, { service, agent, onSearch });
    this.status = byId("search-status");
    byId("search-form").addEventListener("submit", (event) => { event.preventDefault(); this.run(); });
    byId("search-form").addEventListener("reset", () => setTimeout(() => this.countFilters()));
    byId("filters").addEventListener("input", () => this.countFilters());
    byId("view-search").addEventListener("keydown", (event) => this.key(event));
  }

  clear() {
    this.#running?.abort();
    this.#running = this.#shown = null;
    byId("search-form").reset();
    replace(this.status);
    for (const contract of ["v2", "v1"]) this.column(contract);
  }

  /* Filters that the agent's provider does not have cannot be set. */
  offer({ sources, noteFilter }) {
    for (const option of byId("sources").options) {
      option.disabled = option.value !== "" && !(option.value === "both" ? ["memory", "sessions"] : [option.value]).every((source) => sources.includes(source));
    }
    if (byId("sources").selectedOptions[0]?.disabled) byId("sources").value = "";
    for (const id of ["path", "since", "until"]) {
      byId(id).disabled = !noteFilter;
      if (!noteFilter) byId(id).value = "";
    }
    this.countFilters();
  }

  countFilters() {
    const set = FILTERS.filter((id) => byId(id).value !== "").length;
    byId("filters-set").textContent = set ? `${set} set` : "";
  }

  /* What a form that holds is asking; numbers and days are checked by the browser first. */
  asked() {
    const value = (id) => byId(id).value.trim();
    const number = (id) => (value(id) === "" ? undefined : Number(value(id)));
    const sources = value("sources");
    return {
      query: value("query"),
      maxResults: number("max-results") ?? DEFAULT_RESULTS,
      minScore: number("min-score"),
      sources: sources === "both" ? ["memory", "sessions"] : sources ? [sources] : undefined,
      path: value("path") || undefined,
      since: value("since") || undefined,
      until: value("until") || undefined,
      maxChars: number("max-chars"),
    };
  }

  async run() {
    if (!byId("search-form").reportValidity()) return;
    const asked = this.asked();
    if (!asked.query) return;
    this.#running?.abort();
    const running = this.#running = new AbortController();
    const agent = this.agent();
    this.#shown = { generation: agent.generation };
    this.onSearch();
    const began = performance.now();
    const wait = setInterval(() => this.waiting(running, began), 1000);
    this.waiting(running, began);
    for (const contract of ["v2", "v1"]) this.column(contract, { busy: true });
    try {
      await Promise.all([this.askV2(asked, agent, running), this.askV1(asked, agent, running)]);
    } finally {
      clearInterval(wait);
      if (running === this.#running) {
        this.#running = null;
        replace(this.status);
        this.indexIsAt(this.agent().generation);
      }
    }
  }

  waiting(running, began) {
    const seconds = Math.floor((performance.now() - began) / 1000);
    replace(this.status, element("span", {}, seconds ? `Searching for ${seconds} s ` : "Searching … "),
      button("Cancel", () => running.abort(), { class: "plain" }));
  }

  /* Says so when what was searched is not what is there now. */
  indexIsAt(generation) {
    if (this.#shown === null || this.#running !== null) return;
    const stale = generation !== this.#shown.generation && this.#shown.generation !== undefined;
    if (stale === (this.status.dataset.stale === "true") && this.status.hasChildNodes() === stale) return;
    this.status.dataset.stale = String(stale);
    replace(this.status, ...(stale ? [element("span", {}, "The index has changed since this search. "),
      button("Search again", () => this.run(), { class: "plain" })] : []));
  }

  async askV2(asked, agent, running) {
    const { maxChars, path, since, until, ...plain } = asked;
    const filtered = [maxChars, path, since, until].some((value) => value !== undefined);
    const method = filtered ? "sidecar.search" : "memory.search";
    const params = { ...(filtered ? asked : { version: 2, ...plain }), agentId: agent.id };
    const began = performance.now();
    try {
      const answer = await this.service.call(method, params, { seconds: SEARCH_SECONDS, signal: running.signal });
      if (running !== this.#running) return;
      const { list } = this.column("v2", {
        facts: [counted(answer.hits.length), answer.coverage, method, took(began)],
        said: answer.warning, cut: answer.truncated,
      });
      const shared = { terms: wordsOf(asked.query), get: this.reader(agent), explain: this.explainer(asked, agent) };
      this.fill(list, answer, params, method, shared, 0);
    } catch (error) {
      if (running === this.#running) this.column("v2", { error });
    }
  }

  fill(list, answer, params, method, shared, before) {
    list.append(...answer.hits.map((hit, at) => hitV2(hit, before + at + 1, shared)));
    const more = byId("v2").querySelector(".more");
    const count = before + answer.hits.length;
    if (answer.nextCursor === undefined) return replace(more);
    const next = button("More hits", async () => {
      next.disabled = true;
      try {
        const page = await this.service.call(method, { ...params, cursor: answer.nextCursor }, { seconds: SEARCH_SECONDS });
        if (list.isConnected) this.fill(list, page, params, method, shared, count);
      } catch (error) {
        replace(more, failure(error));
      }
    });
    return replace(more, next);
  }

  async askV1(asked, agent, running) {
    if (!agent.servesV1) {
      this.column("v1", { said: "This agent answers v2 alone." });
      return;
    }
    const began = performance.now();
    const params = { query: asked.query, maxResults: asked.maxResults, minScore: asked.minScore, agentId: agent.id };
    const ignored = [["path", asked.path], ["since", asked.since], ["until", asked.until], ["corpus", asked.sources],
      ["max. characters", asked.maxChars]].filter(([, value]) => value !== undefined).map(([name]) => name);
    try {
      const answer = await this.service.call("memory.search", params, { seconds: SEARCH_SECONDS, signal: running.signal });
      if (running !== this.#running) return;
      const { list } = this.column("v1", {
        facts: [counted(answer.results.length), answer.searchMode, answer.provider, took(began)],
        said: [answer.warning, ignored.length ? `v1 has no filter for ${ignored.join(", ")}: not applied here.` : "",
          asked.minScore !== undefined ? "v1 keeps hits that hold words of the query, whatever the minimum score." : ""].filter(Boolean).join(" "),
      });
      const shared = { terms: wordsOf(asked.query), get: this.reader(agent), providerOf: () => this.agent().providerId };
      list.append(...answer.results.map((hit, at) => hitV1(hit, at + 1, shared)));
    } catch (error) {
      if (running === this.#running) this.column("v1", { error });
    }
  }

  reader(agent) {
    return (params) => this.service.call("memory.get", { ...params, agentId: agent.id });
  }

  /* What `sidecar.explain` says of a hit, asked once for all hits up to the one that is looked at. */
  explainer(asked, agent) {
    const answers = new Map();
    const { maxChars: _, ...params } = asked;
    const name = ({ id, fragment, revision }) => JSON.stringify([id, fragment, revision]);
    return async (hit, rank) => {
      const most = rank <= asked.maxResults ? asked.maxResults : MOST_EXPLAINED;
      if (!answers.has(most)) {
        const answer = this.service.call("sidecar.explain", { ...params, maxResults: most, agentId: agent.id });
        answers.set(most, answer);
        answer.catch(() => answers.delete(most));
      }
      const { hits } = await answers.get(most);
      return hits.find((each) => name(each.reference) === name(hit.reference))?.explain;
    };
  }

  /* Empties a column and says at its head what there is to say. */
  column(contract, { facts = [], said, cut, error, busy } = {}) {
    const column = byId(contract);
    const list = element("ol", { class: "hits" });
    column.setAttribute("aria-busy", String(busy === true));
    replace(column.querySelector(".facts"), ...facts.filter(Boolean).map((fact) => element("span", { class: "chip" }, fact)));
    replace(column.querySelector(".said"),
      said ? element("p", { class: "warning" }, said) : null,
      cut ? element("p", { class: "warning" }, "Further hits were left out: max. characters is reached.") : null,
      error ? failure(error) : null);
    column.querySelector(".hits").replaceWith(list);
    replace(column.querySelector(".more"));
    return { list };
  }

  key(event) {
    if (event.key === "Escape" && this.#running) this.#running.abort();
    else if (event.key === "Escape") byId("query").focus();
    else if (["ArrowDown", "ArrowUp", "ArrowLeft", "ArrowRight"].includes(event.key)) this.move(event);
  }

  move(event) {
    const at = event.target;
    const column = (contract) => [...byId(contract).querySelectorAll(".hit")];
    let to;
    if (at === byId("query") && event.key === "ArrowDown") to = column("v2")[0] ?? column("v1")[0];
    else if (at.matches(".hit")) {
      const own = [...at.parentElement.children];
      const place = own.indexOf(at);
      if (event.key === "ArrowDown") to = own[place + 1];
      else if (event.key === "ArrowUp") to = own[place - 1] ?? byId("query");
      else {
        const other = column(event.key === "ArrowRight" ? "v1" : "v2");
        to = other[Math.min(place, other.length - 1)];
      }
    }
    if (to === undefined) return;
    event.preventDefault();
    to.focus();
  }
}

function counted(number) { return number === 1 ? "1 hit" : number ? `${number} hits` : "no hits"; }
function took(began) { return `${Math.max(1, Math.round(performance.now() - began))} ms`; }

function failure(error) {
  return element("p", { class: "error" }, error.message, error.detail || error.code
    ? element("span", { class: "chip" }, error.detail || error.code) : null);
}
