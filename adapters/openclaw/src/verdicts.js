/** The sidecar's verdicts on what the host already holds: who may see a hit, and where a path comes from. */

import { isObject } from "./sidecar-client.js";

const MOST_HITS = 1000;
const MOST_PATHS = 1000;
/** From the least to the most trusted. */
const TRUST = Object.freeze(["untrusted", "system", "agent", "owner"]);

export class Verdicts {
  /**
   * @param {object} parts
   * @param {import("./sidecar-client.js").SidecarClient} parts.client
   * @param {import("./session-rows.js").SessionRows} parts.rows
   */
  constructor({ client, rows }) {
    this._client = client;
    this._rows = rows;
  }

  /**
   * The hits that the requester may see, as `judged` has them: for a host that has no place for what failed.
   *
   * @param {Parameters<Verdicts["judged"]>[0]} asked
   */
  async admitted(asked) {
    return (await this.judged(asked)).hits;
  }

  /**
   * The hits that the requester may see. A note's hit passes; a transcript's only if the sidecar says so, and
   * never where it cannot be asked: why not is then `withheld`, so that it is no silent loss.
   *
   * @param {object} asked
   * @param {string} asked.agentId
   * @param {string} [asked.requesterSessionKey]
   * @param {boolean} asked.sandboxed
   * @param {boolean} [asked.trustedAgentScope]
   * @param {{corpus: string}} [asked.conversationRecall]
   * @param {any[]} asked.hits
   * @returns {Promise<{hits: any[], withheld?: unknown}>}
   */
  async judged({ hits, ...asked }) {
    const isJudged = (hit) => hit?.source !== "memory" || asked.conversationRecall?.corpus === "sessions";
    if (!hits.some(isJudged)) return { hits };
    try {
      const places = await this._rows.under(asked.agentId, () => this._places(hits, asked));
      return { hits: hits.filter((hit, place) => !isJudged(hit) || places.has(place)) };
    } catch (error) {
      // Fail closed: nothing that needs a verdict passes.
      return { hits: hits.filter((hit) => !isJudged(hit)), withheld: error };
    }
  }

  /**
   * The origin class of each path. Of a file that was read elsewhere both its names count, and one whose real
   * name is not known is not trusted.
   *
   * @param {object} asked
   * @param {string} asked.agentId
   * @param {string[]} asked.relativePaths
   * @param {{relativePath: string, canonicalRelativePath?: string}[]} [asked.readSources]
   */
  async origins({ agentId, relativePaths, readSources }) {
    const canonical = new Map((readSources ?? []).map((source) => [source.relativePath, source.canonicalRelativePath]));
    const namesOf = (path) => (readSources === undefined ? [path] : [path, canonical.get(path) ?? ""]);
    const names = new Set(relativePaths.flatMap(namesOf));
    names.delete("");
    const found = await this._classes(agentId, [...names]);
    return relativePaths.map((relativePath) => ({
      relativePath,
      originClass: leastTrusted(namesOf(relativePath).map((name) => found.get(name))),
    }));
  }

  /**
   * The places of the hits that the sidecar admits.
   *
   * @param {any[]} hits
   * @param {any} requester
   * @returns {Promise<Set<number>>}
   */
  async _places(hits, { agentId, requesterSessionKey, sandboxed, trustedAgentScope, conversationRecall }) {
    const places = new Set();
    for (let start = 0; start < hits.length; start += MOST_HITS) {
      const payload = await this._client.call("manager.authorize", {
        agentId,
        requesterSessionKey: requesterSessionKey || undefined,
        sandboxed: sandboxed !== false,
        trustedAgentScope: trustedAgentScope === true,
        conversationRecall,
        hits: hits.slice(start, start + MOST_HITS).map(({ path, source, startLine, endLine }, offset) => ({
          path,
          source,
          startLine,
          endLine,
          place: start + offset,
        })),
      });
      for (const { place } of payload.hits) places.add(place);
    }
    return places;
  }

  /** @returns {Promise<Map<string, string>>} */
  async _classes(agentId, paths) {
    const found = new Map();
    for (let start = 0; start < paths.length; start += MOST_PATHS) {
      const relativePaths = paths.slice(start, start + MOST_PATHS);
      const { classifications } = await this._client.call("manager.classify", { agentId, relativePaths });
      for (const item of Array.isArray(classifications) ? classifications : []) {
        if (isObject(item)) found.set(item.relativePath, item.originClass);
      }
    }
    return found;
  }
}

/** @param {(string | undefined)[]} origins */
function leastTrusted(origins) {
  return TRUST[Math.min(...origins.map((origin) => Math.max(0, TRUST.indexOf(origin ?? "untrusted"))))];
}
