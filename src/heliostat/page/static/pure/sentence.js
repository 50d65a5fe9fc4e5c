// What is the matter, in a sentence.
import { STOPPED } from "./states.js";
import { exposureSentences } from "./exposure.js";
import { clock, counted, span, whole } from "./format.js";

/**
 * @typedef {object} Link
 * @property {string} name
 * @property {string} source
 * @property {string} target
 * @property {string} state
 * @property {boolean} in_sync
 * @property {number | null} lag_records
 * @property {number | null} lag_s
 * @property {number} unknown
 * @property {number | unknown[]} problems
 * @property {number} stopped those of them that wait for a decision
 * @property {number | object} refused
 * @property {import("./exposure.js").Loss} [would_be_lost] if the source were gone now
 * @property {number} [without_mirror]
 * @property {import("./exposure.js").Unfenced | null} [unfenced]
 * @property {import("./exposure.js").Rereads | null} [rereads]
 * @property {{reason: string, text: string, count: number}} restarts of a link that has halted once
 */
/** @typedef {{text: string, tone: "ok" | "lag" | "bad" | "unknown" | "quiet", more: string[]}} Said */
/** @typedef {{lag: number, lagS: number | null, unknown: number, stopped: number}} Moving what is missing in partitions that are not stopped */

/** @param {number | unknown[] | object} value */
const many = (value) => (typeof value === "number" ? value : Object.keys(value).length);

/**
 * What a link's target has.
 * @param {Link} link
 * @param {number} atMs when that was so
 * @param {Moving | null} moving
 * @returns {Said}
 */
export function linkSentence(link, atMs, moving) {
  const { source, target } = link;
  switch (link.state) {
    case "running":
      return runningSentence(link, atMs, moving);
    case "unreachable":
      return { text: `${target} does not answer: what it has is not known.`, tone: "bad", more: [] };
    case "silent":
      return {
        text: "Its driver has not reported for more than 5 s: it hangs, or its machine is gone.",
        tone: "lag",
        more: exposureSentences(link, atMs),
      };
    case "halted":
      return {
        text: `It has halted: ${link.restarts.reason}`,
        tone: "bad",
        more: [...exposureSentences(link, atMs), `${link.restarts.text[0].toUpperCase()}${link.restarts.text.slice(1)}.`],
      };
    case "no_owner":
      return {
        text: `No driver runs it: nothing is copied from ${source} to ${target}.`,
        tone: "bad",
        more: [...exposureSentences(link, atMs), "heliostat run starts it."],
      };
    case "paused":
    case "stopped":
      return {
        text: `Nothing is copied from ${source} to ${target}: the link is ${link.state}.`,
        tone: "quiet",
        more: [...exposureSentences(link, atMs), link.state === "paused" ? "“Resume” lets it go on." : "“Start” lets it go on."],
      };
    default:
      return {
        text: "It does not run, or has not for an hour.",
        tone: "unknown",
        more: ["heliostat run starts it; heliostat plan shows what it would do."],
      };
  }
}

/** @param {Link} link @param {number} atMs @param {Moving | null} moving @returns {Said} */
function runningSentence(link, atMs, moving) {
  const { source, target } = link;
  const stopped = moving ? moving.stopped : link.stopped;
  const lacks = moving ?? { lag: link.lag_records, lagS: link.lag_s, unknown: link.unknown };
  const but = stopped > 0 ? `, but for ${counted(stopped, "partition that is", "partitions that are")} stopped` : "";
  const known = lacks.unknown > 0 ? "As far as is known, " : "";
  const tone = stopped > 0 ? "bad" : link.in_sync ? "ok" : "lag";
  if (lacks.lag === null || (lacks.lag > 0 && lacks.lagS === null)) {
    return { text: `It is not known how far ${target} is behind ${source}.`, tone: "unknown", more: exposureSentences(link, atMs) };
  }
  const unknown =
    lacks.unknown > 0 ? [`Of ${counted(lacks.unknown, "partition")} it is not known how much is missing.`] : [];
  if (link.restarts && link.restarts.count) {
    unknown.push(`It has begun again ${counted(link.restarts.count, "time")} lately, after ${link.restarts.reason}`);
  }
  if (lacks.lag === 0) {
    return { text: `${known}${target} has everything that ${source} has${but}.`, tone, more: [...unknown, ...exposureSentences(link, atMs)] };
  }
  const lagS = lacks.lagS ?? 0;
  const text = `${known}${target} has everything up to ${clock(atMs - lagS * 1000, atMs)}, ${span(lagS)} ago${but}.`;
  return { text, tone, more: [...unknown, ...exposureSentences(link, atMs)] };
}

/**
 * Whether all is well, over all links.
 * @param {Link[]} links
 * @returns {Said}
 */
export function mapSentence(links) {
  if (links.length === 0) return { text: "There are no links.", tone: "quiet", more: [] };
  const away = links.filter((link) => link.state !== "running");
  const stopped = links.reduce((sum, link) => sum + link.stopped, 0);
  const retried = links.reduce((sum, link) => sum + many(link.problems), 0) - stopped;
  const refused = links.reduce((sum, link) => sum + many(link.refused), 0);
  const late = links.filter((link) => link.state === "running" && !link.in_sync);
  /** @type {string[]} */
  const parts = [];
  if (stopped) parts.push(counted(stopped, "partition waits for your decision", "partitions wait for your decision"));
  if (refused) parts.push(counted(refused, "topic is refused", "topics are refused"));
  const words = /** @type {Record<string, string>} */ ({ unreachable: "not reachable", unknown: "not running", no_owner: "without an owner" });
  for (const link of away) parts.push(`${link.name} is ${words[link.state] ?? link.state}`);
  if (!stopped && retried) parts.push(counted(retried, "partition is retried", "partitions are retried"));
  if (!parts.length && late.length) parts.push(late.map((link) => link.name).join(", ") + (late.length === 1 ? " is not level yet" : " are not level yet"));
  if (parts.length) {
    const tone = stopped || refused || away.some((link) => link.state === "unreachable") ? "bad" : "lag";
    const well = links.length - away.length - late.length;
    const more = well > 0 && links.length > 1 ? [`${well === 1 ? "1 other link is" : whole(well) + " other links are"} in sync.`] : [];
    return { text: listed(parts) + ".", tone, more };
  }
  const oldest = Math.max(0, ...links.map((link) => (link.lag_records ? (link.lag_s ?? 0) : 0)));
  const all = links.length === 1 ? `${links[0].name} is in sync` : `All ${links.length} links are in sync`;
  return { text: oldest > 0 ? `${all}; the oldest missing record is ${span(oldest)} old.` : `${all}; nothing is missing.`, tone: "ok", more: [] };
}

/** @param {string[]} parts */
function listed(parts) {
  return parts.length < 2 ? parts.join("") : parts.slice(0, -1).join(", ") + " and " + parts[parts.length - 1];
}

/**
 * What is missing in the partitions of a field, without those that are stopped.
 * @param {{states: string[], rows: [number, number, number, number, number | null, number | null, number][]}} field
 * @returns {Moving}
 */
export function movingOf(field) {
  const stopped = field.states.map((state) => STOPPED.has(state));
  const sums = { lag: 0, lagS: /** @type {number | null} */ (0), unknown: 0, stopped: 0 };
  for (const [, , state, , lag, lagS] of field.rows) {
    if (stopped[state]) sums.stopped += 1;
    else if (lag === null) sums.unknown += 1;
    else if (lag > 0) {
      sums.lag += lag;
      sums.lagS = sums.lagS === null || lagS === null ? null : Math.max(sums.lagS, lagS);
    }
  }
  return sums;
}

/** Why what is wished is not carried out yet; empty: it is. @param {{wish: object | null, wish_waits: string}} link */
export const wishWaits = ({ wish, wish_waits: why }) => (why ? `${wish ? "It" : "What is wished"} waits: ${why}.` : "");

/** Samples of what is missing: (ms, records). @typedef {[number, number]} Sample */
const LEAST_SPAN_MS = 8_000;
const LEVEL_RECORDS = 20;

/**
 * Seconds until nothing is missing, if it goes on so; null: it is level, not known, or does not become less.
 * @param {Sample[]} samples of about a minute, the oldest first
 */
export function untilLevel(samples) {
  if (samples.length < 4) return null;
  const [beganMs] = samples[0];
  const [endedMs, left] = samples[samples.length - 1];
  if (left <= LEVEL_RECORDS || endedMs - beganMs < LEAST_SPAN_MS) return null;
  const mean = (/** @type {number} */ place) => samples.reduce((sum, each) => sum + each[place], 0) / samples.length;
  const [meanMs, meanLag] = [mean(0), mean(1)];
  let above = 0;
  let below = 0;
  for (const [ms, lag] of samples) {
    above += (ms - meanMs) * (lag - meanLag);
    below += (ms - meanMs) ** 2;
  }
  const perS = (above / below) * 1000;
  if (perS * ((endedMs - beganMs) / 1000) > -0.05 * meanLag) return null; // it only wavers
  return left / -perS;
}
