/** The agent's tools `memory_search` and `memory_get`. */

import { present } from "./answers.js";
import { messageOf, withheldFor } from "./manager.js";
import { SidecarError } from "./sidecar-client.js";

const DEFAULT_RESULTS = 6;
const MOST_RESULTS = 50;
/** More are asked for than are shown where the verdicts on transcripts will take some away. */
const JUDGED_RESULTS = 200;
const MOST_LINES = 2_000;
const DEFAULT_AGENT = "main";

const SEARCH_PARAMETERS = Object.freeze({
  type: "object",
  properties: {
    query: { type: "string", description: "What to look for" },
    maxResults: { type: "integer", minimum: 1, description: `At most ${MOST_RESULTS}, ${DEFAULT_RESULTS} unless given` },
    minScore: { type: "number", description: "Leave out results below this score" },
    corpus: { type: "string", enum: ["memory", "sessions", "all", "wiki"], description: "Notes unless given" },
  },
  required: ["query"],
  additionalProperties: false,
});
const GET_PARAMETERS = Object.freeze({
  type: "object",
  properties: {
    path: { type: "string", description: "A note's path, as memory_search returns it" },
    from: { type: "integer", minimum: 1, description: "The first line to read" },
    lines: { type: "integer", minimum: 1, description: "How many lines to read, 120 unless given" },
    corpus: { type: "string", enum: ["memory", "all", "wiki"], description: "Notes unless given" },
  },
  required: ["path"],
  additionalProperties: false,
});

const NO_WIKI = "The wiki corpus is not served by Memory Sidecar; these results do not cover it.";
const NO_SESSIONS = "Session transcripts are not indexed by this memory sidecar; these results do not cover them.";

/**
 * @typedef {object} ToolParts
 * @property {import("./settings.js").Settings} settings
 * @property {import("./verdicts.js").Verdicts} verdicts
 * @property {(agentId: string) => import("./manager.js").Manager} manager
 */

/** @param {ToolParts} parts @param {any} context the host's context of the run */
export function searchTool(parts, context) {
  return {
    name: "memory_search",
    label: "Memory Search",
    description:
      "Search the agent's notes (MEMORY.md, USER.md, memory/**/*.md and configured extra paths) by words and by " +
      "meaning. Use it before answering about earlier work, decisions, dates, people, preferences or open tasks. " +
      "corpus=sessions searches past conversations instead, where they are indexed; their hits cannot be read " +
      "with memory_get. A warning or error in the result must be passed on to the user.",
    parameters: SEARCH_PARAMETERS,
    execute: (_id, params, signal) => run(parts, context, params, (manager) => search(parts, context, manager, params, signal)),
  };
}

/** @param {ToolParts} parts @param {any} context */
export function getTool(parts, context) {
  return {
    name: "memory_get",
    label: "Memory Get",
    description:
      "Read lines of one of the agent's notes by its path. Without lines, a bounded excerpt; nextFrom says where to " +
      "go on. status=not_found: there is no such note; status=error: the read failed.",
    parameters: GET_PARAMETERS,
    execute: (_id, params) => run(parts, context, params, (manager) => read(context, manager, params)),
  };
}

async function run(parts, context, params, work) {
  const agentId = context?.agentId ?? ownerOf(context?.sessionKey) ?? DEFAULT_AGENT;
  context?.assertInvocationCurrent?.();
  let result;
  if (params.corpus === "wiki") {
    result = { status: "error", error: NO_WIKI, warning: NO_WIKI, ...(params.path ? { path: params.path, text: "" } : { results: [] }) };
  } else if (!parts.settings.serves(agentId)) {
    result = failed(params, new SidecarError("memory sidecar does not serve this agent", { code: "AGENT_NOT_SERVED" }));
  } else {
    const manager = parts.manager(agentId);
    try {
      // Whoever does not answer this in its short time is not asked for what may take longer.
      await manager.refreshStatus();
      result = await work(manager);
    } catch (error) {
      context?.assertInvocationCurrent?.();
      result = failed(params, error);
    } finally {
      await manager.close();
    }
  }
  context?.assertInvocationCurrent?.();
  return { content: [{ type: "text", text: JSON.stringify(result, null, 2) }], details: result };
}

async function search({ verdicts }, context, manager, params, signal) {
  const query = typeof params.query === "string" ? params.query.trim() : "";
  if (query === "") throw new SidecarError("query must be a non-empty string", { code: "INVALID_REQUEST" });
  const wanted = Math.min(MOST_RESULTS, Math.max(1, Math.floor(Number(params.maxResults) || DEFAULT_RESULTS)));
  const status = manager.status();
  const corpora = { memory: ["memory"], sessions: ["sessions"], all: ["memory", "sessions"] };
  const asked = corpora[/** @type {keyof typeof corpora} */ (params.corpus ?? "memory")] ?? ["memory"];
  const sources = asked.filter((source) => status.sources?.includes(source) ?? source === "memory");
  if (sources.length === 0) throw new SidecarError(NO_SESSIONS, { code: "CAPABILITY_UNSUPPORTED" });
  const raw = await manager.search(query, {
    maxResults: sources.includes("sessions") ? JUDGED_RESULTS : wanted,
    minScore: params.minScore,
    sources,
    sessionKey: context?.sessionKey,
    activeProjectKeys: context?.activeProjectKeys?.length ? [...context.activeProjectKeys] : undefined,
    signal,
  });
  const { hits, withheld } = await verdicts.judged({
    agentId: manager.agentId,
    requesterSessionKey: context?.sessionKey,
    sandboxed: context?.sandboxed === true,
    conversationRecall: context?.conversationRecall,
    hits: raw,
  });
  // Where nothing is left of an answer, an empty one would say that there is nothing.
  if (withheld !== undefined && hits.length === 0) throw withheld;
  const warnings = [
    withheld === undefined ? undefined : withheldFor(withheld),
    params.corpus === "all" ? NO_WIKI : undefined,
    sources.length < asked.length ? NO_SESSIONS : undefined,
    status.lastSyncError === undefined ? undefined : `The index is not up to date: ${status.lastSyncError}`,
  ].filter(Boolean);
  const isCited = cites(context);
  return present({
    results: hits.slice(0, wanted).map(({ provenance: _, ...hit }) => ({
      ...hit,
      ...(isCited ? { citation: lines(hit.path, hit.startLine, hit.endLine) } : {}),
    })),
    provider: status.provider,
    model: status.model,
    citations: isCited ? "on" : "off",
    mode: status.custom?.searchMode,
    warning: warnings.length > 0 ? warnings.join(" ") : undefined,
  });
}

async function read(context, manager, params) {
  const most = params.lines === undefined ? undefined : Math.min(MOST_LINES, params.lines);
  const found = await manager.readFile({ relPath: String(params.path ?? ""), from: params.from, lines: most });
  const isCited = cites(context) && found.status === "ok" && found.lines > 0;
  return present({
    ...found,
    citation: isCited ? lines(found.path, found.from, found.from + found.lines - 1) : undefined,
    warning: params.corpus === "all" ? NO_WIKI : undefined,
  });
}

function failed(params, error) {
  const told = { status: "error", code: error?.reason ?? error?.code ?? "MEMORY_FAILED", error: messageOf(error) };
  return params.path === undefined
    ? { results: [], ...told, warning: "Memory was not searched. Tell the user that this answer does without it." }
    : { path: params.path, text: "", ...told };
}

/** @param {string} path @param {number} start @param {number} end */
const lines = (path, start, end) => `${path}#L${start}${end === start ? "" : `-L${end}`}`;

/** `auto` leaves citations out where others than the owner may read along. */
function cites(context) {
  const cfg = context?.getRuntimeConfig?.() ?? context?.runtimeConfig ?? context?.config;
  const mode = cfg?.memory?.citations ?? "auto";
  return mode === "on" || (mode !== "off" && !/:(group|channel):/.test(context?.sessionKey ?? ""));
}

/** @param {string | undefined} sessionKey */
const ownerOf = (sessionKey) => /^agent:([^:]+):/.exec(sessionKey ?? "")?.[1];
