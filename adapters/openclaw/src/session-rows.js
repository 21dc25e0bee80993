/** Tells the sidecar the gateway's session rows, which its verdicts on transcripts and audiences rest on. */

import { present } from "./answers.js";
import { isObject, SidecarError } from "./sidecar-client.js";

/** Below the sidecar's bound of 1 MiB a body. */
const LARGEST_BODY = 900 * 1024;

export class SessionRows {
  /**
   * @param {object} parts
   * @param {import("./sidecar-client.js").SidecarClient} parts.client
   * @param {(agentId: string) => any} parts.list the host's rows of an agent, undefined where it gives none
   */
  constructor({ client, list }) {
    this._client = client;
    this._list = list;
    /** @type {Map<string, {instance: string | undefined, told: string}>} */
    this._told = new Map();
  }

  /**
   * Do something that rests on the rows of an agent; once more if the sidecar turned out to be another run.
   *
   * @template T
   * @param {string} agentId
   * @param {() => Promise<T>} run
   * @param {(result: T) => Promise<void>} [undo] gives up a result that came of no rows
   * @returns {Promise<T>}
   */
  async under(agentId, run, undo) {
    await this.publish(agentId);
    const result = await run();
    const told = this._told.get(agentId);
    if (told === undefined || told.instance === this._client.instance) return result;
    await undo?.(result);
    await this.publish(agentId);
    return run();
  }

  /**
   * Send every row of an agent, if they are others than those sent last or the sidecar is another run.
   *
   * @param {string} agentId
   */
  async publish(agentId) {
    const listed = await this._listed(agentId);
    if (!Array.isArray(listed)) return;
    const rows = bounded(listed.filter(isListed).map(rowOf).filter((row) => ownerOf(row.sessionKey) === agentId));
    const told = JSON.stringify(rows);
    const before = this._told.get(agentId);
    if (before?.told === told && before.instance !== undefined && before.instance === this._client.instance) return;
    const { instance } = await this._client.call("session.replace", { agentId, rows });
    this._told.set(agentId, { instance, told });
  }

  /** The host's own failure may name its files, so it goes no further. @param {string} agentId */
  async _listed(agentId) {
    try {
      return await this._list(agentId);
    } catch {
      throw new SidecarError("the gateway's session rows cannot be read", { code: "SESSION_ROWS_UNREADABLE" });
    }
  }
}

/** @param {any} item */
const isListed = (item) =>
  isObject(item) && typeof item.sessionKey === "string" && typeof item.entry?.sessionId === "string";

/** @param {string} sessionKey */
const ownerOf = (sessionKey) => /^agent:([^:]+):./.exec(sessionKey)?.[1];

/**
 * A row as the sidecar takes it. A child's owner bit is its receipt's, not that of whoever speaks now.
 *
 * @param {any} item
 */
function rowOf({ sessionKey, entry }) {
  return present({
    sessionKey,
    sessionId: entry.sessionId,
    lifecycleRevision: text(entry.lifecycleRevision),
    chatType: text(entry.chatType),
    senderIsOwner: flag(entry.senderIsOwner),
    parentSessionKey: text(entry.spawnedBy) ?? text(entry.parentSessionKey),
    parentSessionId: text(entry.parentSessionId),
    parentLifecycleRevision: text(entry.parentLifecycleRevision),
    spawnedBySenderIsOwner: flag(entry.spawnedBySenderIsOwner),
    incognito: entry.incognito === true ? true : undefined,
    pending: entry.initializationPending === true ? true : undefined,
    updatedAt: Number.isFinite(entry.updatedAt) ? entry.updatedAt : 0,
  });
}

/** The newest rows that fit into one body; a transcript without a row is shown to nobody but operators. */
function bounded(rows) {
  rows.sort((left, right) => right.updatedAt - left.updatedAt);
  const kept = [];
  let size = 0;
  for (const { updatedAt: _, ...row } of rows) {
    size += Buffer.byteLength(JSON.stringify(row)) + 1;
    if (size > LARGEST_BODY) break;
    kept.push(row);
  }
  return kept.sort((left, right) => (left.sessionKey < right.sessionKey ? -1 : 1));
}

/** @param {unknown} value */
const text = (value) => (typeof value === "string" && value.trim() !== "" ? value : undefined);

/** @param {unknown} value */
const flag = (value) => (typeof value === "boolean" ? value : undefined);
