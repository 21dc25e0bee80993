import assert from "node:assert/strict";
import { test } from "node:test";

import { failure, hit, STATUS, StubSidecar } from "./stub-sidecar.js";
import { StubHost } from "./stub-host.js";

const HITS = [hit("note"), hit("sessions/main/own.jsonl", { source: "sessions" }), hit("sessions/main/else.jsonl", { source: "sessions" })];
const ASKED = { agentId: "main", requesterSessionKey: "agent:main:main", sandboxed: false, hits: HITS };
const admitOwn = ({ hits }) => ({ hits: hits.filter(({ path }) => path.endsWith("own.jsonl")) });
const row = (name, more = {}) => ({ sessionKey: `agent:main:${name}`, entry: { sessionId: name, chatType: "direct", updatedAt: 1, ...more } });

async function stage(answers, rows) {
  const sidecar = await StubSidecar.start(answers);
  const host = new StubHost({ config: sidecar.config, rows });
  return { sidecar, host, runtime: host.capability.runtime };
}

test("a transcript's hit passes only by the sidecar's verdict, and notes always", async () => {
  const { sidecar, runtime } = await stage({ "manager.authorize": admitOwn });
  assert.deepEqual(await runtime.authorizeSearchHits(ASKED), HITS.slice(0, 2));
  await sidecar[Symbol.asyncDispose]();
});

test("a transcript's hit is withheld when the sidecar fails, forges or is gone", async () => {
  const { sidecar, runtime } = await stage({
    "manager.authorize": () => {
      throw failure("boom", "PROVIDER_FAILED");
    },
  });
  assert.deepEqual(await runtime.authorizeSearchHits(ASKED), HITS.slice(0, 1));
  sidecar.answers["manager.authorize"] = () => ({ hits: [{ place: 7 }, { path: HITS[1].path }] });
  assert.deepEqual(await runtime.authorizeSearchHits(ASKED), HITS.slice(0, 1));
  await sidecar.stop();
  assert.deepEqual(await runtime.authorizeSearchHits(ASKED), HITS.slice(0, 1));
  await sidecar[Symbol.asyncDispose]();
});

test("transcripts that no verdict could be had on are missing by name and never silently", async () => {
  const { sidecar, host, runtime } = await stage({
    "manager.status": () => ({ status: STATUS }),
    "manager.search": ({ sources }) => ({ hits: HITS.filter((found) => sources === undefined || sources.includes(found.source)) }),
    "manager.authorize": () => {
      throw failure("the verdict failed", "PROVIDER_FAILED");
    },
  });
  const all = await host.tool("memory_search", { query: "tea", corpus: "all" });
  assert.deepEqual(all.results.map(({ path }) => path), ["note"]);
  assert.match(all.warning, /Transcripts were withheld: the verdict failed/);
  const alone = await host.tool("memory_search", { query: "tea", corpus: "sessions" });
  assert.deepEqual([alone.status, alone.error, alone.results], ["error", "the verdict failed", []]);
  const { manager } = await runtime.getMemorySearchManager({ agentId: "main", purpose: "cli" });
  assert.equal(manager.status().lastSyncError, undefined);
  assert.deepEqual(await manager.search("tea", { maxResults: 5 }), HITS.slice(0, 1));
  assert.equal(manager.status().lastSyncError, "Transcripts were withheld: the verdict failed");
  await manager.close();
  await sidecar[Symbol.asyncDispose]();
});

test("notes alone need no verdict, unless a recall pass is for transcripts alone", async () => {
  const { sidecar, runtime } = await stage({ "manager.authorize": () => ({ hits: [] }) });
  const notes = { ...ASKED, hits: [HITS[0]] };
  assert.deepEqual(await runtime.authorizeSearchHits(notes), [HITS[0]]);
  assert.deepEqual(sidecar.calls, []);
  const recall = { anchorSessionKey: "agent:main:main", scope: "same-agent-private", corpus: "sessions" };
  assert.deepEqual(await runtime.authorizeSearchHits({ ...notes, conversationRecall: recall }), []);
  await sidecar[Symbol.asyncDispose]();
});

test("a requester whose sandbox is not known is sandboxed, and scope is never taken for granted", async () => {
  const { sidecar, runtime } = await stage({ "manager.authorize": admitOwn });
  await runtime.authorizeSearchHits({ agentId: "main", hits: HITS });
  const { params } = sidecar.calls.at(-1);
  assert.deepEqual([params.sandboxed, params.trustedAgentScope], [true, false]);
  await sidecar[Symbol.asyncDispose]();
});

test("an operator's search through the gateway passes the verdict too", async () => {
  const { sidecar, runtime } = await stage({ "manager.search": () => ({ hits: HITS }), "manager.authorize": admitOwn });
  const { manager } = await runtime.getMemorySearchManager({ agentId: "main", purpose: "cli" });
  assert.deepEqual(await manager.search("x"), HITS.slice(0, 2));
  await sidecar[Symbol.asyncDispose]();
});

test("session rows are sent before a verdict, not again while nothing changed, and again to another run", async () => {
  const rows = [row("main", { spawnedBy: undefined, incognito: true }), { sessionKey: "agent:other:main", entry: { sessionId: "x" } }];
  const { sidecar, runtime } = await stage({ "manager.authorize": admitOwn }, () => rows);
  const sent = () => sidecar.calls.filter(({ method }) => method === "session.replace");
  await runtime.authorizeSearchHits(ASKED);
  await runtime.authorizeSearchHits(ASKED);
  assert.deepEqual(sent().map(({ params }) => params), [
    { agentId: "main", rows: [{ sessionKey: "agent:main:main", sessionId: "main", chatType: "direct", incognito: true }] },
  ]);
  sidecar.instance = "second";
  assert.deepEqual(await runtime.authorizeSearchHits(ASKED), HITS.slice(0, 2));
  assert.equal(sent().length, 2);
  assert.equal(sidecar.methods().at(-1), "manager.authorize");
  rows.push(row("child", { spawnedBy: "agent:main:main", spawnedBySenderIsOwner: true }));
  await runtime.authorizeSearchHits(ASKED);
  assert.equal(sent().length, 3);
  await sidecar[Symbol.asyncDispose]();
});

test("more rows than fit are cut to the newest", async () => {
  const many = Array.from({ length: 9_000 }, (_, place) => row(`session-${place}-${"x".repeat(80)}`, { updatedAt: place }));
  const { sidecar, runtime } = await stage({ "manager.authorize": admitOwn }, () => many);
  await runtime.authorizeSearchHits(ASKED);
  const { rows } = sidecar.calls[0].params;
  assert.ok(JSON.stringify(rows).length < 1024 * 1024);
  assert.ok(rows.some(({ sessionId }) => sessionId.startsWith("session-8999-")));
  assert.ok(!rows.some(({ sessionId }) => sessionId.startsWith("session-0-")));
  await sidecar[Symbol.asyncDispose]();
});

test("paths keep their class; a file read elsewhere is trusted no more than its real name", async () => {
  const classes = { "MEMORY.md": "agent", "DREAMS.md": "system" };
  const { sidecar, runtime } = await stage({
    "manager.classify": ({ relativePaths }) => ({
      classifications: relativePaths.map((relativePath) => ({ relativePath, originClass: classes[relativePath] ?? "untrusted" })),
    }),
  });
  assert.equal(runtime.supportsWorkspaceMemoryReadSources, true);
  const asked = { agentId: "main", relativePaths: ["MEMORY.md", "x.md"] };
  const classOf = (answer) => answer.map(({ originClass }) => originClass);
  assert.deepEqual(classOf(await runtime.classifyWorkspaceMemoryPaths(asked)), ["agent", "untrusted"]);
  for (const [canonicalRelativePath, expected] of [["MEMORY.md", "agent"], ["DREAMS.md", "system"], [undefined, "untrusted"]]) {
    const readSources = [{ relativePath: "MEMORY.md", canonicalRelativePath }];
    const [first] = await runtime.classifyWorkspaceMemoryPaths({ ...asked, readSources });
    assert.equal(first.originClass, expected);
  }
  await sidecar[Symbol.asyncDispose]();
});

test("what the host says where its session rows cannot be read reaches nobody, and transcripts are withheld", async () => {
  const { sidecar, host, runtime } = await stage({ "manager.authorize": admitOwn }, () => {
    throw new Error("ENOENT: /home/owner/.openclaw/sessions.db");
  });
  assert.deepEqual(await runtime.authorizeSearchHits(ASKED), HITS.slice(0, 1));
  const authority = { kind: "session", sessionKey: "agent:main:main", sandboxed: false };
  await assert.rejects(host.open({ context: { authority, assertCurrent() {} } }), {
    message: "the gateway's session rows cannot be read",
  });
  assert.deepEqual(sidecar.methods(), []);
  await sidecar[Symbol.asyncDispose]();
});
