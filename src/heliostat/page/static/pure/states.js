// States: never colour alone, but a glyph and a word, too.

/** @typedef {"ok" | "quiet" | "wait" | "lag" | "bad" | "unknown"} Tone */
/** @typedef {{glyph: string, word: string, tone: Tone, rank: number}} Shown */

/** @type {Record<string, Shown>} */
const STATES = {
  copying: { glyph: "●", word: "copying", tone: "ok", rank: 9 },
  starting: { glyph: "◐", word: "starting", tone: "wait", rank: 5 },
  aligning: { glyph: "◐", word: "aligning", tone: "wait", rank: 6 },
  retrying: { glyph: "↻", word: "retrying", tone: "wait", rank: 4 },
  blocked: { glyph: "■", word: "blocked", tone: "bad", rank: 0 },
  gap: { glyph: "▲", word: "gap", tone: "bad", rank: 1 },
  diverged: { glyph: "✕", word: "diverged", tone: "bad", rank: 2 },
  refused: { glyph: "✕", word: "refused", tone: "bad", rank: 2 },
  paused: { glyph: "‖", word: "paused", tone: "wait", rank: 7 },
  running: { glyph: "●", word: "running", tone: "ok", rank: 9 },
  stopped: { glyph: "‖", word: "stopped", tone: "quiet", rank: 3 },
  halted: { glyph: "✕", word: "halted", tone: "bad", rank: 0 },
  no_owner: { glyph: "✕", word: "no owner", tone: "bad", rank: 1 },
  silent: { glyph: "?", word: "silent", tone: "lag", rank: 2 },
  unreachable: { glyph: "✕", word: "not reachable", tone: "bad", rank: 0 },
  unknown: { glyph: "?", word: "not known", tone: "unknown", rank: 3 },
};
export const STOPPED = new Set(["blocked", "gap", "diverged"]);

/** A state as it is shown; one that a later version adds shows its own word. @param {string} name @returns {Shown} */
export function shown(name) {
  return STATES[name] ?? { glyph: "?", word: name, tone: "unknown", rank: 3 };
}

/** The states of a topic, the worst first. @param {Record<string, number>} states */
export function worstFirst(states) {
  return Object.entries(states).sort(([a], [b]) => shown(a).rank - shown(b).rank);
}

/** The tone of one partition's tile. @param {string} state @param {number | null} lag @param {number | null} lagS @param {number} rate @returns {Tone} */
export function tileTone(state, lag, lagS, rate) {
  const tone = shown(state).tone;
  if (tone !== "ok") return tone;
  if (lag === null) return "unknown";
  if (lag > 0 && (lagS === null || lagS > LAGS_AFTER_S)) return "lag";
  return rate > 0 ? "ok" : "quiet";
}

export const LAGS_AFTER_S = 10;
