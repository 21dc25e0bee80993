/** The plan by which the host saves memories before it compacts a session. The host writes, never the sidecar. */

const SOFT_TOKENS = 4_000;
const FORCE_BYTES = 2 * 1024 * 1024;
const RESERVE_TOKENS = 20_000;
const UNITS = Object.freeze({ "": 1, b: 1, k: 1024, kb: 1024, m: 1024 ** 2, mb: 1024 ** 2, g: 1024 ** 3, gb: 1024 ** 3 });

/**
 * The file that may be appended to, the thresholds and both prompts; null where flushes are switched off.
 *
 * @param {{cfg?: any, nowMs?: number, contextWindowTokens?: number}} [asked]
 */
export function flushPlan({ cfg, nowMs = Date.now(), contextWindowTokens } = {}) {
  const defaults = cfg?.agents?.defaults;
  const wishes = defaults?.compaction?.memoryFlush;
  if (wishes?.enabled === false) return null;
  const { date, time, zone } = local(nowMs, defaults?.userTimezone);
  const relativePath = `memory/${date}.md`;
  const rules = [
    `The only file that you may write is ${relativePath}.`,
    "If it exists, append to it and leave what it holds as it is.",
    "MEMORY.md, DREAMS.md, SOUL.md, AGENTS.md and the other bootstrap files are read-only now.",
  ];
  const model = typeof wishes?.model === "string" ? wishes.model.trim() : "";
  return {
    ...thresholds(wishes, contextWindowTokens),
    ...(model === "" ? {} : { model }),
    systemPrompt: [
      "This turn comes before the session is compacted: write down what should outlast it.",
      ...rules,
      "The user sees a reply to this turn; NO_REPLY is nearly always the right one.",
    ].join(" "),
    prompt: [
      "The session is about to be compacted. Save what is worth keeping for later conversations.",
      ...rules,
      "Use this name only: no variant of it with a time or a number.",
      "If there is nothing to save, reply with NO_REPLY.",
    ].join(" ") + `\nCurrent time: ${date} ${time} (${zone})`,
    relativePath,
  };
}

/** A small window keeps half of what the reserve leaves for the conversation itself. */
function thresholds(wishes, contextWindowTokens) {
  let softThresholdTokens = wholeNumber(wishes?.softThresholdTokens) ?? SOFT_TOKENS;
  let reserveTokensFloor = RESERVE_TOKENS;
  const window = wholeNumber(contextWindowTokens) ?? 0;
  if (window > 0) {
    reserveTokensFloor = Math.min(RESERVE_TOKENS, Math.floor(window / 4));
    softThresholdTokens = Math.min(softThresholdTokens, Math.floor((window - reserveTokensFloor) / 2));
  }
  const forceFlushTranscriptBytes = bytes(wishes?.forceFlushTranscriptBytes) ?? FORCE_BYTES;
  return { softThresholdTokens, forceFlushTranscriptBytes, reserveTokensFloor };
}

/** @param {unknown} value */
function wholeNumber(value) {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? Math.floor(value) : undefined;
}

/** A count of bytes, also written as `2mb`. @param {unknown} value */
function bytes(value) {
  if (typeof value !== "string") return wholeNumber(value);
  const found = /^\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*$/i.exec(value);
  const unit = found ? UNITS[/** @type {keyof typeof UNITS} */ (found[2].toLowerCase())] : undefined;
  return unit === undefined ? undefined : Math.floor(Number(found?.[1]) * unit);
}

/** Date, time and zone of a moment where the user is; where the host is, if that zone is unknown. */
function local(nowMs, timezone) {
  const format = (timeZone) =>
    new Intl.DateTimeFormat("en-GB", {
      timeZone, year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", hourCycle: "h23",
    });
  let formatter;
  try {
    formatter = format(typeof timezone === "string" && timezone.trim() !== "" ? timezone.trim() : undefined);
  } catch {
    formatter = format(undefined);
  }
  const part = Object.fromEntries(formatter.formatToParts(new Date(nowMs)).map(({ type, value }) => [type, value]));
  return {
    date: `${part.year}-${part.month}-${part.day}`,
    time: `${part.hour}:${part.minute}`,
    zone: formatter.resolvedOptions().timeZone,
  };
}
