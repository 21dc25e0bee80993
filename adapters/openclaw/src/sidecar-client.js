/** Calls methods of a running sidecar, over its Unix socket or over TCP. Never starts or looks for another. */

import { open, stat } from "node:fs/promises";
import { Agent as HttpAgent, request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { basename, dirname } from "node:path";

const LARGEST_REPLY = 16 * 1024 * 1024;
const LARGEST_TOKEN = 4096;
const MOST_CONNECTIONS = 32;
const LONGEST_MESSAGE = 500;
/** The kernel's address of a socket holds 108 bytes with the final zero, 104 elsewhere. */
const LONGEST_SOCKET_PATH = process.platform === "linux" ? 107 : 103;
const SAFE_IN_A_HEADER = /^[\x21-\x7e]+$/;

/**
 * What a call failed with. `message` holds no address, path or secret. `code` is what the sidecar calls
 * `details.code` or else `code`; `SIDECAR_UNAVAILABLE` where it could not be asked.
 */
export class SidecarError extends Error {
  /** @param {string} message @param {{code: string, reason?: string}} details */
  constructor(message, { code, reason }) {
    super(message);
    this.name = "SidecarError";
    this.code = code;
    if (reason !== undefined) this.reason = reason;
  }
}

export const UNAVAILABLE = "SIDECAR_UNAVAILABLE";

/** @param {string} why */
export const unavailable = (why) => new SidecarError(`memory sidecar unavailable: ${why}`, { code: UNAVAILABLE });

export class SidecarClient {
  /** @param {import("./settings.js").Settings} settings */
  constructor(settings) {
    const secure = settings.socketPath === undefined && settings.endpoint.protocol === "https:";
    this.settings = settings;
    this._request = secure ? httpsRequest : httpRequest;
    this._agent = new (secure ? HttpsAgent : HttpAgent)({ keepAlive: true, maxSockets: MOST_CONNECTIONS });
    /** The run of the sidecar that answered last: a new one has forgotten sessions and audiences. */
    this.instance = /** @type {string | undefined} */ (undefined);
  }

  /**
   * The payload of a method, or its failure within `timeoutMs`, whatever the sidecar or the token's file does.
   *
   * @param {string} method
   * @param {object} params
   * @param {{timeoutMs?: number, signal?: AbortSignal}} [options]
   * @returns {Promise<any>}
   */
  async call(method, params, { timeoutMs = this.settings.timeouts.requestMs, signal } = {}) {
    signal?.throwIfAborted();
    const deadline = Date.now() + timeoutMs;
    const token = await this._token(deadline);
    signal?.throwIfAborted();
    const body = Buffer.from(JSON.stringify(params));
    const door = await before(deadline, doorTo(this.settings.socketPath));
    const send = () => this._send(`/rpc/${method}`, body, token, { socketPath: door.path, deadline, signal });
    try {
      const { status, text } = await send().catch((error) => {
        // The other side may close a kept connection in the moment in which it is used again.
        if (error.onKeptConnection) return send();
        throw error;
      });
      return this._payload(status, text, token);
    } finally {
      await door.close();
    }
  }

  /** Let go of idle connections. The client stays usable. */
  close() {
    this._agent.destroy();
  }

  /** @param {number} deadline */
  async _token(deadline) {
    const { tokenEnv, tokenFile } = this.settings;
    let token = tokenEnv === undefined ? undefined : process.env[tokenEnv];
    if (tokenEnv === undefined && tokenFile !== undefined) {
      token = await before(deadline, shortText(tokenFile).catch(() => undefined));
    }
    token = token?.trim();
    if (!token || token.length > LARGEST_TOKEN || !SAFE_IN_A_HEADER.test(token)) {
      throw unavailable("no usable token; set tokenEnv or tokenFile to a token of role host");
    }
    return token;
  }

  /**
   * @param {string} path
   * @param {Buffer} body
   * @param {string} token
   * @param {{socketPath: string | undefined, deadline: number, signal: AbortSignal | undefined}} options
   * @returns {Promise<{status: number, text: string}>}
   */
  _send(path, body, token, { socketPath, deadline, signal }) {
    const { endpoint } = this.settings;
    const headers = {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      "content-length": body.length,
    };
    const where =
      socketPath === undefined
        ? { hostname: bare(endpoint.hostname), port: endpoint.port, path: endpoint.pathname.replace(/\/$/, "") + path }
        : { socketPath, path, headers: { ...headers, host: "localhost" } };
    return new Promise((resolve, reject) => {
      const request = this._request({ method: "POST", headers, agent: this._agent, ...where });
      const finish = (settle, value) => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        settle(value);
      };
      const fail = (error) => {
        finish(reject, error);
        request.destroy();
      };
      const onAbort = () => fail(signal?.reason ?? new Error("aborted"));
      const timer = setTimeout(() => fail(late()), Math.max(1, deadline - Date.now()));
      signal?.addEventListener("abort", onAbort, { once: true });
      request.on("error", (error) => {
        const failure = unavailable("it does not answer");
        const dropped = ["ECONNRESET", "EPIPE"].includes(/** @type {any} */ (error).code);
        finish(reject, Object.assign(failure, request.reusedSocket && dropped ? { onKeptConnection: true } : {}));
      });
      request.on("response", (response) => {
        const chunks = [];
        let size = 0;
        response.on("data", (chunk) => {
          size += chunk.length;
          if (size > LARGEST_REPLY) fail(unavailable("its answer is too large"));
          else chunks.push(chunk);
        });
        response.on("error", () => fail(unavailable("its answer broke off")));
        response.on("end", () =>
          finish(resolve, { status: response.statusCode ?? 0, text: Buffer.concat(chunks).toString("utf8") }),
        );
      });
      request.end(body);
    });
  }

  /** @param {number} status @param {string} text @param {string} token */
  _payload(status, text, token) {
    let frame;
    try {
      frame = JSON.parse(text);
    } catch {
      throw unavailable("what answers is no memory sidecar");
    }
    if (status === 200 && frame?.ok === true && isObject(frame.payload)) {
      this._met(frame.payload.instance);
      return frame.payload;
    }
    const error = frame?.ok === false ? frame.error : frame;
    if (status < 400 || !isObject(error) || typeof error.code !== "string" || typeof error.message !== "string") {
      throw unavailable("what answers is no memory sidecar");
    }
    this._met(error.details?.instance);
    if (status === 401) throw unavailable("it does not accept the token");
    const { code, reason } = isObject(error.details) ? error.details : {};
    throw new SidecarError(oneLine(error.message, token), {
      code: oneLine(typeof code === "string" ? code : error.code, token),
      reason: typeof reason === "string" ? oneLine(reason, token) : undefined,
    });
  }

  /** @param {unknown} instance */
  _met(instance) {
    if (typeof instance === "string") this.instance = instance;
  }
}

const late = () => unavailable("no answer in time");

/**
 * The text of a small regular file: a pipe could be waited for without end, a device read without end.
 *
 * @param {string} path
 */
async function shortText(path) {
  if (!(await stat(path)).isFile()) return undefined;
  const file = await open(path, "r");
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(LARGEST_TOKEN + 1), 0, LARGEST_TOKEN + 1, 0);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await file.close();
  }
}

/**
 * The socket by a path that the kernel takes: a longer one is entered from its folder, as the sidecar does too.
 *
 * @param {string | undefined} socketPath
 * @returns {Promise<{path: string | undefined, close: () => Promise<void>}>}
 */
async function doorTo(socketPath) {
  if (socketPath === undefined || Buffer.byteLength(socketPath) <= LONGEST_SOCKET_PATH) {
    return { path: socketPath, close: async () => {} };
  }
  if (process.platform !== "linux") throw unavailable("the path of its socket is too long on this platform");
  const folder = await open(dirname(socketPath), "r").catch(() => {
    throw unavailable("it does not answer");
  });
  return { path: `/proc/self/fd/${folder.fd}/${basename(socketPath)}`, close: () => folder.close() };
}

/**
 * What the work gives, or the failure that it took too long, as a file on a share may.
 *
 * @template T
 * @param {number} deadline
 * @param {Promise<T>} work
 * @returns {Promise<T>}
 */
async function before(deadline, work) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const end = new Promise((_, reject) => {
    timer = setTimeout(() => reject(late()), Math.max(1, deadline - Date.now()));
  });
  try {
    return await Promise.race([work, /** @type {Promise<never>} */ (end)]);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * What the other side says, fit for a terminal and a log: bounded, without control characters and without the token.
 *
 * @param {string} message
 * @param {string} token
 */
const oneLine = (message, token) =>
  message
    .slice(0, LONGEST_MESSAGE + token.length)
    .replaceAll(token, "***")
    .replace(/\p{C}+/gu, " ")
    .slice(0, LONGEST_MESSAGE);

/** @param {string} hostname an IPv6 address stands in brackets in a URL and without them in a request */
const bare = (hostname) => hostname.replace(/^\[(.*)\]$/, "$1");

/** @param {any} value @returns {value is Record<string, any>} */
export const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
