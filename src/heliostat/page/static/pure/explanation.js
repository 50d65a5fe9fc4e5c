// How an explanation is shown: what it comes down to as a glyph, a word and a tone.
import { CHOICES } from "./choices.js";

/** @typedef {{text: string, command: string}} Step */
/** @typedef {{choice: string, does: string, why_not: string, command: string}} Choice */
/** @typedef {{topic: string, partition: number, offset: number, from_ms: number | null, to_ms: number | null}} Landing */
/** @typedef {{link: string, asked: string, kind: string, answer: string, reasons: string[], code: string, since_ms: number | null, hint: string, next_steps: Step[], choices: Choice[], landing: Landing | null, as_of_ms: number, age_s: number | null}} Explanation */
/** @typedef {{glyph: string, word: string, tone: import("./states.js").Tone}} Shown */

/** @type {Record<string, Shown>} */
const KINDS = {
  copied: { glyph: "●", word: "at the target", tone: "ok" },
  late: { glyph: "◐", word: "late", tone: "lag" },
  waiting: { glyph: "↻", word: "goes on by itself", tone: "wait" },
  stopped: { glyph: "■", word: "stopped", tone: "bad" },
  paused: { glyph: "‖", word: "paused", tone: "wait" },
  not_mirrored: { glyph: "–", word: "not mirrored", tone: "quiet" },
  lost: { glyph: "▲", word: "lost", tone: "bad" },
  no_record: { glyph: "–", word: "no such record", tone: "quiet" },
  unknown: { glyph: "?", word: "not known", tone: "unknown" },
};

/** @param {string} kind @returns {Shown} */
export function shownKind(kind) {
  return KINDS[kind] ?? { glyph: "?", word: kind, tone: "unknown" };
}

/** What is asked, in the words of `heliostat explain`. @param {string} topic @param {number} [partition] @param {number} [offset] */
export function question(topic, partition, offset) {
  return topic + (partition === undefined ? "" : `-${partition}`) + (offset === undefined ? "" : `@${offset}`);
}

/** What a choice would do: in numbers if both clusters were read, else in general. @param {string} code @param {Choice} choice */
export function effectText(code, choice) {
  if (choice.why_not) return `not possible: ${choice.why_not}`;
  const general = (CHOICES[code] ?? []).find((each) => each.choice === choice.choice);
  return choice.does || general?.does || "what it would do could not be read";
}

/** A sentence with its end. Its beginning stays: it may be a topic's name. @param {string} text */
export function ended(text) {
  return /[.!?)]$/.test(text) ? text : text + ".";
}
