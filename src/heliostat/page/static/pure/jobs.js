// A comparison of both sides as a job: how far it is, and what it found.

/** @typedef {{phase: string, topics: number, topics_done: number, partitions: number, partitions_done: number, offsets: number, offsets_done: number, records: number, partitions_different: number, partitions_unread: number, verdict: string}} Progress */
/** @typedef {{id: string, state: string, options: Record<string, any>, verdict: string, progress: Progress | null, started_ms: number, ended_ms: number | null, by: string, host: string, is_here: boolean, text: string, result: Record<string, any> | null, problem: {code: string, detail: string, hint: string | null} | null}} Job */
/** @typedef {{glyph: string, word: string, tone: import("./states.js").Tone}} Shown */

/** @type {Record<string, Shown>} */
const VERDICTS = {
  equal: { glyph: "●", word: "equal", tone: "ok" },
  different: { glyph: "✕", word: "different", tone: "bad" },
  open: { glyph: "?", word: "not compared", tone: "unknown" },
};
/** @type {Record<string, Shown>} */
const STATES = {
  cancelling: { glyph: "◐", word: "is being cancelled", tone: "wait" },
  failed: { glyph: "▲", word: "failed", tone: "bad" },
  cancelled: { glyph: "–", word: "cancelled", tone: "quiet" },
  cut_short: { glyph: "▲", word: "cut short", tone: "bad" },
};

/** @param {Job} job @returns {Shown} */
export function shownJob(job) {
  if (job.state === "running") return { glyph: "◐", word: job.is_here ? job.progress?.phase ?? "starting" : `runs by the service at ${job.host}`, tone: "wait" };
  if (job.state === "done") return VERDICTS[job.verdict] ?? { glyph: "?", word: job.verdict, tone: "unknown" };
  return STATES[job.state] ?? { glyph: "?", word: job.state, tone: "unknown" };
}

/** What part of the offsets is compared. @param {Job} job */
export function doneShare({ progress }) {
  return progress && progress.offsets > 0 ? Math.min(1, progress.offsets_done / progress.offsets) : 0;
}

/** @param {Job} job */
export const isRunning = (job) => job.state === "running" || job.state === "cancelling";
