import assert from "node:assert/strict";
import { test } from "node:test";

import { failure, hit, STATUS, StubSidecar } from "./stub-sidecar.js";
import { StubHost } from "./stub-host.js";

async function stage(answers) {
  const sidecar = await StubSidecar.start(answers);
  const host = new StubHost({ config: sidecar.config });
  return { sidecar, host, runtime: host.capability.runtime };
}
const acquire = (runtime, purpose = "cli") =>
  runtime.getMemorySearchManager({ cfg: {}, agentId: "main", purpose }).then(({ manager }) => manager);

test("registering asks the sidecar nothing, and its status is known before the first search", async () => {
  const { sidecar, runtime } = await stage();
  assert.deepEqual(sidecar.calls, []);
  const manager = await acquire(runtime);
  assert.equal(manager.status().provider, "local");
  assert.equal(sidecar.calls[0].token, "Bearer the-token-of-the-host");
  await sidecar[Symbol.asyncDispose]();
});

test("a search gives at most what was asked for, and its options reach the sidecar", async () => {
  const { sidecar, runtime } = await stage({ "manager.search": () => ({ hits: [hit("a"), hit("b"), hit("c")] }) });
  const manager = await acquire(runtime);
  const hits = await manager.search("tea", {
    maxResults: 2, minScore: 0, sources: ["memory"], lexicalOnly: true, activeProjectKeys: ["k"], onDebug() {},
  });
  assert.deepEqual(hits.map(({ path }) => path), ["a", "b"]);
  assert.deepEqual(sidecar.calls.find(({ method }) => method === "manager.search").params, {
    agentId: "main", query: "tea", maxResults: 2, minScore: 0, sources: ["memory"], lexicalOnly: true, activeProjectKeys: ["k"],
  });
  await manager.close();
  await sidecar[Symbol.asyncDispose]();
});

for (const [what, answer] of [
  ["no list", { hits: {} }],
  ["a score that is no number", { hits: [hit("a", { score: null })] }],
  ["no lines", { hits: [hit("a", { startLine: 0 })] }],
  ["lines that end before they begin", { hits: [hit("a", { startLine: 3, endLine: 2 })] }],
  ["a text of a megabyte", { hits: [hit("a", { snippet: "x".repeat(1_000_000) })] }],
  ["another source", { hits: [hit("a", { source: "wiki" })] }],
  ["no frame", { raw: "<html>" }],
  ["a list", { raw: [] }],
]) {
  test(`an answer with ${what} is an error and never an empty result`, async () => {
    const { sidecar, runtime } = await stage({ "manager.search": () => answer });
    const manager = await acquire(runtime);
    await assert.rejects(manager.search("tea"), /memory sidecar/);
    await sidecar[Symbol.asyncDispose]();
  });
}

test("without a sidecar every call fails at once and names no path, and all is well when it comes back", async () => {
  const { sidecar, host, runtime } = await stage({ "manager.search": () => ({ hits: [hit("a")] }) });
  const shared = await acquire(runtime, "default");
  await sidecar.stop();
  for (const purpose of ["default", "status", "cli"]) {
    const { manager, error } = await runtime.getMemorySearchManager({ agentId: "main", purpose });
    assert.equal(manager, null);
    assert.equal(error, "memory sidecar unavailable: it does not answer");
  }
  await assert.rejects(shared.search("tea"), { message: "memory sidecar unavailable: it does not answer" });
  assert.equal(shared.status().lastSyncError, "memory sidecar unavailable: it does not answer");
  assert.deepEqual(await shared.probeEmbeddingAvailability(), { ok: false, error: "memory sidecar unavailable: it does not answer" });
  assert.equal(await shared.probeVectorAvailability(), false);
  assert.equal((await host.tool("memory_search", { query: "tea" })).status, "error");
  await assert.rejects(runtime.classifyWorkspaceMemoryPaths({ agentId: "main", relativePaths: ["MEMORY.md"] }));
  await sidecar.listen();
  assert.equal((await shared.search("tea")).length, 1);
  assert.equal(await acquire(runtime, "default"), shared);
  assert.equal(shared.status().lastSyncError, undefined);
  await sidecar[Symbol.asyncDispose]();
});

test("a sidecar that does not answer in time is given up", async () => {
  const { sidecar, runtime } = await stage({ "manager.status": () => new Promise(() => {}) });
  const began = performance.now();
  const { manager, error } = await runtime.getMemorySearchManager({ agentId: "main", purpose: "status" });
  assert.equal(manager, null);
  assert.equal(error, "memory sidecar unavailable: no answer in time");
  assert.ok(performance.now() - began < 3_000);
  await sidecar[Symbol.asyncDispose]();
});

test("one that hangs keeps every call, tool and probe only for its own time-out, and is used again when it goes on", async () => {
  const hung = () => new Promise(() => {});
  const { sidecar, host, runtime } = await stage({ "manager.readFile": () => ({ status: "ok", text: "x", path: "a.md", from: 1, lines: 1 }) });
  const shared = await acquire(runtime, "default");
  const { answers } = sidecar;
  sidecar.answers = new Proxy({}, { get: () => hung });
  const late = "memory sidecar unavailable: no answer in time";
  const timed = async (within, work) => {
    const began = performance.now();
    await work();
    assert.ok(performance.now() - began < within + 2_000);
  };
  const { statusMs, requestMs } = sidecar.config.timeouts;
  for (const purpose of ["default", "status", "cli"]) {
    await timed(statusMs, async () => {
      assert.deepEqual(await runtime.getMemorySearchManager({ agentId: "main", purpose }), { manager: null, error: late });
    });
  }
  for (const [name, given] of [["memory_search", { query: "tea" }], ["memory_get", { path: "a.md" }]]) {
    await timed(statusMs, async () => assert.equal((await host.tool(name, given)).error, late));
  }
  await timed(requestMs, () => assert.rejects(shared.search("tea"), { message: late }));
  await timed(requestMs, async () => assert.deepEqual(await shared.probeEmbeddingAvailability(), { ok: false, error: late }));
  assert.deepEqual(shared.getCachedEmbeddingAvailability(), { ok: false, error: late });
  sidecar.answers = answers;
  assert.equal(await acquire(runtime, "default"), shared);
  assert.equal(shared.status().lastSyncError, undefined);
  assert.equal((await host.tool("memory_get", { path: "a.md" })).status, "ok");
  await sidecar[Symbol.asyncDispose]();
});

test("without a token nothing is sent", async () => {
  const sidecar = await StubSidecar.start();
  const host = new StubHost({ config: { ...sidecar.config, tokenEnv: "NO_SUCH_TOKEN_IS_SET" } });
  const { error } = await host.capability.runtime.getMemorySearchManager({ agentId: "main" });
  assert.match(error, /no usable token/);
  assert.deepEqual(sidecar.calls, []);
  await sidecar[Symbol.asyncDispose]();
});

test("a cancelled search is given up on both sides", async () => {
  const { sidecar, runtime } = await stage({ "manager.search": () => new Promise(() => {}) });
  const manager = await acquire(runtime);
  const caller = new AbortController();
  const searching = manager.search("tea", { signal: caller.signal });
  caller.abort(new Error("the caller went away"));
  await assert.rejects(searching, /the caller went away/);
  await sidecar[Symbol.asyncDispose]();
});

test("closing ends what is in flight, twice is once, and a closed manager says so", async () => {
  const { sidecar, runtime } = await stage({ "manager.search": () => new Promise(() => {}) });
  const manager = await acquire(runtime, "default");
  const searching = assert.rejects(manager.search("tea"), /Memory index manager is closed/);
  await runtime.closeAllMemorySearchManagers();
  await searching;
  await manager.close();
  assert.throws(() => manager.status(), /Memory index manager is closed/);
  assert.notEqual(await acquire(runtime, "default"), manager);
  await sidecar[Symbol.asyncDispose]();
});

test("a manager for status does not index", async () => {
  const { sidecar, runtime } = await stage();
  await assert.rejects((await acquire(runtime, "status")).sync({ reason: "x" }), /status managers are read-only/);
  await (await acquire(runtime, "cli")).sync({ reason: "post-compaction", sessions: [] });
  assert.deepEqual(sidecar.calls.at(-1).method === "manager.sync" ? sidecar.calls.at(-1).params : sidecar.calls.at(-2).params, {
    agentId: "main", reason: "post-compaction",
  });
  await sidecar[Symbol.asyncDispose]();
});

test("reads and candidates keep the sidecar's words and its bounds", async () => {
  const { sidecar, runtime } = await stage({
    "manager.readFile": ({ relPath }) => {
      if (relPath === "gone.md") return { status: "not_found", text: "", path: relPath };
      throw failure("path is not an allowed Markdown memory file", "PROVIDER_FAILED");
    },
    "manager.candidates": ({ kind }) => ({ hits: [hit(kind, { score: 0 }), hit("more")] }),
  });
  const manager = await acquire(runtime);
  assert.deepEqual(await manager.readFile({ relPath: "gone.md" }), { status: "not_found", text: "", path: "gone.md" });
  await assert.rejects(manager.readFile({ relPath: "/etc/x" }), { message: "path is not an allowed Markdown memory file" });
  assert.deepEqual((await manager.listTriggerCandidates({ limit: 1 })).map(({ path }) => path), ["trigger"]);
  assert.equal((await manager.listCuratedProjectCandidates({ activeProjectKeys: ["k"] }))[0].path, "project");
  await sidecar[Symbol.asyncDispose]();
});

test("an agent that is not served has no manager", async () => {
  const sidecar = await StubSidecar.start();
  const host = new StubHost({ config: { ...sidecar.config, agents: ["main"] } });
  const { manager, error } = await host.capability.runtime.getMemorySearchManager({ agentId: "other" });
  assert.deepEqual([manager, error], [null, "memory sidecar does not serve this agent"]);
  assert.deepEqual(sidecar.calls, []);
  await sidecar[Symbol.asyncDispose]();
});

test("what is known of embeddings without asking is the last word about them", async () => {
  const { sidecar, runtime } = await stage({
    "manager.probe": () => ({ embedding: { ok: false, error: "quota" }, vector: STATUS.vector }),
  });
  const manager = await acquire(runtime, "status");
  assert.deepEqual(manager.getCachedEmbeddingAvailability(), { ok: true });
  await manager.probeEmbeddingAvailability();
  assert.deepEqual(manager.getCachedEmbeddingAvailability(), { ok: false, error: "quota" });
  assert.equal(await manager.probeVectorAvailability(), true);
  await sidecar[Symbol.asyncDispose]();
});

test("a shared manager that somebody closed is replaced by the next one who asks", async () => {
  const { sidecar, runtime } = await stage();
  const first = await acquire(runtime, "default");
  await first.close();
  const second = await acquire(runtime, "default");
  assert.notEqual(second, first);
  assert.equal(second.status().provider, "local");
  await sidecar[Symbol.asyncDispose]();
});
