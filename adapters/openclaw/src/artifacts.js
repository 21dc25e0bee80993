/** The memory files that the host may publish: MEMORY.md and the notes, never a link, never USER.md. */

import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";

const MOST_FILES = 100_000;

/** @param {(cfg: any, agentId: string) => string} workspaceOf */
export function artifacts(workspaceOf) {
  return {
    /** One entry a file; agents that share a workspace share its entries. @param {{cfg: any}} asked */
    async listArtifacts({ cfg }) {
      /** @type {Map<string, string[]>} */
      const agents = new Map();
      for (const agentId of agentIds(cfg)) {
        const workspaceDir = workspaceOf(cfg, agentId);
        if (!workspaceDir) continue;
        agents.set(workspaceDir, [...(agents.get(workspaceDir) ?? []), agentId]);
      }
      const listed = [];
      for (const [workspaceDir, ids] of agents) {
        for (const relativePath of await memoryFiles(workspaceDir)) {
          listed.push({
            kind: kindOf(relativePath),
            workspaceDir,
            relativePath,
            absolutePath: join(workspaceDir, relativePath),
            agentIds: [...ids],
            contentType: "markdown",
          });
        }
      }
      return listed;
    },
  };
}

/** @param {any} cfg @returns {string[]} */
function agentIds(cfg) {
  const { entries, list } = cfg?.agents ?? {};
  const named = entries ? Object.keys(entries) : (list ?? []).map((agent) => agent?.id).filter(Boolean);
  return named.length > 0 ? named : ["main"];
}

/** @param {string} relativePath */
function kindOf(relativePath) {
  if (relativePath === "MEMORY.md") return "memory-root";
  return relativePath.startsWith("memory/dreaming/") ? "dream-report" : "daily-note";
}

/** @param {string} workspaceDir */
async function memoryFiles(workspaceDir) {
  const found = [];
  if (await isPlain(join(workspaceDir, "MEMORY.md"), "isFile")) found.push("MEMORY.md");
  const waiting = (await isPlain(join(workspaceDir, "memory"), "isDirectory")) ? ["memory"] : [];
  for (let folder = waiting.pop(); folder !== undefined && found.length < MOST_FILES; folder = waiting.pop()) {
    // A folder that vanished or cannot be read has nothing to publish.
    const entries = await readdir(join(workspaceDir, folder), { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      if (entry.isDirectory()) waiting.push(`${folder}/${entry.name}`);
      else if (entry.isFile() && entry.name.endsWith(".md")) found.push(`${folder}/${entry.name}`);
    }
  }
  return found.sort();
}

/** @param {string} path @param {"isFile" | "isDirectory"} kind */
const isPlain = (path, kind) => lstat(path).then((stat) => stat[kind](), () => false);
