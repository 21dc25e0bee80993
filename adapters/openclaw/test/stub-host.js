/**
 * A host as the newer gateways are: it loads the plugin, opens its provider runtime and binds what it opened.
 * It mints audiences that are told apart by identity, checks currency around every call and holds a provider to
 * what it declared.
 */

import plugin from "../index.js";

const refusal = (message, code) => Object.assign(new Error(message), { code });
const lacks = (what) => refusal(`memory provider does not support the ${what} capability`, "CAPABILITY_UNSUPPORTED");
const foreign = () => refusal("memory reference belongs to a different provider", "FOREIGN_REFERENCE");
const METHODS = ["search", "get", "health", "close"];

export class StubHost {
  /** @param {{config?: object, pluginId?: string, rows?: (agentId: string) => any, workspaces?: Record<string, string>}} [given] */
  constructor({ config = {}, pluginId = "memory-sidecar", rows, workspaces = {} } = {}) {
    this.pluginId = pluginId;
    this.tools = new Map();
    this.commands = [];
    this._audiences = new WeakMap();
    plugin.register({
      id: pluginId,
      pluginConfig: config,
      registrationMode: "full",
      runtime: {
        agent: {
          resolveAgentWorkspaceDir: (_cfg, agentId) => workspaces[agentId],
          session: rows ? { listSessionEntries: ({ agentId }) => rows(agentId) } : {},
        },
      },
      registerMemoryCapability: (capability) => {
        this.capability = capability;
      },
      registerTool: (create, { names }) => this.tools.set(names[0], create),
      registerCli: (register) => this.commands.push(register),
    });
  }

  /** Run a tool as an agent's turn would. */
  async tool(name, parameters, context = {}) {
    const tool = this.tools.get(name)({ agentId: "main", sessionKey: "agent:main:main", ...context });
    return (await tool.execute("call", parameters)).details;
  }

  /** An audience of this host, bound to the session that it was minted for. */
  mint(audience, sessionKey) {
    const minted = Object.freeze({ ...audience });
    this._audiences.set(minted, { sessionKey, isCurrent: true });
    return minted;
  }

  release(audience) {
    this._audiences.get(audience).isCurrent = false;
  }

  async open({ agentId = "main", context, purpose = "cli" }) {
    if (typeof context?.assertCurrent !== "function") {
      throw refusal("memory provider requires caller authority with assertCurrent");
    }
    const { authority } = context;
    if (authority.audience && !this._audiences.has(authority.audience)) {
      throw refusal("memory provider requires a host-minted memory audience");
    }
    const assertCurrent = () => {
      context.assertCurrent();
      const bound = authority.audience && this._audiences.get(authority.audience);
      if (bound && bound.sessionKey !== authority.sessionKey) {
        throw refusal("memory audience is bound to a different session");
      }
      if (bound && !bound.isCurrent) throw refusal("memory audience was released by its owner");
      context.signal?.throwIfAborted();
    };
    assertCurrent();
    const opened = await this.capability.providerRuntime.open({
      cfg: {},
      agentId,
      purpose,
      context: { authority, assertCurrent, signal: context.signal },
    });
    if (opened.provider === null) return opened;
    try {
      assertCurrent();
      checkShape(opened.provider);
    } catch (error) {
      await opened.provider.close();
      throw error;
    }
    return { provider: this._bind(opened.provider, assertCurrent), providerId: this.pluginId };
  }

  _bind(provider, assertCurrent) {
    const capabilities = structuredClone(provider.capabilities);
    let isClosed = false;
    const enter = () => {
      if (isClosed) throw refusal("memory provider handle is closed", "LEASE_CLOSED");
      assertCurrent();
    };
    const bind = (name, check) => async (request) => {
      enter();
      check?.(request, capabilities, this.pluginId);
      const result = await provider[name](request);
      for (const owned of [result, ...(result?.hits ?? [])]) checkOwner(owned, this.pluginId);
      enter();
      return result;
    };
    return {
      capabilities,
      search: bind("search", checkSearch),
      get: bind("get", ({ reference }, _, pluginId) => {
        if (reference.providerId !== pluginId) throw foreign();
      }),
      health: bind("health"),
      refresh: bind("refresh"),
      ...(provider.candidates ? { candidates: bind("candidates", checkCandidates) } : {}),
      close: async () => {
        if (isClosed) return;
        isClosed = true;
        await provider.close();
      },
    };
  }
}

function checkShape(provider) {
  const { sources, pagination, candidates, projectFilter } = provider.capabilities ?? {};
  const isValid =
    METHODS.every((name) => typeof provider[name] === "function") &&
    sources?.length > 0 &&
    typeof pagination === "boolean" &&
    typeof projectFilter === "boolean" &&
    Array.isArray(candidates) &&
    "candidates" in provider === candidates.length > 0;
  if (!isValid) {
    throw refusal("memory provider must implement search, get, health, close, and valid capabilities with matching candidates");
  }
}

function checkSearch({ sources = [], cursor, activeProjectKeys = [] }, capabilities) {
  for (const source of sources) if (!capabilities.sources.includes(source)) throw lacks(`${source} source`);
  if (cursor !== undefined && !capabilities.pagination) throw lacks("pagination");
  if (activeProjectKeys.length > 0 && !capabilities.projectFilter) throw lacks("project filter");
}

function checkCandidates({ kind, activeProjectKeys = [] }, capabilities) {
  if (!capabilities.candidates.includes(kind)) throw lacks(`${kind} candidates`);
  if (activeProjectKeys.length > 0 && !capabilities.projectFilter) throw lacks("project filter");
}

function checkOwner(owned, pluginId) {
  const references = [owned?.reference, ...(owned?.citations ?? []).map((citation) => citation.reference)];
  if (references.some((reference) => reference && reference.providerId !== pluginId)) throw foreign();
}
