/** The memory runtime that today's gateways know: managers, and the verdicts on hits and paths. */

import { Manager, messageOf } from "./manager.js";
import { isObject } from "./sidecar-client.js";

const MOST_HITS = 1000;
const MOST_PATHS = 1000;
/** From the least to the most trusted. */
const TRUST = Object.freeze(["untrusted", "system", "agent", "owner"]);

/**
 * @param {object} parts
 * @param {import("./sidecar-client.js").SidecarClient} parts.client
 * @param {import("./settings.js").Settings} parts.settings
 * @param {import("./session-rows.js").SessionRows} parts.rows
 */
export function legacyRuntime({ client, settings, rows }) {
  /** @type {Map<string, Manager>} */
  const shared = new Map();
  /** @type {Map<Manager, string>} */
  const open = new Map();

  const make = (agentId, purpose) => {
    const manager = new Manager({ client, agentId, purpose, onClose: () => open.delete(manager) });
    open.set(manager, agentId);
    return manager;
  };
  const acquire = (agentId, purpose) => {
    if (purpose !== "default") return make(agentId, purpose);
    const manager = shared.get(agentId) ?? make(agentId, purpose);
    shared.set(agentId, manager);
    return manager;
  };
  const closeWhere = async (holds) => {
    const ending = [...open].filter(([, agentId]) => holds(agentId));
    for (const [, agentId] of ending) shared.delete(agentId);
    await Promise.all(ending.map(([manager]) => manager.close()));
  };

  return {
    /**
     * A manager whose sidecar has just answered, or null and why not.
     *
     * `default`: one for each agent, that stays; `cli` and `status`: the caller's own, which it closes.
     */
    async getMemorySearchManager({ agentId, purpose = "default" }) {
      const began = Date.now();
      if (!settings.serves(agentId)) {
        return { manager: null, error: "memory sidecar does not serve this agent" };
      }
      const manager = acquire(agentId, purpose);
      try {
        await manager.refreshStatus();
      } catch (error) {
        if (purpose !== "default") await manager.close();
        return { manager: null, error: messageOf(error) };
      }
      return { manager, debug: { backend: "builtin", purpose, managerMs: Date.now() - began } };
    },

    resolveMemoryBackendConfig: () => ({ backend: "builtin" }),

    /** The hits that the requester may see; a transcript's hit only if the sidecar says so. */
    async authorizeSearchHits({
      agentId,
      requesterSessionKey,
      sandboxed,
      trustedAgentScope = false,
      conversationRecall,
      hits,
    }) {
      const narrow = conversationRecall?.corpus === "sessions";
      const isTranscript = (hit) => hit?.source !== "memory";
      if (!narrow && !hits.some(isTranscript)) return hits;
      const judged = await judge({ agentId, requesterSessionKey, sandboxed, trustedAgentScope, conversationRecall, hits });
      return hits.filter((hit, place) => (isTranscript(hit) || narrow ? judged.has(place) : true));
    },

    supportsWorkspaceMemoryReadSources: true,

    /** Where workspace paths come from. Of a file that was read elsewhere, both its names count. */
    async classifyWorkspaceMemoryPaths({ agentId, relativePaths, readSources }) {
      const sources = new Map((readSources ?? []).map((source) => [source.relativePath, source]));
      const namesOf = (path) =>
        readSources === undefined ? [path] : [path, sources.get(path)?.canonicalRelativePath].filter(Boolean);
      const origins = await classes(agentId, [...new Set(relativePaths.flatMap(namesOf))]);
      const isKnown = (path) => readSources === undefined || Boolean(sources.get(path)?.canonicalRelativePath);
      return relativePaths.map((relativePath) => ({
        relativePath,
        originClass: isKnown(relativePath)
          ? leastTrusted(namesOf(relativePath).map((name) => origins.get(name)))
          : "untrusted",
      }));
    },

    closeMemorySearchManager: ({ agentId }) => closeWhere((held) => held === agentId),

    async closeAllMemorySearchManagers() {
      await closeWhere(() => true);
      client.close();
    },
  };

  /** The places of the hits that the sidecar admits; none where it cannot be asked. */
  async function judge({ agentId, hits, ...requester }) {
    try {
      return await rows.under(agentId, () => admitted(agentId, hits, requester));
    } catch {
      return new Set(); // fail closed
    }
  }

  /** @returns {Promise<Set<number>>} */
  async function admitted(agentId, hits, { requesterSessionKey, sandboxed, trustedAgentScope, conversationRecall }) {
    const places = new Set();
    for (let start = 0; start < hits.length; start += MOST_HITS) {
      const asked = hits.slice(start, start + MOST_HITS).map(({ path, source, startLine, endLine }, offset) => ({
        path,
        source,
        startLine,
        endLine,
        place: start + offset,
      }));
      const payload = await client.call("manager.authorize", {
        agentId,
        requesterSessionKey: requesterSessionKey || undefined,
        sandboxed: sandboxed !== false,
        trustedAgentScope: trustedAgentScope === true,
        conversationRecall,
        hits: asked,
      });
      for (const { place } of payload.hits) places.add(place);
    }
    return places;
  }

  /** @returns {Promise<Map<string, string>>} */
  async function classes(agentId, paths) {
    const found = new Map();
    for (let start = 0; start < paths.length; start += MOST_PATHS) {
      const relativePaths = paths.slice(start, start + MOST_PATHS);
      const { classifications } = await client.call("manager.classify", { agentId, relativePaths });
      for (const item of Array.isArray(classifications) ? classifications : []) {
        if (isObject(item)) found.set(item.relativePath, item.originClass);
      }
    }
    return found;
  }
}

/** @param {(string | undefined)[]} origins */
function leastTrusted(origins) {
  const places = origins.map((origin) => Math.max(0, TRUST.indexOf(origin ?? "untrusted")));
  return TRUST[Math.min(...places)];
}
