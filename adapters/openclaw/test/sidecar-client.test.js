import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, mkdtemp, open, readdir, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { settingsFrom } from "../src/settings.js";
import { SidecarClient, SidecarError, UNAVAILABLE } from "../src/sidecar-client.js";

const TOKEN = "the-token-of-the-host";
const OK = JSON.stringify({ type: "res", id: "1", ok: true, payload: { hits: [] } });
const REQUEST_MS = 400;
/** What a loaded machine may add to a deadline. */
const SLACK_MS = 4_000;

let folder;
let server;
let answer;
let asked;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "client-"));
  await writeFile(join(folder, "host.token"), `${TOKEN}\n`, { mode: 0o600 });
  server = createServer((request, response) => {
    asked += 1;
    request.resume();
    answer(response, request);
  });
  await new Promise((resolve) => server.listen(join(folder, "sidecar.sock"), resolve));
});

after(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await rm(folder, { recursive: true });
});

function clientOf(more = {}) {
  asked = 0;
  return new SidecarClient(
    settingsFrom({ socketPath: join(folder, "sidecar.sock"), timeouts: { requestMs: REQUEST_MS }, ...more }),
  );
}

async function failureOf(client) {
  const began = Date.now();
  try {
    await client.call("manager.search", {});
  } catch (error) {
    assert.ok(error instanceof SidecarError, String(error));
    assert.ok(Date.now() - began < REQUEST_MS + SLACK_MS);
    for (const secret of [folder, TOKEN, "sidecar.sock"]) assert.ok(!`${error.message} ${error.code}`.includes(secret));
    return error;
  } finally {
    client.close();
  }
  return assert.fail("it gave an answer");
}

const whole = (status, body, headers = {}) => (response) => response.writeHead(status, headers).end(body);

/** A byte now and then for ever: each one comes in time, the whole never does. */
function dripping(response) {
  response.writeHead(200);
  const timer = setInterval(() => response.write(" "), 20);
  response.on("close", () => clearInterval(timer));
}

for (const [what, given] of [
  ["a redirect, even with an answer in it", whole(302, OK, { location: "http://127.0.0.1:9/" })],
  ["an answer under an error's status", whole(500, OK)],
  ["an error under a success's status", whole(200, '{"ok": false, "error": {"code": "X", "message": "x"}}')],
  ["HTML", whole(200, "<html>ok</html>")],
  ["nothing", whole(200, "")],
  ["no content", whole(204)],
  ["null", whole(200, "null")],
  ["a payload that is a list", whole(200, '{"ok": true, "payload": []}')],
  ["an error without a message", whole(503, '{"code": "X"}')],
  ["the refusal of the token", whole(401, '{"code": "INVALID_REQUEST", "message": "no"}')],
  ["half a body", (response) => response.writeHead(200, { "content-length": 1000 }).write(OK, () => response.destroy())],
  ["no answer at all", () => {}],
  ["a slow stream", dripping],
  ["more than may be held", (response) => response.writeHead(200).end(Buffer.alloc(17 * 1024 * 1024, 32))],
]) {
  test(`${what} is a sidecar that is not there, told in time, without address or token`, async () => {
    answer = given;
    assert.equal((await failureOf(clientOf())).code, UNAVAILABLE);
  });
}

test("a redirect is not followed and nothing is asked twice", async () => {
  answer = (response) => response.writeHead(307, { location: "/elsewhere" }).end();
  await failureOf(clientOf());
  assert.equal(asked, 1);
});

test("a kept connection that hangs and breaks gets no second deadline", async () => {
  answer = whole(200, OK);
  const client = clientOf();
  await client.call("manager.search", {});
  answer = (response) => setTimeout(() => response.destroy(), asked === 2 ? REQUEST_MS / 2 : 60_000).unref();
  assert.equal((await failureOf(client)).message, "memory sidecar unavailable: no answer in time");
});

test("what the other side says comes as one short line, without control characters and without the token", async () => {
  const message = `bad\n\u001b[31m ${TOKEN} ${"x".repeat(10_000)}`;
  answer = whole(503, JSON.stringify({ ok: false, error: { code: "UNAVAILABLE", message, details: { code: `A\n${TOKEN}` } } }));
  const error = await failureOf(clientOf());
  assert.match(error.message, /^bad \[31m \*{3} x+$/);
  assert.equal(error.message.length, 500);
  assert.equal(error.code, "A ***");
});

test("a token's file that is a pipe, a folder, a device, empty or large is no token, and nothing waits for it", async () => {
  answer = whole(200, OK);
  execFileSync("mkfifo", [join(folder, "pipe")]);
  await writeFile(join(folder, "empty"), "");
  await writeFile(join(folder, "large"), "a".repeat(5_000));
  await writeFile(join(folder, "lines"), "a-token-of-two\nlines-of-text\n");
  for (const tokenFile of ["pipe", "", "empty", "large", "lines", "missing"].map((name) => join(folder, name)).concat("/dev/zero")) {
    assert.match((await failureOf(clientOf({ tokenFile }))).message, /no usable token/, tokenFile);
  }
  assert.equal(asked, 0);
});

test("a token that is rotated in its file is used with the next call", async () => {
  const seen = [];
  answer = (response, request) => {
    seen.push(request.headers.authorization);
    response.end(OK);
  };
  const tokenFile = join(folder, "rotated");
  const client = clientOf({ tokenFile });
  for (const token of ["first-token-of-the-host", "second-token-of-the-host"]) {
    await writeFile(tokenFile, token);
    await client.call("manager.search", {});
  }
  client.close();
  assert.deepEqual(seen, ["Bearer first-token-of-the-host", "Bearer second-token-of-the-host"]);
});

test("a socket below folders of any length is reached, and nothing is left open", { skip: process.platform !== "linux" }, async () => {
  const deep = join(folder, "d".repeat(60), "e".repeat(60));
  await mkdir(deep, { recursive: true });
  await writeFile(join(deep, "host.token"), TOKEN);
  const socketPath = join(deep, "sidecar.sock");
  const missing = clientOf({ socketPath });
  assert.equal((await failureOf(missing)).message, "memory sidecar unavailable: it does not answer");
  const entrance = await open(deep);
  const behind = createServer((request, response) => {
    request.resume();
    response.end(OK);
  });
  await new Promise((resolve) => behind.listen(`/proc/self/fd/${entrance.fd}/sidecar.sock`, resolve));
  await entrance.close();
  const client = clientOf({ socketPath });
  const opened = async () => (await readdir("/proc/self/fd")).length;
  await client.call("manager.search", {});
  const count = await opened();
  for (let call = 0; call < 20; call += 1) assert.deepEqual((await client.call("manager.search", {})).hits, []);
  assert.ok((await opened()) <= count);
  client.close();
  behind.closeAllConnections();
  await new Promise((resolve) => behind.close(resolve));
});
