/** The neutral provider that newer gateways open: a lease of the sidecar for each handle. */

import { checkedCapabilities, checkedGet, checkedHealth, checkedPage, present } from "./answers.js";
import { messageOf } from "./manager.js";
import { referencesOf } from "./references.js";
import { SidecarError, UNAVAILABLE } from "./sidecar-client.js";

const CLOSED = "memory provider handle is closed";

/**
 * @typedef {object} CallerContext
 * @property {any} authority
 * @property {() => void} assertCurrent
 * @property {AbortSignal} [signal]
 */

/**
 * @param {object} parts
 * @param {import("./sidecar-client.js").SidecarClient} parts.client
 * @param {import("./settings.js").Settings} parts.settings
 * @param {import("./session-rows.js").SessionRows} parts.rows
 * @param {string} parts.pluginId what the host calls this provider
 */
export function providerRuntime({ client, settings, rows, pluginId }) {
  return {
    /**
     * A handle for one caller, or null and why the sidecar gives none.
     *
     * @param {{agentId: string, context: CallerContext, purpose?: "default" | "status" | "cli"}} asked
     */
    async open({ agentId, context, purpose = "default" }) {
      if (typeof context?.assertCurrent !== "function") {
        throw new Error("memory provider requires caller authority with assertCurrent");
      }
      if (!settings.serves(agentId)) {
        return { provider: null, error: "memory sidecar does not serve this agent" };
      }
      const handle = new Handle({ client, rows, pluginId, agentId, context, purpose });
      try {
        await handle.open();
      } catch (error) {
        if (error instanceof SidecarError && error.code === UNAVAILABLE) {
          return { provider: null, error: messageOf(error) };
        }
        throw error;
      }
      return { provider: handle.bound() };
    },
  };
}

class Handle {
  constructor({ client, rows, pluginId, agentId, context, purpose }) {
    this._client = client;
    this._rows = rows;
    this._pluginId = pluginId;
    this._agentId = agentId;
    this._context = context;
    this._purpose = purpose;
    this._ended = new AbortController();
    /** @type {any} lease, providerId, capabilities and audience, from `open` on */
    this._held = undefined;
    /** @type {any} how references are named on either side, from `open` on */
    this._references = undefined;
  }

  /** Take a lease. One that was acquired after the caller ended is given back. */
  async open() {
    this._assertCurrent();
    const isSession = this._context.authority?.kind === "session";
    const held = isSession
      ? await this._rows.under(this._agentId, () => this._acquire(), (given) => this._giveBack(given))
      : await this._acquire();
    try {
      this._assertCurrent();
      if (this._ended.signal.aborted) throw new Error(CLOSED);
    } catch (error) {
      await this._giveBack(held);
      throw error;
    }
    this._held = held;
    this._references = referencesOf({ providerId: held.providerId, pluginId: this._pluginId });
  }

  /** What the host binds: `candidates` is there exactly when some are declared. */
  bound() {
    const { capabilities } = this._held;
    return {
      capabilities,
      search: (request) => this._search(request),
      get: (request) => this._get(request),
      health: () => this._health(),
      refresh: async () => {
        await this._ask("provider.refresh", undefined, { timeoutMs: this._client.settings.timeouts.syncMs });
      },
      close: () => this._close(),
      ...(capabilities.candidates.length > 0 ? { candidates: (request) => this._candidates(request) } : {}),
    };
  }

  async _search({ query, maxResults, minScore, cursor, sources, lexicalOnly, activeProjectKeys }) {
    const request = present({ query, maxResults, minScore, cursor, sources, lexicalOnly, activeProjectKeys });
    return this._page(await this._ask("provider.search", request), maxResults);
  }

  async _candidates({ kind, limit, activeProjectKeys }) {
    return this._page(await this._ask("provider.candidates", present({ kind, limit, activeProjectKeys })), limit);
  }

  async _get({ reference, from, lines }) {
    const request = present({ reference: this._references.toSidecar(reference), from, lines });
    const found = checkedGet(await this._ask("provider.get", request), this._held.providerId);
    return this._references.resultToHost(found);
  }

  /** Where the sidecar cannot be asked, that is the answer; what it answers itself, an error too, is passed on. */
  async _health() {
    try {
      const { statusMs } = this._client.settings.timeouts;
      return checkedHealth(await this._ask("provider.health", undefined, { timeoutMs: statusMs }));
    } catch (error) {
      if (!(error instanceof SidecarError) || error.code !== UNAVAILABLE) throw error;
      return { status: "unavailable", message: messageOf(error) };
    }
  }

  async _close() {
    if (this._ended.signal.aborted) return;
    this._ended.abort(new Error(CLOSED));
    if (this._held !== undefined) await this._giveBack(this._held);
  }

  _page(payload, most) {
    const page = checkedPage(payload, this._held.providerId);
    const hits = most === undefined ? page.hits : page.hits.slice(0, most);
    return { ...page, hits: hits.map((hit) => this._references.resultToHost(hit)) };
  }

  /**
   * A call by the lease; with a new lease if the sidecar has forgotten this one.
   *
   * @param {string} method
   * @param {any} request
   * @param {{timeoutMs?: number}} [options]
   */
  async _ask(method, request, options) {
    this._enter();
    try {
      return await this._use(method, request, options);
    } catch (error) {
      if (!(error instanceof SidecarError) || error.code !== "LEASE_CLOSED") throw error;
    }
    await this._reopen();
    return this._use(method, request, options);
  }

  /** @param {string} method @param {any} request @param {{timeoutMs?: number}} [options] */
  async _use(method, request, { timeoutMs } = {}) {
    const params = request === undefined ? { lease: this._held.lease } : { lease: this._held.lease, request };
    const payload = await this._client.call(method, params, { timeoutMs, signal: this._signal() });
    this._enter();
    return payload;
  }

  /** The host has bound what was declared at first, so another provider is another instance. */
  async _reopen() {
    const before = this._held;
    this._enter();
    await this.open();
    const shape = ({ providerId, capabilities }) => JSON.stringify([providerId, capabilities]);
    if (shape(before) !== shape(this._held)) {
      await this._close();
      throw new Error("memory provider instance is no longer current");
    }
  }

  async _acquire() {
    const { authority } = this._context;
    const audience = authority?.kind === "session" && authority.audience ? await this._admit(authority) : undefined;
    try {
      this._assertCurrent();
      const opened = await this._client.call(
        "provider.open",
        { agentId: this._agentId, purpose: this._purpose, authority: onTheWire(authority, audience) },
        { signal: this._signal(), timeoutMs: this._timeToOpen() },
      );
      const { lease, providerId, adapter } = opened;
      return { lease, providerId, adapter, audience, capabilities: checkedCapabilities(opened.capabilities) };
    } catch (error) {
      if (audience !== undefined) await this._quietly("audience.release", { handle: audience });
      throw error;
    }
  }

  /** The host has minted and checks its own audience; the sidecar holds it for this lease. */
  async _admit({ audience, sessionKey }) {
    const isConversation = audience.kind === "conversation";
    const { audience: minted } = await this._client.call(
      "audience.admit",
      {
        kind: audience.kind,
        agentId: audience.agentId,
        sessionKey,
        ...(isConversation ? { rootSessionKey: audience.sessionKey, rootSessionId: audience.sessionId } : {}),
      },
      { signal: this._signal(), timeoutMs: this._timeToOpen() },
    );
    return minted.handle;
  }

  /** @param {{lease: string, audience?: string}} held */
  async _giveBack({ lease, audience }) {
    await this._quietly("provider.close", { lease });
    if (audience !== undefined) await this._quietly("audience.release", { handle: audience });
  }

  /** Whatever is not given back here ends by itself, at the latest when its lease expires. */
  async _quietly(method, params) {
    const { statusMs } = this._client.settings.timeouts;
    await this._client.call(method, params, { timeoutMs: statusMs }).catch(() => {});
  }

  /** Who only wants to know how the sidecar is does not wait longer for the lease than for the answer. */
  _timeToOpen() {
    const { statusMs, requestMs } = this._client.settings.timeouts;
    return this._purpose === "status" ? statusMs : requestMs;
  }

  _signal() {
    const { signal } = this._context;
    return signal ? AbortSignal.any([signal, this._ended.signal]) : this._ended.signal;
  }

  _enter() {
    if (this._ended.signal.aborted) throw new Error(CLOSED);
    this._assertCurrent();
  }

  _assertCurrent() {
    this._context.assertCurrent();
    this._context.signal?.throwIfAborted();
  }
}

/** The authority as the sidecar takes it; of the audience only the handle counts there. */
function onTheWire(authority, audience) {
  switch (authority?.kind) {
    case "operator":
      return present({ kind: "operator", scopes: [...authority.scopes], connId: authority.connId });
    case "session":
      return present({
        kind: "session",
        sessionKey: authority.sessionKey,
        sandboxed: authority.sandboxed !== false,
        sessionId: authority.sessionId,
        conversationRecall: authority.conversationRecall,
        audience: audience === undefined ? undefined : { handle: audience },
      });
    case "host":
      return { kind: "host", operation: authority.operation };
    default:
      throw new Error("memory provider requires a known caller authority");
  }
}
