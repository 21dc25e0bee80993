/**
 * The gateway plugin of Memory Sidecar: HTTP to a running sidecar, and nothing else behind it.
 *
 * `register` runs several times in a process, so it only builds objects: no socket, file or timer before a call.
 */

import { artifacts } from "./src/artifacts.js";
import { registerCommands } from "./src/commands.js";
import { flushPlan } from "./src/flush-plan.js";
import { Manager } from "./src/manager.js";
import { promptSection } from "./src/prompt-section.js";
import { providerRuntime } from "./src/provider.js";
import { legacyRuntime } from "./src/runtime.js";
import { SessionRows } from "./src/session-rows.js";
import { settingsFrom } from "./src/settings.js";
import { SidecarClient } from "./src/sidecar-client.js";
import { getTool, searchTool } from "./src/tools.js";
import { Verdicts } from "./src/verdicts.js";

export const RECALL_TOOLS = Object.freeze(["memory_search", "memory_get"]);

export default {
  id: "memory-sidecar",
  name: "Memory Sidecar",
  description: "Memory search by a running Memory Sidecar",

  /** @param {any} api the gateway's plugin API */
  register(api) {
    const settings = settingsFrom(api.pluginConfig);
    const client = new SidecarClient(settings);
    const rows = new SessionRows({
      client,
      list: (agentId) => api.runtime?.agent?.session?.listSessionEntries?.({ agentId, readOnly: true }),
    });
    const verdicts = new Verdicts({ client, rows });
    api.registerMemoryCapability({
      deterministicRecallToolName: "memory_search",
      recallToolNames: RECALL_TOOLS,
      supportsPrivateTranscriptRecall: true,
      promptBuilder: promptSection,
      flushPlanResolver: flushPlan,
      publicArtifacts: artifacts(
        (cfg, agentId) => api.runtime.agent.resolveAgentWorkspaceDir(cfg, agentId),
      ),
      runtime: legacyRuntime({ client, settings, verdicts }),
      providerRuntime: providerRuntime({ client, settings, rows, pluginId: api.id ?? "memory-sidecar" }),
    });
    const parts = { settings, verdicts, manager: (agentId) => new Manager({ client, agentId }) };
    api.registerTool((context) => searchTool(parts, context), { names: ["memory_search"] });
    api.registerTool((context) => getTool(parts, context), { names: ["memory_get"] });
    api.registerCli?.(({ program }) => registerCommands(program, client), {
      descriptors: [
        {
          name: "memory-sidecar",
          description: "Ask the memory sidecar: status, search",
          hasSubcommands: true,
        },
      ],
    });
  },
};
