/** The file-shaped manager that today's gateways ask, over the sidecar's `manager.*` methods. */

import { checkedHits, checkedRead } from "./answers.js";
import { isObject, SidecarError } from "./sidecar-client.js";

const DEFAULT_RESULTS = 6;
const MOST_RESULTS = 200;
const CLOSED = "Memory index manager is closed";
const READ_ONLY = "Memory status managers are read-only";

export class Manager {
  /**
   * @param {object} parts
   * @param {import("./sidecar-client.js").SidecarClient} parts.client
   * @param {string} parts.agentId
   * @param {"default" | "status" | "cli"} [parts.purpose]
   * @param {() => void} [parts.onClose]
   * @param {(hits: any[]) => Promise<{hits: any[], withheld?: unknown}>} [parts.judge] the verdict on hits that the
   *   host passes on unjudged
   */
  constructor({ client, agentId, purpose = "default", onClose = () => {}, judge = async (hits) => ({ hits }) }) {
    this._client = client;
    this.agentId = agentId;
    this._purpose = purpose;
    this._onClose = onClose;
    this._judge = judge;
    this._ended = new AbortController();
    /** @type {any} what the sidecar said of itself last */
    this._status = unknownStatus();
    this._probed = /** @type {{ok: boolean, error?: string} | null} */ (null);
    this._refreshing = /** @type {Promise<void> | undefined} */ (undefined);
  }

  /**
   * Raw hits, at most as many as asked for.
   *
   * @param {string} query
   * @param {Record<string, any>} [options]
   */
  async search(query, options = {}) {
    const maxResults = Math.min(MOST_RESULTS, Math.max(1, Math.floor(finite(options.maxResults) ?? DEFAULT_RESULTS)));
    if (typeof query !== "string" || query.trim() === "") return [];
    const given = {
      query,
      maxResults,
      minScore: finite(options.minScore),
      sources: nonEmpty(options.sources),
      lexicalOnly: options.lexicalOnly === true ? true : undefined,
      activeProjectKeys: options.activeProjectKeys,
      sessionKey: options.sessionKey || undefined,
    };
    const payload = await this._call("manager.search", given, { signal: options.signal });
    const { hits, withheld } = await this._judge(checkedHits(payload.hits, maxResults));
    this._enter();
    // The host asks for the status after a search, and passes on what is wrong with it.
    if (withheld === undefined) this._refreshInBackground();
    else this._status = { ...this._status, lastSyncError: withheldFor(withheld) };
    return hits;
  }

  /** @param {{relPath: string, from?: number, lines?: number}} asked */
  async readFile({ relPath, from, lines }) {
    return checkedRead(await this._call("manager.readFile", { relPath, from: finite(from), lines: finite(lines) }));
  }

  /** The last known status: the host asks for it synchronously, before and after a search. */
  status() {
    this._enter();
    return this._status;
  }

  /** Ask for the status now. Raises what `status` then also tells. */
  async refreshStatus() {
    try {
      const payload = await this._call("manager.status", {}, { timeoutMs: this._client.settings.timeouts.statusMs });
      if (!isObject(payload.status) || typeof payload.status.provider !== "string") {
        throw new SidecarError("memory sidecar gave no status", { code: "PROVIDER_FAILED" });
      }
      this._status = { backend: "builtin", ...payload.status };
    } catch (error) {
      if (!this._ended.signal.aborted) {
        this._status = { ...this._status, lastSyncError: messageOf(error) };
        this._probed = null;
      }
      throw error;
    }
  }

  /** @param {{reason?: string, force?: boolean}} [asked] */
  async sync(asked = {}) {
    this._enter();
    if (this._purpose === "status") throw new Error(READ_ONLY);
    const given = { reason: asked.reason || undefined, force: asked.force === true ? true : undefined };
    await this._call("manager.sync", given, { timeoutMs: this._client.settings.timeouts.syncMs });
    this._refreshInBackground();
  }

  /** @param {{limit?: number, activeProjectKeys?: string[]}} [asked] */
  async listTriggerCandidates(asked = {}) {
    return this._candidates("trigger", asked, 512);
  }

  /** @param {{limit?: number, activeProjectKeys: string[]}} asked */
  async listCuratedProjectCandidates(asked) {
    return this._candidates("project", asked, 48);
  }

  /** What the last probe, or else the last status, says about embeddings. Asks nothing. */
  getCachedEmbeddingAvailability() {
    if (this._probed !== null) return this._probed;
    const { vector, lastSyncError } = this._status;
    if (lastSyncError !== undefined) return { ok: false, error: lastSyncError };
    return vector?.enabled === true && vector.available === true ? { ok: true } : null;
  }

  /** Whether embeddings answer now; `{ok: false, error}` also where the sidecar cannot be asked. */
  async probeEmbeddingAvailability() {
    this._enter();
    try {
      const { embedding } = await this._probe();
      this._probed =
        embedding?.ok === true ? { ok: true } : { ok: false, error: String(embedding?.error ?? "embeddings unavailable") };
    } catch (error) {
      this._enter();
      this._probed = { ok: false, error: messageOf(error) };
    }
    return this._probed;
  }

  /** Whether vectors can be searched. */
  async probeVectorAvailability() {
    this._enter();
    return this._probe().then(
      ({ vector }) => vector?.enabled === true && vector.available === true,
      () => false,
    );
  }

  /** This manager answers no more, and its requests in flight are given up. Idempotent. */
  async close() {
    if (this._ended.signal.aborted) return;
    this._ended.abort(new Error(CLOSED));
    this._onClose();
    await this._refreshing;
  }

  _probe() {
    return this._call("manager.probe", {}, { timeoutMs: this._client.settings.timeouts.requestMs });
  }

  /** @param {string} kind @param {{limit?: number, activeProjectKeys?: string[]}} asked @param {number} standard */
  async _candidates(kind, { limit, activeProjectKeys }, standard) {
    const most = Math.min(512, Math.max(1, Math.floor(finite(limit) ?? standard)));
    const payload = await this._call("manager.candidates", { kind, limit: most, activeProjectKeys });
    return checkedHits(payload.hits, most);
  }

  /** @param {string} method @param {object} params @param {{signal?: AbortSignal, timeoutMs?: number}} [options] */
  async _call(method, params, { signal, timeoutMs } = {}) {
    this._enter();
    const ended = this._ended.signal;
    const payload = await this._client.call(
      method,
      { agentId: this.agentId, ...params },
      { timeoutMs, signal: signal ? AbortSignal.any([signal, ended]) : ended },
    );
    this._enter();
    return payload;
  }

  _refreshInBackground() {
    this._refreshing ??= this.refreshStatus()
      .catch(() => {}) // told by the status itself
      .finally(() => {
        this._refreshing = undefined;
      });
  }

  _enter() {
    if (this._ended.signal.aborted) throw new Error(CLOSED);
  }
}

const unknownStatus = () => ({
  backend: "builtin",
  provider: "memory-sidecar",
  lastSyncError: "memory sidecar has not been asked yet",
});

/** @param {unknown} error */
export const messageOf = (error) =>
  error instanceof SidecarError ? error.message : "memory sidecar unavailable: the request failed";

/** Why transcripts are missing from an answer. @param {unknown} error */
export const withheldFor = (error) => `Transcripts were withheld: ${messageOf(error)}`;

/** @param {unknown} value */
const finite = (value) => (typeof value === "number" && Number.isFinite(value) ? value : undefined);

/** @param {unknown} value */
const nonEmpty = (value) => (Array.isArray(value) && value.length > 0 ? value : undefined);
