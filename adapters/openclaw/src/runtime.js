/** The memory runtime that today's gateways know: where managers come from, and the verdicts beside them. */

import { Manager, messageOf } from "./manager.js";

/**
 * @param {object} parts
 * @param {import("./sidecar-client.js").SidecarClient} parts.client
 * @param {import("./settings.js").Settings} parts.settings
 * @param {import("./verdicts.js").Verdicts} parts.verdicts
 */
export function legacyRuntime({ client, settings, verdicts }) {
  /** @type {Map<string, Manager>} */
  const shared = new Map();
  /** @type {Set<Manager>} */
  const open = new Set();

  /** The gateway passes on unjudged what an operator's search finds, so the verdict is asked for here. */
  const forOperators = (agentId) => (hits) =>
    verdicts.judged({ agentId, sandboxed: false, trustedAgentScope: true, hits });

  const make = (agentId, purpose) => {
    const manager = new Manager({
      client,
      agentId,
      purpose,
      judge: purpose === "cli" ? forOperators(agentId) : undefined,
      onClose: () => {
        open.delete(manager);
        if (shared.get(agentId) === manager) shared.delete(agentId);
      },
    });
    open.add(manager);
    return manager;
  };
  const acquire = (agentId, purpose) => {
    if (purpose !== "default") return make(agentId, purpose);
    const manager = shared.get(agentId) ?? make(agentId, purpose);
    shared.set(agentId, manager);
    return manager;
  };
  const closeAll = async (managers) => {
    await Promise.all(managers.map((manager) => manager.close()));
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
    authorizeSearchHits: (asked) => verdicts.admitted(asked),
    supportsWorkspaceMemoryReadSources: true,
    classifyWorkspaceMemoryPaths: (asked) => verdicts.origins(asked),

    closeMemorySearchManager: ({ agentId }) => closeAll([...open].filter((manager) => manager.agentId === agentId)),

    async closeAllMemorySearchManagers() {
      await closeAll([...open]);
      client.close();
    },
  };
}
