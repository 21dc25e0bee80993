/** What the host does not check is checked here: shapes, counts and numbers of the sidecar's answers. */

import { isObject, SidecarError } from "./sidecar-client.js";

/** More than any excerpt or read is allowed to have (upstream's own bound of a read). */
const LONGEST_TEXT = 250_000;

/** @param {string} what */
const malformed = (what) => new SidecarError(`memory sidecar gave a malformed ${what}`, { code: "PROVIDER_FAILED" });

/**
 * File-shaped hits, at most `most` of them.
 *
 * @param {unknown} hits
 * @param {number} most
 */
export function checkedHits(hits, most) {
  if (!Array.isArray(hits) || !hits.every(isFileHit)) throw malformed("list of hits");
  return hits.slice(0, most);
}

/** @param {any} hit */
function isFileHit(hit) {
  return (
    isObject(hit) &&
    isText(hit.path) &&
    isText(hit.snippet) &&
    Number.isFinite(hit.score) &&
    isLine(hit.startLine) &&
    isLine(hit.endLine) &&
    hit.startLine <= hit.endLine &&
    (hit.source === "memory" || hit.source === "sessions")
  );
}

/** @param {any} payload */
export function checkedRead(payload) {
  const { status, text, path, from, lines, truncated, nextFrom } = payload;
  if (!isText(text) || !isText(path)) throw malformed("text");
  if (status === "not_found") return { status, text: "", path };
  if (status !== "ok" || !isCount(from) || !isCount(lines)) throw malformed("text");
  return present({ status, text, path, from, lines, truncated, nextFrom });
}

/**
 * A page of the provider contract, whose references all belong to one provider.
 *
 * @param {any} payload
 * @param {string} providerId
 */
export function checkedPage({ hits, nextCursor, coverage, warning }, providerId) {
  if (!Array.isArray(hits) || !hits.every((hit) => isHit(hit, providerId))) throw malformed("page");
  return present({ hits, nextCursor, coverage, warning });
}

/** @param {any} hit @param {string} providerId */
function isHit(hit, providerId) {
  return (
    isObject(hit) &&
    isReference(hit.reference, providerId) &&
    isText(hit.excerpt) &&
    (hit.citations === undefined || isListOfObjects(hit.citations)) &&
    (hit.score === undefined || Number.isFinite(hit.score))
  );
}

/**
 * A read of the provider contract.
 *
 * @param {any} payload
 * @param {string} providerId
 */
export function checkedGet(payload, providerId) {
  if (payload.status === "not_found") return { status: "not_found" };
  const { status, reference, text, citations, truncated, from, lines, nextFrom } = payload;
  const isValid =
    status === "ok" &&
    isText(text) &&
    isReference(reference, providerId) &&
    (citations === undefined || isListOfObjects(citations));
  if (!isValid) throw malformed("text");
  return present({ status, reference, text, citations, truncated, from, lines, nextFrom });
}

/** @param {any} payload */
export function checkedHealth({ status, message, details }) {
  if (!["ready", "degraded", "unavailable"].includes(status)) throw malformed("health");
  return present({ status, message, details });
}

/** @param {any} given */
export function checkedCapabilities(given) {
  const { sources, pagination, candidates, projectFilter } = isObject(given) ? given : {};
  const isValid =
    isListOf(sources, ["memory", "sessions"]) &&
    sources.length > 0 &&
    isListOf(candidates, ["trigger", "project"]) &&
    typeof pagination === "boolean" &&
    typeof projectFilter === "boolean";
  if (!isValid) throw malformed("set of capabilities");
  return Object.freeze({
    sources: Object.freeze([...sources]),
    pagination,
    candidates: Object.freeze([...candidates]),
    projectFilter,
  });
}

/** @param {any} value @param {string[]} known */
const isListOf = (value, known) => Array.isArray(value) && value.every((item) => known.includes(item));

/** @param {any} value @param {string} providerId */
const isReference = (value, providerId) =>
  isObject(value) && value.providerId === providerId && typeof value.id === "string" && value.id !== "";

/** @param {unknown} value */
const isText = (value) => typeof value === "string" && value.length <= LONGEST_TEXT;

/** @param {unknown} value */
const isListOfObjects = (value) => Array.isArray(value) && value.every(isObject);

/** @param {unknown} value */
const isCount = (value) => value === undefined || (Number.isInteger(value) && /** @type {number} */ (value) >= 0);

/** @param {unknown} value */
const isLine = (value) => Number.isInteger(value) && /** @type {number} */ (value) >= 1;

/** An object without the fields that are undefined. @param {Record<string, any>} value */
export const present = (value) =>
  Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined));
