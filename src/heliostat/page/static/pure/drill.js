// A drill: what one would make, and how the last one of this service went.
import { counted, span, whole } from "./format.js";

/** @typedef {import("./moves.js").Line} Line */
/** @typedef {{what: string, wanted: number, is_bound: boolean, actual: number, is_met: boolean}} Check */
/** @typedef {{name: string, state: string, took_s: number, text: string, checks: Check[], pause_s: number | null}} Rehearsed */
/** @typedef {{cluster: string, right: string, left_out: string}} Right */
/** @typedef {{verdict: string, verdict_text: string, missing_rights: Right[], notes: string[], scaled: {steps: {name: string, took_s: number, least_s: number, most_s: number, how: string}[]}, left: string}} Report */
/** @typedef {{by: string, is_over: boolean, steps: Rehearsed[], report: Report | null, cleaned: string[], error: string}} Drill */

/** @type {Record<string, string>} */
const LEFT_OUT = { all: "nothing can be rehearsed", groups: "groups are left out", rules: "producers are stopped, not kept out", way_back: "the way back is left out", nothing: "all the same it is rehearsed" };

/** @param {Right} right */
export const rightSentence = ({ cluster, right, left_out }) => `Right missing at ${cluster}: ${right} (${LEFT_OUT[left_out] ?? left_out}).`;

/** @param {any} plan @returns {import("./moves.js").Foretold} */
export function drillForetold({ topics, groups, steps, missing_rights, notes, left_behind, is_possible }) {
  const partitions = Object.values(/** @type {Record<string, number>} */ (topics)).reduce((sum, count) => sum + count, 0);
  const tone = is_possible ? /** @type {const} */ ("lag") : /** @type {const} */ ("bad");
  return {
    lines: [
      { text: `${counted(Object.keys(topics).length, "topic")} (${counted(partitions, "partition")}) and ${counted(groups.length, "group")} would be made, and removed at the end.` },
      { text: `Steps: ${steps.join(", ")}.` },
      ...missing_rights.map((/** @type {Right} */ each) => ({ text: rightSentence(each), tone })),
      ...notes.map((/** @type {string} */ text) => ({ text: `Note: ${text}.` })),
      ...left_behind.map((/** @type {string} */ id) => ({ text: `Drill ${id} has crashed, and is cleaned first.`, tone: /** @type {const} */ ("lag") })),
    ],
    mayGo: is_possible || left_behind.length > 0,
  };
}

/** @type {Record<string, {glyph: string, word: string, tone: import("./states.js").Tone}>} */
const STEPS = {
  done: { glyph: "●", word: "done", tone: "ok" },
  failed: { glyph: "✕", word: "failed", tone: "bad" },
  left_out: { glyph: "–", word: "left out", tone: "lag" },
};

/** A step that is done is not well if a figure is wrong. @param {Rehearsed} step */
export function shownRehearsal({ state, checks }) {
  if (checks.some(({ is_met }) => !is_met)) return { glyph: "✕", word: "a figure is wrong", tone: /** @type {const} */ ("bad") };
  return STEPS[state] ?? { glyph: "?", word: state, tone: /** @type {const} */ ("unknown") };
}

/** @type {Record<string, {glyph: string, word: string, tone: import("./states.js").Tone}>} */
const VERDICTS = {
  ready: { glyph: "●", word: "ready", tone: "ok" },
  in_part: { glyph: "▲", word: "not all could be rehearsed", tone: "lag" },
  not_ready: { glyph: "✕", word: "not ready", tone: "bad" },
};

/** @param {Drill} drill */
export function shownDrill({ is_over, report, error, cleaned }) {
  if (!is_over) return { glyph: "◐", word: "under way", tone: /** @type {const} */ ("wait") };
  if (error) return { glyph: "✕", word: "refused", tone: /** @type {const} */ ("bad") };
  if (!report) return { glyph: "●", word: `cleaned: ${counted(cleaned.length, "drill")}`, tone: /** @type {const} */ ("ok") };
  return VERDICTS[report.verdict] ?? { glyph: "?", word: report.verdict, tone: /** @type {const} */ ("unknown") };
}

/** What a step came to, with what was counted. @param {Rehearsed} step */
export function rehearsalText({ text, checks, pause_s }) {
  const wrong = checks.filter(({ is_met }) => !is_met).map(({ what, actual, wanted, is_bound }) => `${what}: ${whole(actual)}, must be ${is_bound ? "at most " : ""}${whole(wanted)}`);
  const right = checks.length - wrong.length;
  const parts = [text, ...(right ? [`${counted(right, "figure")} as they must be`] : []), ...wrong, ...(pause_s === null ? [] : [`producers paused ${span(pause_s)}`])];
  return parts.filter(Boolean).join("; ");
}
