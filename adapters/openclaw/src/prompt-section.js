/** What an agent is told about its memory tools. */

/**
 * Lines for the system prompt; none where neither tool is at hand.
 *
 * @param {{availableTools: Set<string>, citationsMode?: string}} asked
 * @returns {string[]}
 */
export function promptSection({ availableTools, citationsMode }) {
  const canSearch = availableTools.has("memory_search");
  const canRead = availableTools.has("memory_get");
  if (!canSearch && !canRead) return [];
  const lines = ["## Memory"];
  if (canSearch) {
    lines.push(
      "Your notes hold what happened before this conversation. When an answer depends on earlier work, decisions, " +
        "dates, people, preferences or open tasks, call memory_search first and answer from what it finds.",
    );
  }
  if (canRead) {
    lines.push("memory_get reads the lines around a note that you have the path of; ask for few lines.");
  }
  lines.push(
    "Say so when the notes hold nothing, and pass on every warning or error that a memory tool returns: " +
      "an answer with a warning may be incomplete.",
    citationsMode === "off"
      ? "Do not name note paths or line numbers unless the user asks for them."
      : "Name the source as path#line where it helps the user to check.",
    "",
  );
  return lines;
}
