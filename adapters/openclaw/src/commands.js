/** `openclaw memory-sidecar status|search`. */

import { Manager, messageOf } from "./manager.js";

/**
 * @param {any} program the host's command line
 * @param {import("./sidecar-client.js").SidecarClient} client
 * @param {{write: (line: string) => void, fail: () => void}} [terminal]
 */
export function registerCommands(program, client, terminal = REAL) {
  const group = program.command("memory-sidecar").description("Ask the memory sidecar");
  const act = (work) => async (...given) => {
    // The query, if any, then the options.
    const options = given.find((item) => typeof item === "object" && item !== null) ?? {};
    const manager = new Manager({ client, agentId: options.agent ?? "main", purpose: "cli" });
    try {
      await work(manager, options, given[0]);
    } catch (error) {
      terminal.write(messageOf(error));
      terminal.fail();
    } finally {
      await manager.close();
      client.close();
    }
  };
  group
    .command("status")
    .description("How the sidecar is")
    .option("--agent <id>", "agent", "main")
    .option("--json", "print JSON")
    .action(
      act(async (manager, options) => {
        await manager.refreshStatus();
        const status = manager.status();
        terminal.write(options.json ? JSON.stringify(status, null, 2) : summary(status));
      }),
    );
  group
    .command("search <query>")
    .description("Search the notes")
    .option("--agent <id>", "agent", "main")
    .option("--max-results <n>", "how many results", "6")
    .option("--json", "print JSON")
    .action(
      act(async (manager, options, query) => {
        const hits = await manager.search(query, { maxResults: Number(options.maxResults), sources: ["memory"] });
        if (options.json) terminal.write(JSON.stringify(hits, null, 2));
        else if (hits.length === 0) terminal.write("Nothing found.");
        else hits.forEach((hit) => terminal.write(`${hit.path}:${hit.startLine}  ${hit.score.toFixed(2)}\n${hit.snippet}\n`));
      }),
    );
}

const REAL = Object.freeze({
  write: (line) => process.stdout.write(`${line}\n`),
  fail: () => {
    process.exitCode = 1;
  },
});

/** @param {any} status */
function summary({ files, chunks, provider, model, custom, dirty, lastSyncError }) {
  const lines = [
    `Memory Sidecar: ${lastSyncError === undefined ? "ready" : "degraded"}`,
    `Notes: ${files} files, ${chunks} passages${dirty ? ", still indexing" : ""}`,
    `Embeddings: ${provider}${model ? ` (${model})` : ""}, ${custom?.searchMode ?? "fts-only"}`,
  ];
  return [...lines, ...(lastSyncError === undefined ? [] : [lastSyncError])].join("\n");
}
