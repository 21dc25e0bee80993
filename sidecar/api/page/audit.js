/* The last decisions about access, for those who may see them. */

import { element, facts, replace, table } from "./elements.js";
import { inert } from "./inert.js";

const SHOWN = 100;

export class AuditView {
  #text = "";

  constructor(section) { this.section = section; this.clear(); }

  static get params() { return { limit: SHOWN }; }

  clear() {
    this.#text = "";
    this.problem = element("p", { class: "error", hidden: true });
    this.content = element("div", { class: "lists" });
    replace(this.section, this.problem, this.content);
  }

  away(error) {
    replace(this.problem, inert(error.message));
    this.problem.hidden = false;
  }

  show(answer) {
    this.problem.hidden = true;
    const text = JSON.stringify(answer);
    if (text === this.#text) return;
    this.#text = text;
    const denied = Object.entries(answer.denied).sort(([, one], [, other]) => other - one);
    const rows = answer.decisions.map((each) => [
      new Date(each.at).toLocaleTimeString(),
      element("td", {}, element("span", { class: `verdict ${each.verdict === "allow" ? "allow" : "deny"}` }, each.verdict)),
      each.method, each.reason, each.authority, each.agentId, each.tokenName,
    ]);
    replace(this.content,
      element("section", { class: "panel" }, element("h2", {}, "Since the start"),
        facts([["Allowed", answer.allowed], ...denied.map(([reason, count]) => [`Denied: ${reason}`, count])])),
      element("section", { class: "panel" }, element("h2", {}, "Last decisions"),
        rows.length ? table(["At", "Verdict", "Operation", "Rule or reason", "Caller", "Agent", "Token"], rows, "Last decisions")
          : element("p", { class: "quiet" }, "None yet.")));
  }
}
