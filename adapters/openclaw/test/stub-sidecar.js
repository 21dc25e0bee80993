/** A sidecar that answers what a test tells it to, over a real Unix socket. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const STATUS = {
  backend: "builtin",
  provider: "local",
  sources: ["memory", "sessions"],
  vector: { enabled: true, available: true },
  custom: { searchMode: "hybrid" },
};
export const CAPABILITIES = { sources: ["memory"], pagination: true, candidates: ["trigger"], projectFilter: true };
export const hit = (path, more = {}) => ({ path, startLine: 1, endLine: 2, score: 0.5, snippet: path, source: "memory", ...more });

export class StubSidecar {
  static async start(answers = {}) {
    const stub = new StubSidecar();
    stub.folder = await mkdtemp(join(tmpdir(), "stub-"));
    stub.socketPath = join(stub.folder, "sidecar.sock");
    stub.tokenFile = join(stub.folder, "host.token");
    await writeFile(stub.tokenFile, "the-token-of-the-host\n", { mode: 0o600 });
    stub.calls = [];
    stub.instance = "first";
    stub.answers = {
      "manager.status": () => ({ status: STATUS }),
      "provider.open": () => ({ lease: "lease", providerId: "memory-sidecar", adapter: "native", capabilities: CAPABILITIES }),
      "audience.admit": ({ kind, agentId }) => ({ audience: { handle: "audience", kind, agentId } }),
      ...answers,
    };
    await stub.listen();
    return stub;
  }

  get config() {
    return { socketPath: this.socketPath, timeouts: { statusMs: 500, requestMs: 1_000 } };
  }

  methods() {
    return this.calls.map(({ method }) => method);
  }

  async listen() {
    this.server = createServer((request, response) => this._serve(request, response));
    await new Promise((resolve) => this.server.listen(this.socketPath, resolve));
  }

  /** As if it had been killed. */
  async stop() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }

  async [Symbol.asyncDispose]() {
    if (this.server.listening) await this.stop();
    await rm(this.folder, { recursive: true });
  }

  async _serve(request, response) {
    let text = "";
    for await (const chunk of request) text += chunk;
    const method = request.url.slice("/rpc/".length);
    const params = JSON.parse(text);
    this.calls.push({ method, params, token: request.headers.authorization });
    try {
      const payload = await (this.answers[method] ?? (() => ({})))(params);
      this._send(response, 200, payload?.raw ?? { type: "res", id: "1", ok: true, payload: { ...payload, instance: this.instance } });
    } catch (error) {
      const details = { code: error.code, reason: error.reason, instance: this.instance };
      this._send(response, 503, {
        type: "res", id: "1", ok: false, error: { code: "UNAVAILABLE", message: error.message, details },
      });
    }
  }

  _send(response, status, body) {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(typeof body === "string" ? body : JSON.stringify(body));
  }
}

export const failure = (message, code) => Object.assign(new Error(message), { code });
