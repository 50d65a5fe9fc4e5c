// Rights and quotas that follow the source: what would be done, what is kept ready, and what needs a person.
import { counted, whole } from "./format.js";

/** @typedef {{is_on: boolean, make: string[], set: Record<string, number>, keep_ready: string[], kept_ready: number, remove: string[], asks: string, is_over: boolean, is_confirmed: boolean, somebody_elses: string[], refused: Record<string, string>, notes: string[]}} Rights */
/** @typedef {{kind: string, text: string, why: string, tone: import("./states.js").Tone, glyph: string}} Row */

/** What it comes down to. @param {Rights} rights @param {string} target */
export function rightsSentence(rights, target) {
  const { make, set, keep_ready, kept_ready, remove, is_on, is_over } = rights;
  if (is_over) return `All mirrors were promoted: rights at ${target} are its own, and nothing is followed any more.`;
  const kept = kept_ready ? ` ${counted(kept_ready, "rule is", "rules are")} kept ready until mirrors are promoted.` : "";
  const open = make.length + Object.keys(set).length + keep_ready.length + remove.length;
  if (!is_on) return `Rights are not followed (access.sync_acls is off). If they were, ${open ? counted(open, "thing") : "nothing"} would be done at ${target} now.`;
  return (open ? `${counted(open, "thing")} to do at ${target}.` : `${target} has the source’s rights, as configured.`) + kept;
}

/** What waits for a person; empty: nothing. @param {Rights} rights */
export function asksSentence({ asks, is_confirmed, remove }) {
  if (!asks) return "";
  if (is_confirmed) return `Confirmed: the running link removes ${whole(remove.length)} with its next comparison.`;
  return `Nothing is removed: ${asks}. Look at what would go, and confirm just that.`;
}

/** All that would be done, and what is not, the worst first. @param {Rights} rights @returns {Row[]} */
export function rightsRows({ make, set, keep_ready, remove, somebody_elses, refused, notes }) {
  return [
    ...Object.entries(refused).map(([text, why]) => ({ kind: "refuse", text, why, tone: /** @type {const} */ ("bad"), glyph: "✕" })),
    ...remove.map((text) => ({ kind: "remove", text, why: "gone at the source", tone: /** @type {const} */ ("lag"), glyph: "−" })),
    ...make.map((text) => ({ kind: "make", text, why: "", tone: /** @type {const} */ ("ok"), glyph: "+" })),
    ...Object.entries(set).map(([text, value]) => ({ kind: "set", text, why: whole(value), tone: /** @type {const} */ ("ok"), glyph: "≔" })),
    ...keep_ready.map((text) => ({ kind: "keep ready", text, why: "for the promotion", tone: /** @type {const} */ ("quiet"), glyph: "◷" })),
    ...somebody_elses.map((text) => ({ kind: "somebody else’s", text, why: "there already, and never changed", tone: /** @type {const} */ ("quiet"), glyph: "·" })),
    ...notes.map((text) => ({ kind: "note", text, why: "", tone: /** @type {const} */ ("quiet"), glyph: "i" })),
  ];
}
