// Limits and priorities that stand: what a row says, and how each is taken back.
import { bytes, span } from "./format.js";

/** @typedef {import("./actions.js").Action} Action */
/** @typedef {import("./actions.js").Place} Place */
/** @typedef {{by: string, at_ms: number, why: string}} Said */
/** @typedef {Said & {topic: string | null, bytes_per_second: number, used_bytes_per_second: number, throttled_s: number}} Limit */
/** @typedef {Said & {topics: string, priority: "high" | "normal" | "low"}} Preference */
/** @typedef {{name: string, state: string, limits: Limit[], preferences: Preference[]}} Link */
/** @typedef {{key: string, glyph: string, word: string, name: string, isPattern: boolean, use: string, said: Said, action: Action | null, place: Place}} Level `name`: a topic or pattern; empty: the link. `action` takes it back; null: it asks for nothing */

/** The service tells as many of each at most. */
const TOLD_MAX = 20;

/** @type {Action} */
const LIFT = {
  verb: "limit",
  word: "Lift",
  heading: "Lift the limit of",
  slot: "limit",
  offered: {},
  becomes: "",
  does: "Takes the limit back: no fetch is held back for it any more. Other limits stay.",
  back: "Yes, at any time: “Limit” with the figure that it had.",
  body: { limit: "none" },
};

/** @type {Action} */
const LEVEL = {
  verb: "prefer",
  word: "Make normal",
  heading: "Normal priority for",
  slot: "prefer",
  offered: {},
  becomes: "",
  does: "Gives them normal priority. It is the newest then, and counts before others that name the same topics.",
  back: "Yes, at any time: “Prefer” with the priority that it had; for a pattern: heliostat prefer.",
  body: { priority: "normal" },
  byLink: true,
};

/** States in which the link's driver tells what is used. */
const REPORTED = new Set(["running", "paused", "stopped"]);

/** Whether a name or pattern with `*` is about a topic. @param {string} pattern @param {string} topic */
export function covers(pattern, topic) {
  const parts = pattern.split("*").map((part) => part.replace(/[.\\+?^${}()|[\]]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`).test(topic);
}

/** @param {string} link @param {string} topic @returns {Place} */
const placeOf = (link, topic) => (topic ? { kind: "topic", link, topic } : { kind: "link", link });

/** @type {Record<string, string>} */
const GLYPHS = { high: "↑", normal: "=", low: "↓" };

/**
 * What stands, limits first; of a topic: its own limit, and priorities that are about it, the newest first.
 * @param {Link} link @param {string} [topic]
 * @returns {Level[]}
 */
export function levelsOf({ name: link, state, limits, preferences }, topic) {
  const own = limits.filter((each) => topic === undefined || each.topic === topic);
  const about = preferences.filter((each) => topic === undefined || covers(each.topics, topic));
  return [
    ...own.map((limit) => ({
      key: `limit/${limit.topic ?? ""}`,
      glyph: "≤",
      word: `${bytes(limit.bytes_per_second)}/s at most`,
      name: limit.topic ?? "",
      isPattern: false,
      use: REPORTED.has(state) ? useOf(limit) : "what it uses is not known now",
      said: limit,
      action: LIFT,
      place: placeOf(link, limit.topic ?? ""),
    })),
    ...about.reverse().map((preference) => ({
      key: `priority/${preference.topics}`,
      glyph: GLYPHS[preference.priority] ?? "?",
      word: `${preference.priority} priority`,
      name: preference.topics,
      isPattern: preference.topics.includes("*"),
      use: "",
      said: preference,
      action: preference.priority === "normal" ? null : LEVEL,
      place: placeOf(link, preference.topics),
    })),
  ];
}

/** How much of a limit is used now, and for how long it has held lanes back. @param {Limit} limit */
function useOf({ used_bytes_per_second, throttled_s }) {
  const used = `uses ${bytes(used_bytes_per_second)}/s`;
  return throttled_s > 0 ? `${used}, has held lanes back for ${span(throttled_s)} in all` : used;
}

/** What may be missing of the rows; empty: nothing. @param {Link} link */
export function untold({ limits, preferences }) {
  const kinds = [limits.length >= TOLD_MAX && "limits", preferences.length >= TOLD_MAX && "priorities"].filter(Boolean);
  return kinds.length ? `Of ${kinds.join(" and ")} ${TOLD_MAX} are told at most.` : "";
}
