/* Calls to the service that gave this page. The token is a private field: in no storage, cookie or address. */

const WORDS = {
  AUTH_TOKEN_MISMATCH: "The token does not match. `memory-sidecar token` prints the right one.",
  AUTH_TOKEN_MISSING: "The service asks for a token.",
};

/* What went wrong, in a sentence. `kind`: refused (the service said no), silent (no answer in time),
   away (nobody there), aborted (asked for by us). */
export class CallError extends Error {
  constructor(kind, message, { status = 0, code = "", detail = "", retryAfterMs = 0 } = {}) {
    super(message);
    Object.assign(this, { kind, status, code, detail, retryAfterMs });
  }
}

export class Service {
  #token = "";
  #onRefused = () => {};

  signIn(token) { this.#token = token; }
  signOut() { this.#token = ""; }
  get signedIn() { return this.#token !== ""; }

  /* `refused` is called when a token that was accepted no longer is. */
  whenTokenRefused(refused) { this.#onRefused = refused; }

  /* The payload of a method. Gives up after `seconds`; `signal` gives up earlier. */
  async call(method, params, { seconds = 20, signal } = {}) {
    const token = this.#token;
    const late = AbortSignal.timeout(seconds * 1000);
    let response, frame;
    try {
      response = await fetch(`/rpc/${method}`, {
        method: "POST",
        headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
        body: JSON.stringify(params),
        signal: signal ? AbortSignal.any([late, signal]) : late,
        cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer",
      });
      frame = await response.json();
    } catch (error) {
      if (signal?.aborted) throw new CallError("aborted", "Cancelled.");
      if (late.aborted) throw new CallError("silent", `The service did not answer within ${seconds} s.`);
      if (error instanceof SyntaxError) throw new CallError("away", "What answered is not the service.");
      throw new CallError("away", "The service cannot be reached.");
    }
    if (frame?.ok === true) return frame.payload;
    const told = frame?.error ?? frame ?? {};
    const detail = told.details?.code ?? "";
    if (response.status === 401 && token !== "" && token === this.#token) this.#onRefused();
    throw new CallError("refused", WORDS[detail] ?? String(told.message ?? `HTTP ${response.status}`), {
      status: response.status, code: String(told.code ?? ""), detail: String(detail), retryAfterMs: told.retryAfterMs ?? 0,
    });
  }
}
