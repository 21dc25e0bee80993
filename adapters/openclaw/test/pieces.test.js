import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { registerCommands } from "../src/commands.js";
import { flushPlan } from "../src/flush-plan.js";
import { promptSection } from "../src/prompt-section.js";
import { settingsFrom } from "../src/settings.js";
import { SidecarClient } from "../src/sidecar-client.js";
import { failure, hit, STATUS, StubSidecar } from "./stub-sidecar.js";
import { StubHost } from "./stub-host.js";

const NOON = Date.UTC(2026, 2, 4, 12);

test("the flush plan keeps a part of every window free", () => {
  const thresholds = (contextWindowTokens) => {
    const { reserveTokensFloor, softThresholdTokens } = flushPlan({ contextWindowTokens });
    return [reserveTokensFloor, softThresholdTokens];
  };
  assert.deepEqual(thresholds(undefined), [20_000, 4_000]);
  assert.deepEqual(thresholds(200_000), [20_000, 4_000]);
  assert.deepEqual(thresholds(32_768), [8_192, 4_000]);
  assert.deepEqual(thresholds(8_192), [2_048, 3_072]);
  assert.deepEqual(thresholds(1_000), [250, 375]);
});

test("with a window of 32,768 a flush starts at 20,576 tokens and compaction at 24,576", () => {
  const { reserveTokensFloor, softThresholdTokens } = flushPlan({ contextWindowTokens: 32_768 });
  assert.equal(32_768 - reserveTokensFloor - softThresholdTokens, 20_576);
  assert.equal(32_768 - reserveTokensFloor, 24_576);
});

test("the flush follows the gateway's configuration and is null when disabled", () => {
  const plan = (memoryFlush) => flushPlan({ cfg: { agents: { defaults: { compaction: { memoryFlush } } } } });
  assert.equal(plan({ enabled: false }), null);
  assert.equal(plan({}).forceFlushTranscriptBytes, 2 * 1024 * 1024);
  assert.equal(plan({ forceFlushTranscriptBytes: "3mb" }).forceFlushTranscriptBytes, 3 * 1024 * 1024);
  assert.equal(plan({ forceFlushTranscriptBytes: 0 }).forceFlushTranscriptBytes, 0);
  assert.equal(plan({ softThresholdTokens: 10 }).softThresholdTokens, 10);
  assert.equal(plan({ model: " small " }).model, "small");
  assert.ok(!("model" in plan({})));
});

test("the flush names the day where the user is, and only its file", () => {
  const at = (userTimezone) => flushPlan({ nowMs: Date.UTC(2026, 2, 4, 23, 30), cfg: { agents: { defaults: { userTimezone } } } });
  assert.equal(at("Europe/Helsinki").relativePath, "memory/2026-03-05.md");
  assert.equal(at("America/New_York").relativePath, "memory/2026-03-04.md");
  assert.match(at("No/Such_Zone").relativePath, /^memory\/2026-03-0[45]\.md$/);
});

test("both flush prompts say what may be written and how to be silent", () => {
  const { prompt, systemPrompt } = flushPlan({ nowMs: NOON, cfg: { agents: { defaults: { userTimezone: "UTC" } } } });
  for (const text of [prompt, systemPrompt]) {
    for (const part of ["memory/2026-03-04.md", "append", "MEMORY.md", "DREAMS.md", "SOUL.md", "AGENTS.md", "read-only", "NO_REPLY"]) {
      assert.ok(text.includes(part), part);
    }
    assert.ok(!text.includes("YYYY"));
  }
  assert.match(prompt, /no variant of it with a time/);
  assert.match(prompt.split("\n").at(-1), /^Current time: 2026-03-04 12:00 \(UTC\)$/);
});

test("the prompt section speaks of the tools that are there", () => {
  assert.deepEqual(promptSection({ availableTools: new Set(["read"]) }), []);
  const text = (tools, citationsMode) => promptSection({ availableTools: new Set(tools), citationsMode }).join("\n");
  assert.match(text(["memory_search"]), /memory_search/);
  assert.doesNotMatch(text(["memory_search"]), /memory_get/);
  assert.match(text(["memory_get"], "off"), /Do not name note paths/);
});

test("public artifacts are MEMORY.md and notes, once for agents that share them, and never a link", async () => {
  const folder = await mkdtemp(join(tmpdir(), "notes-"));
  await mkdir(join(folder, "memory", "dreaming"), { recursive: true });
  for (const name of ["MEMORY.md", "USER.md", "memory/2026-03-04.md", "memory/x.txt", "memory/dreaming/d.md"]) {
    await writeFile(join(folder, name), "x");
  }
  await symlink(join(folder, "USER.md"), join(folder, "memory", "link.md"));
  const host = new StubHost({ workspaces: { main: folder, other: folder } });
  const cfg = { agents: { entries: { main: {}, other: {}, homeless: {} } } };
  const listed = await host.capability.publicArtifacts.listArtifacts({ cfg });
  assert.deepEqual(listed.map(({ kind, relativePath }) => [kind, relativePath]), [
    ["memory-root", "MEMORY.md"],
    ["daily-note", "memory/2026-03-04.md"],
    ["dream-report", "memory/dreaming/d.md"],
  ]);
  assert.deepEqual(listed[0], {
    kind: "memory-root", workspaceDir: folder, relativePath: "MEMORY.md", absolutePath: join(folder, "MEMORY.md"),
    agentIds: ["main", "other"], contentType: "markdown",
  });
  await rm(folder, { recursive: true });
});

test("settings: the token stands beside the socket unless another is named", () => {
  assert.equal(settingsFrom({ socketPath: "~/s/sidecar.sock" }).tokenFile, join(homedir(), "s/host.token"));
  assert.equal(settingsFrom({ socketPath: "/s/sidecar.sock", tokenEnv: "T" }).tokenFile, undefined);
  assert.equal(settingsFrom().endpoint.href, "http://127.0.0.1:8737/");
  assert.equal(settingsFrom({ timeouts: { statusMs: 100 } }).timeouts.syncMs, 300_000);
});

test("over TCP a token of the environment is sent, and a refused one is said", async () => {
  const sidecar = await StubSidecar.start();
  await sidecar.stop();
  sidecar.socketPath = { port: 0, host: "127.0.0.1" };
  await sidecar.listen();
  process.env.STUB_TOKEN = "a-token-of-the-environment";
  const client = new SidecarClient(settingsFrom({ endpoint: `http://127.0.0.1:${sidecar.server.address().port}`, tokenEnv: "STUB_TOKEN" }));
  await client.call("manager.status", {});
  assert.equal(sidecar.calls[0].token, "Bearer a-token-of-the-environment");
  sidecar._serve = async (_request, response) => sidecar._send(response, 401, { code: "INVALID_REQUEST", message: "no" });
  await assert.rejects(client.call("manager.status", {}), { message: "memory sidecar unavailable: it does not accept the token" });
  await sidecar[Symbol.asyncDispose]();
});

test("where both are named, the socket is used and the endpoint is not", async () => {
  const sidecar = await StubSidecar.start();
  const client = new SidecarClient(settingsFrom({ ...sidecar.config, endpoint: "http://127.0.0.1:9" }));
  await client.call("manager.status", {});
  assert.deepEqual(sidecar.methods(), ["manager.status"]);
  await sidecar.stop();
  await assert.rejects(client.call("manager.status", {}), { message: "memory sidecar unavailable: it does not answer" });
  await sidecar[Symbol.asyncDispose]();
});

test("the tools cite, bound and warn", async () => {
  const sidecar = await StubSidecar.start({
    "manager.status": () => ({ status: { ...STATUS, sources: ["memory"] } }),
    "manager.search": ({ maxResults }) => ({ hits: Array.from({ length: maxResults }, () => hit("a.md", { provenance: {} })) }),
    "manager.readFile": ({ relPath }) => {
      if (relPath === "a.md") return { status: "ok", text: "x", path: relPath, from: 3, lines: 1 };
      throw Object.assign(failure("path is not an allowed Markdown memory file", "PROVIDER_FAILED"), { reason: "MEMORY_PATH_NOT_ALLOWED" });
    },
  });
  const host = new StubHost({ config: sidecar.config });
  const found = await host.tool("memory_search", { query: "x", maxResults: 500 });
  assert.equal(found.results.length, 50);
  assert.equal(found.results[0].citation, "a.md#L1-L2");
  const grouped = await host.tool("memory_search", { query: "x" }, { sessionKey: "agent:main:telegram:group:1" });
  assert.equal(grouped.results[0].citation, undefined);
  assert.match((await host.tool("memory_search", { query: "x", corpus: "all" })).warning, /wiki.*transcripts/s);
  assert.equal((await host.tool("memory_search", { query: "x", corpus: "sessions" })).status, "error");
  assert.equal((await host.tool("memory_search", { query: " " })).status, "error");
  assert.equal((await host.tool("memory_search", { query: "x", corpus: "wiki" })).status, "error");
  assert.equal((await host.tool("memory_get", { path: "a.md", from: 3, lines: 1 })).citation, "a.md#L3");
  const { code, error, text } = await host.tool("memory_get", { path: "/etc/passwd" });
  assert.deepEqual([code, error, text], ["MEMORY_PATH_NOT_ALLOWED", "path is not an allowed Markdown memory file", ""]);
  await sidecar[Symbol.asyncDispose]();
});

test("the command line prints what the sidecar says and fails where it cannot be asked", async () => {
  const sidecar = await StubSidecar.start({ "manager.search": () => ({ hits: [hit("a.md")] }) });
  const lines = [];
  let isFailed = false;
  const actions = {};
  const command = (name) => {
    const self = {
      command: (line) => command(line.split(" ")[0]),
      description: () => self,
      option: () => self,
      action: (run) => {
        actions[name] = run;
      },
    };
    return self;
  };
  const terminal = { write: (line) => lines.push(line), fail: () => (isFailed = true) };
  registerCommands({ command }, new SidecarClient(settingsFrom(sidecar.config)), terminal);
  await actions.status({ agent: "main" });
  assert.match(lines.join("\n"), /Memory Sidecar: ready/);
  await actions.search("tea", { agent: "main", maxResults: "3" });
  assert.match(lines.at(-1), /^a\.md:1 {2}0\.50/);
  assert.equal(isFailed, false);
  await sidecar.stop();
  await actions.status({ agent: "main" });
  assert.deepEqual([lines.at(-1), isFailed], ["memory sidecar unavailable: it does not answer", true]);
  await sidecar[Symbol.asyncDispose]();
});
