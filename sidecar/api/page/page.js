/* The page: sign in, three views, and what keeps them true while the service lives, hangs or is restarted. */

import { AuditView } from "./audit.js";
import { Service } from "./calls.js";
import { button, byId, element, replace } from "./elements.js";
import { inert } from "./inert.js";
import { Live } from "./live.js";
import { Search } from "./search.js";
import { StateView } from "./state.js";

const AUDIT_MS = 5000;
const service = new Service();
const views = ["search", "state", "audit"];
const stateView = new StateView(byId("view-state"));
const auditView = new AuditView(byId("view-audit"));

let caller = null;
let declared = null;
let agentId = "";
let generation;
let failed = false;

const search = new Search({
  service,
  agent: () => ({ id: agentId, providerId: declared?.providerId ?? "", servesV1: declared?.servesV1 ?? true, generation }),
  onSearch: () => { if (!failed) notice(); },
});
const health = new Live({ ask, onAnswer: answered, onFailure: notAnswered });
const audit = new Live({
  everyMs: AUDIT_MS,
  ask: (options) => service.call("sidecar.audit", AuditView.params, options),
  onAnswer: (answer) => auditView.show(answer),
  onFailure: (error) => auditView.away(error),
});

/* Who the caller is, again after every failure: the service may be another process by then. */
async function ask(options) {
  if (failed || declared === null) {
    const now = await service.call("sidecar.caller", {}, options);
    const restarted = failed && now.instance !== caller.instance;
    meet(now);
    declared = await service.call("sidecar.capabilities", { agentId }, options);
    search.offer(declared.capabilities);
    if (failed) notice(restarted ? "The service was restarted. The token still holds." : "The service answers again.", "good");
    failed = false;
  }
  return service.call("memory.status", { agentId }, options);
}

function answered(answer) {
  const { files, index, sessions } = answer.details ?? {};
  const waiting = (files?.pending ?? 0) + (index?.pendingVectors ?? 0) + (sessions?.files?.pending ?? 0);
  const notes = files ? `${files.indexed} ${files.indexed === 1 ? "note" : "notes"}` : "";
  pulse(answer.status, [answer.status, notes, waiting ? "indexing" : ""].filter(Boolean).join(" · "));
  generation = index && `${index.generation}/${sessions?.generation ?? ""}`;
  search.indexIsAt(generation);
  stateView.show(answer, declared, caller);
}

function notAnswered(error, pauseMs) {
  if (!service.signedIn) return;
  failed = true;
  pulse("away", error.kind === "refused" ? "refused" : "not answering");
  const again = `Asked again in ${Math.round(pauseMs / 1000)} s.`;
  notice(`${error.message} ${again}`, "bad", button("Ask now", () => health.now(), { class: "plain" }));
  stateView.away(`${error.message} What follows is the last that was known.`);
}

function pulse(status, text) {
  byId("pulse").dataset.status = status;
  if (byId("pulse-text").textContent !== text) byId("pulse-text").textContent = text;
}

function notice(text = "", kind = "", ...more) {
  const place = byId("notice");
  place.hidden = text === "";
  place.dataset.kind = kind;
  if (place.dataset.text === text) return;
  place.dataset.text = text;
  replace(place, ...(text ? [element("span", {}, text), ...more,
    kind === "good" ? button("Dismiss", () => notice(), { class: "plain" }) : null] : []));
}

/* Takes in what the service says about the token; keeps the chosen agent where it still is one. */
function meet(now) {
  caller = now;
  if (!now.agents.includes(agentId)) agentId = now.defaultAgent ?? now.agents[0] ?? "";
  const select = byId("agent");
  replace(select, now.agents.map((id) => element("option", { value: id }, id)));
  select.value = agentId;
  select.closest("label").hidden = now.agents.length < 2;
  document.querySelector('[data-view="audit"]').hidden = !now.audit;
}

byId("sign-in-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = byId("token");
  const submit = event.target.querySelector("[type=submit]");
  submit.disabled = true;
  byId("sign-in-error").textContent = "";
  try {
    const token = field.value.trim();
    if (!/^[\x21-\x7e]+$/.test(token)) throw new Error("A token has no spaces and no letters beyond ASCII.");
    service.signIn(token);
    meet(await service.call("sidecar.caller", {}, { seconds: 10 }));
    field.value = "";
    enter();
  } catch (error) {
    service.signOut();
    replace(byId("sign-in-error"), inert(error.message));
    field.focus();
    field.select();
  } finally {
    submit.disabled = false;
  }
});

function enter() {
  byId("sign-in").hidden = true;
  byId("views").hidden = byId("session").hidden = false;
  byId("filters").open = matchMedia("(min-width: 60rem)").matches;
  pulse("unknown", "asking");
  show("search");
  byId("query").focus();
  health.start();
}

function leave(why = "") {
  health.stop();
  audit.stop();
  service.signOut();
  caller = declared = null;
  agentId = "";
  generation = undefined;
  failed = false;
  search.clear();
  stateView.clear();
  auditView.clear();
  replace(byId("agent"));
  notice();
  for (const view of views) byId(`view-${view}`).hidden = true;
  byId("views").hidden = byId("session").hidden = true;
  byId("sign-in").hidden = false;
  byId("sign-in-error").textContent = why;
  byId("token").focus();
}

function show(view) {
  for (const name of views) byId(`view-${name}`).hidden = name !== view;
  for (const tab of byId("views").children) {
    if (tab.dataset.view === view) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  if (view === "audit") audit.start(); else audit.stop();
}

service.whenTokenRefused(() => { if (caller) leave("The token is no longer accepted. Sign in again."); });
byId("sign-out").addEventListener("click", () => leave());
byId("views").addEventListener("click", (event) => { if (event.target.dataset.view) show(event.target.dataset.view); });
byId("agent").addEventListener("change", () => {
  agentId = byId("agent").value;
  declared = null;
  generation = undefined;
  search.clear();
  stateView.clear();
  health.now();
});
document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof Element && event.target.matches("input, select, textarea");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey || !service.signedIn) return;
  event.preventDefault();
  show("search");
  byId("query").focus();
  byId("query").select();
});
