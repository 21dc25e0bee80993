/**
 * The stub host for callers outside this process: a JSON object a line in, one out.
 *
 * `{id, op: "open", authority}`, `{id, op: "call", view, method, request}`.
 */

import { createInterface } from "node:readline";

import { StubHost } from "./stub-host.js";

const host = new StubHost(JSON.parse(process.argv[2]));
const views = [];

const operations = {
  async open({ authority }) {
    const { provider, error } = await host.open({ context: { authority, assertCurrent: () => {} } });
    if (provider === null) throw new Error(error);
    return { view: views.push(provider) - 1, capabilities: provider.capabilities };
  },
  async call({ view, method, request }) {
    const provider = views[view];
    if (provider[method]) return provider[method](request);
    throw Object.assign(new Error(`memory provider does not support the ${request?.kind} candidates capability`), {
      code: "CAPABILITY_UNSUPPORTED",
    });
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, op, ...given } = JSON.parse(line);
  operations[op](given).then(
    (result) => answer({ id, result: result ?? {} }),
    (error) => answer({ id, error: { code: "UNAVAILABLE", message: error.message, details: { code: error.code } } }),
  );
}

process.exit();

function answer(frame) {
  process.stdout.write(`${JSON.stringify(frame)}\n`);
}
