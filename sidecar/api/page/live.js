/* Asks how the service is, one question at a time, and only while somebody can see the answer. */

const EVERY_MS = 2000;
const LONGEST_MS = 15000;
const ANSWER_SECONDS = 5;

export class Live {
  #ask; #onAnswer; #onFailure; #everyMs;
  #running = false;
  #timer = 0;
  #asking = null;
  #failures = 0;

  /* `ask` takes options of `Service.call`; `onFailure` is told the error and the pause in milliseconds. */
  constructor({ ask, onAnswer, onFailure, everyMs = EVERY_MS }) {
    this.#ask = ask; this.#onAnswer = onAnswer; this.#onFailure = onFailure; this.#everyMs = everyMs;
    document.addEventListener("visibilitychange", () => this.#seen());
  }

  start() { this.#running = true; this.#failures = 0; this.#seen(); }
  stop() { this.#running = false; this.#pause(); }
  now() { this.#pause(); this.#seen(); }

  #pause() {
    clearTimeout(this.#timer);
    this.#asking?.abort();
    this.#asking = null;
  }

  #seen() {
    if (document.visibilityState === "hidden") this.#pause();
    else if (this.#running && this.#asking === null) this.#once();
  }

  async #once() {
    clearTimeout(this.#timer);
    const asking = this.#asking = new AbortController();
    let pause = this.#everyMs;
    try {
      const answer = await this.#ask({ seconds: ANSWER_SECONDS, signal: asking.signal });
      if (asking !== this.#asking) return;
      this.#failures = 0;
      this.#onAnswer(answer);
    } catch (error) {
      if (asking !== this.#asking) return;
      this.#failures += 1;
      pause = Math.min(LONGEST_MS, this.#everyMs * 2 ** (this.#failures - 1));
      this.#onFailure(error, pause);
    }
    this.#asking = null;
    if (this.#running && document.visibilityState !== "hidden") this.#timer = setTimeout(() => this.#once(), pause);
  }
}
