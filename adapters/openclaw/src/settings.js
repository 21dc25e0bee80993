/** The plugin's settings, from the config that the gateway has checked against the manifest's schema. */

import { dirname, join } from "node:path";
import { homedir } from "node:os";

/**
 * @typedef {object} Settings
 * @property {string | undefined} socketPath
 * @property {URL} endpoint
 * @property {string | undefined} tokenEnv
 * @property {string | undefined} tokenFile
 * @property {{statusMs: number, requestMs: number, syncMs: number}} timeouts
 * @property {(agentId: string) => boolean} serves
 */

const DEFAULT_ENDPOINT = "http://127.0.0.1:8737";
const DEFAULT_TIMEOUTS = Object.freeze({ statusMs: 2_000, requestMs: 15_000, syncMs: 300_000 });

/**
 * With a socket and no token named, the token is the one that the sidecar made beside the socket.
 *
 * @param {Record<string, any> | undefined} config
 * @returns {Settings}
 */
export function settingsFrom(config = {}) {
  const socketPath = config.socketPath === undefined ? undefined : atHome(config.socketPath);
  let tokenFile = config.tokenFile === undefined ? undefined : atHome(config.tokenFile);
  if (tokenFile === undefined && config.tokenEnv === undefined && socketPath !== undefined) {
    tokenFile = join(dirname(socketPath), "host.token");
  }
  const agents = config.agents === undefined ? undefined : new Set(config.agents);
  return Object.freeze({
    socketPath,
    endpoint: new URL(config.endpoint ?? DEFAULT_ENDPOINT),
    tokenEnv: config.tokenEnv,
    tokenFile,
    timeouts: { ...DEFAULT_TIMEOUTS, ...config.timeouts },
    serves: (agentId) => agents === undefined || agents.has(agentId),
  });
}

/** @param {string} path */
function atHome(path) {
  return path === "~" || path.startsWith("~/") ? join(homedir(), path.slice(1)) : path;
}
