import assert from "node:assert/strict";
import { test } from "node:test";

import { CAPABILITIES, failure, StubSidecar } from "./stub-sidecar.js";
import { StubHost } from "./stub-host.js";

const OPERATOR = { kind: "operator", scopes: ["operator.read"], connId: "c1" };
const SESSION = { kind: "session", sessionKey: "agent:main:main", sandboxed: false, sessionId: "s" };
/** What a loaded machine may add to a deadline. */
const SLACK_MS = 2_000;
const FOUND = { reference: { providerId: "memory-sidecar", id: "MEMORY.md" }, excerpt: "tea", score: 1 };

async function stage(answers, more = {}) {
  const sidecar = await StubSidecar.start({ "provider.search": () => ({ hits: [FOUND], coverage: "complete" }), ...answers });
  const host = new StubHost({ config: sidecar.config, ...more });
  const open = (authority = OPERATOR, context = {}) => host.open({ context: { authority, assertCurrent() {}, ...context } });
  return { sidecar, host, open, done: () => sidecar[Symbol.asyncDispose]() };
}

test("a handle declares what the sidecar declares, frozen, and candidates only where there are some", async () => {
  const { sidecar, host, done } = await stage();
  const context = { authority: OPERATOR, assertCurrent() {} };
  const { provider } = await host.capability.providerRuntime.open({ agentId: "main", context });
  assert.deepEqual(provider.capabilities, CAPABILITIES);
  assert.throws(() => provider.capabilities.sources.push("sessions"));
  assert.ok("candidates" in provider);
  sidecar.answers["provider.open"] = () => ({ lease: "l", providerId: "memory-sidecar", capabilities: { ...CAPABILITIES, candidates: [] } });
  assert.ok(!("candidates" in (await host.capability.providerRuntime.open({ agentId: "main", context })).provider));
  await done();
});

test("without assertCurrent nothing is opened", async () => {
  const { sidecar, host, done } = await stage();
  await assert.rejects(host.capability.providerRuntime.open({ agentId: "main", context: { authority: OPERATOR } }), {
    message: "memory provider requires caller authority with assertCurrent",
  });
  assert.deepEqual(sidecar.calls, []);
  await done();
});

test("a search, its page and its capability errors", async () => {
  const { sidecar, open, done } = await stage();
  const { provider } = await open();
  assert.deepEqual(await provider.search({ query: "tea", maxResults: 3 }), { hits: [FOUND], coverage: "complete" });
  assert.deepEqual(sidecar.calls.at(-1).params, { lease: "lease", request: { query: "tea", maxResults: 3 } });
  await assert.rejects(provider.search({ query: "tea", sources: ["sessions"] }), /does not support the sessions source capability/);
  assert.equal(sidecar.methods().at(-1), "provider.search");
  await provider.close();
  await done();
});

test("an audience of the host is admitted for the lease, told by identity and given back with it", async () => {
  const { sidecar, host, open, done } = await stage();
  const audience = host.mint({ kind: "conversation", agentId: "main", sessionKey: "agent:main:root", sessionId: "r" }, SESSION.sessionKey);
  const { provider } = await open({ ...SESSION, audience });
  assert.deepEqual(sidecar.calls[0].params, {
    kind: "conversation", agentId: "main", sessionKey: "agent:main:main", rootSessionKey: "agent:main:root", rootSessionId: "r",
  });
  assert.deepEqual(sidecar.calls[1].params.authority, {
    kind: "session", sessionKey: "agent:main:main", sandboxed: false, sessionId: "s", audience: { handle: "audience" },
  });
  await provider.close();
  await provider.close();
  assert.deepEqual(sidecar.methods().slice(2), ["provider.close", "audience.release"]);
  await assert.rejects(open({ ...SESSION, audience: { ...audience } }), /requires a host-minted memory audience/);
  await done();
});

test("a session whose sandbox is not known is sandboxed", async () => {
  const { sidecar, open, done } = await stage();
  await open({ kind: "session", sessionKey: "agent:main:main" });
  assert.equal(sidecar.calls.at(-1).params.authority.sandboxed, true);
  await done();
});

test("a caller that ended while the sidecar answered gets nothing, and the lease is given back", async () => {
  let isCurrent = true;
  const assertCurrent = () => {
    if (!isCurrent) throw new Error("revoked");
  };
  const { sidecar, open, done } = await stage();
  const { provider } = await open(OPERATOR, { assertCurrent });
  sidecar.answers["provider.search"] = () => {
    isCurrent = false;
    return { hits: [FOUND] };
  };
  await assert.rejects(provider.search({ query: "tea" }), /revoked/);
  const asked = sidecar.calls.length;
  await assert.rejects(provider.search({ query: "tea" }), /revoked/);
  assert.equal(sidecar.calls.length, asked);
  await provider.close();
  assert.equal(sidecar.methods().at(-1), "provider.close");

  isCurrent = true;
  const opened = sidecar.answers["provider.open"];
  sidecar.answers["provider.open"] = (params) => {
    isCurrent = false;
    return opened(params);
  };
  await assert.rejects(open(OPERATOR, { assertCurrent }), /revoked/);
  assert.deepEqual(sidecar.methods().slice(-2), ["provider.open", "provider.close"]);
  await done();
});

test("a released audience ends what its handle may do", async () => {
  const { host, open, done } = await stage();
  const audience = host.mint({ kind: "owner-private", agentId: "main" }, SESSION.sessionKey);
  const { provider } = await open({ ...SESSION, audience });
  host.release(audience);
  await assert.rejects(provider.search({ query: "tea" }), /memory audience was released by its owner/);
  await done();
});

test("the caller's signal cancels what is in flight", async () => {
  const { sidecar, open, done } = await stage();
  const caller = new AbortController();
  const { provider } = await open(OPERATOR, { signal: caller.signal });
  sidecar.answers["provider.search"] = () => new Promise(() => {});
  const searching = provider.search({ query: "tea" });
  caller.abort(new Error("gone"));
  await assert.rejects(searching, /gone/);
  await provider.close();
  await done();
});

test("a caller that has given up already is asked nothing for", async () => {
  const { sidecar, open, done } = await stage();
  const caller = new AbortController();
  const { provider } = await open(OPERATOR, { signal: caller.signal });
  caller.abort(new Error("gone"));
  const asked = sidecar.calls.length;
  for (const call of [
    () => provider.search({ query: "tea" }),
    () => provider.get({ reference: FOUND.reference }),
    () => provider.candidates({ kind: "trigger" }),
    () => provider.health(),
    () => provider.refresh(),
    () => open(OPERATOR, { signal: caller.signal }),
  ]) {
    await assert.rejects(call, /gone/);
  }
  assert.equal(sidecar.calls.length, asked);
  await provider.close();
  assert.equal(sidecar.methods().at(-1), "provider.close");
  await done();
});

test("the caller is asked whether it is current before each request and after each answer", async () => {
  const order = [];
  const said = (method, payload) => () => {
    order.push(method);
    return payload;
  };
  const { host, done } = await stage({
    "provider.search": said("provider.search", { hits: [FOUND] }),
    "provider.get": said("provider.get", { status: "not_found" }),
    "provider.candidates": said("provider.candidates", { hits: [] }),
    "provider.health": said("provider.health", { status: "ready" }),
    "provider.refresh": said("provider.refresh", {}),
  });
  const context = { authority: OPERATOR, assertCurrent: () => order.push("current") };
  const { provider } = await host.capability.providerRuntime.open({ agentId: "main", context });
  for (const [method, call] of [
    ["provider.search", () => provider.search({ query: "tea" })],
    ["provider.get", () => provider.get({ reference: FOUND.reference })],
    ["provider.candidates", () => provider.candidates({ kind: "trigger" })],
    ["provider.health", () => provider.health()],
    ["provider.refresh", () => provider.refresh()],
  ]) {
    order.length = 0;
    await call();
    assert.deepEqual(order, ["current", method, "current"]);
  }
  await provider.close();
  await done();
});

test("a sidecar that hangs: nothing opens, health is unavailable in its time, and all is well when it goes on", async () => {
  const { sidecar, host, open, done } = await stage({ "provider.health": () => ({ status: "ready" }) });
  const { provider } = await open();
  const { answers } = sidecar;
  sidecar.answers = new Proxy({}, { get: () => () => new Promise(() => {}) });
  const late = "memory sidecar unavailable: no answer in time";
  const timed = async (work) => {
    const began = performance.now();
    await work();
    assert.ok(performance.now() - began < sidecar.config.timeouts.statusMs + SLACK_MS);
  };
  await timed(async () => assert.deepEqual(await provider.health(), { status: "unavailable", message: late }));
  const context = { authority: { kind: "host", operation: "status" }, assertCurrent() {} };
  await timed(async () => assert.deepEqual(await host.open({ context, purpose: "status" }), { provider: null, error: late }));
  await assert.rejects(provider.search({ query: "tea" }), { message: late });
  sidecar.answers = answers;
  assert.deepEqual(await provider.health(), { status: "ready" });
  assert.equal((await provider.search({ query: "tea" })).hits.length, 1);
  await done();
});

test("a sidecar that is away: nothing opens, health is unavailable, a search an error; then all is well again", async () => {
  const { sidecar, open, done } = await stage({ "provider.health": () => ({ status: "ready" }) });
  const { provider } = await open();
  assert.deepEqual(await provider.health(), { status: "ready" });
  await sidecar.stop();
  assert.deepEqual(await provider.health(), { status: "unavailable", message: "memory sidecar unavailable: it does not answer" });
  await assert.rejects(provider.search({ query: "tea" }), /memory sidecar unavailable/);
  assert.deepEqual(await open(), { provider: null, error: "memory sidecar unavailable: it does not answer" });
  await sidecar.listen();
  assert.deepEqual(await provider.health(), { status: "ready" });
  await done();
});

test("a new run of the sidecar is asked by a new lease, with rows and audience sent again", async () => {
  const { sidecar, host, open, done } = await stage({}, { rows: () => [{ sessionKey: "agent:main:main", entry: { sessionId: "s" } }] });
  const audience = host.mint({ kind: "owner-private", agentId: "main" }, SESSION.sessionKey);
  const { provider } = await open({ ...SESSION, audience });
  const before = sidecar.calls.length;
  sidecar.instance = "second";
  let isKnown = false;
  sidecar.answers["provider.search"] = () => {
    if (isKnown) return { hits: [FOUND] };
    isKnown = true;
    throw failure("memory provider handle is closed", "LEASE_CLOSED");
  };
  assert.equal((await provider.search({ query: "tea" })).hits.length, 1);
  assert.deepEqual(sidecar.methods().slice(before), [
    "provider.search", "session.replace", "audience.admit", "provider.open", "provider.search",
  ]);
  isKnown = false;
  sidecar.answers["provider.open"] = () => ({ lease: "l", providerId: "memory-sidecar", capabilities: { ...CAPABILITIES, pagination: false } });
  await assert.rejects(provider.search({ query: "tea" }), /memory provider instance is no longer current/);
  await done();
});

test("references of another provider behind the plugin stay its own", async () => {
  const powercontext = { providerId: "powercontext", id: "doc 1" };
  const { sidecar, open, done } = await stage({
    "provider.open": () => ({ lease: "l", providerId: "powercontext", capabilities: CAPABILITIES }),
    "provider.search": () => ({ hits: [{ reference: powercontext, excerpt: "x", citations: [{ label: "l", reference: powercontext }] }] }),
    "provider.get": () => ({ status: "ok", reference: powercontext, text: "x" }),
  });
  const { provider } = await open();
  const [found] = (await provider.search({ query: "x" })).hits;
  assert.deepEqual(found.reference, { providerId: "memory-sidecar", id: "powercontext:doc 1" });
  assert.deepEqual(found.citations[0].reference, found.reference);
  await provider.get({ reference: found.reference, from: 2 });
  assert.deepEqual(sidecar.calls.at(-1).params.request, { reference: powercontext, from: 2 });
  await assert.rejects(provider.get({ reference: { providerId: "memory-sidecar", id: "MEMORY.md" } }), /different provider/);
  await done();
});

test("a page with another provider's reference, or with no list, is an error", async () => {
  const { sidecar, open, done } = await stage();
  const { provider } = await open();
  for (const hits of [undefined, [{ ...FOUND, reference: { providerId: "other", id: "x" } }], [{ ...FOUND, score: "1" }]]) {
    sidecar.answers["provider.search"] = () => ({ hits });
    await assert.rejects(provider.search({ query: "x" }), /malformed/);
  }
  await done();
});

test("the plugin itself discards what came after its caller ended, whatever the host checks", async () => {
  let isCurrent = true;
  const { sidecar, host, done } = await stage();
  const assertCurrent = () => {
    if (!isCurrent) throw new Error("revoked");
  };
  const context = { authority: OPERATOR, assertCurrent };
  const { provider } = await host.capability.providerRuntime.open({ agentId: "main", context });
  sidecar.answers["provider.search"] = () => {
    isCurrent = false;
    return { hits: [FOUND] };
  };
  await assert.rejects(provider.search({ query: "tea" }), /revoked/);
  await provider.close();
  await assert.rejects(provider.search({ query: "tea" }), /memory provider handle is closed/);
  await done();
});
