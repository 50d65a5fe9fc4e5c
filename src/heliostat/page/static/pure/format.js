// Figures as text. What is not known is "?", what is at least so much has "≥": never 0.

export const UNKNOWN = "?";
const THIN = "\u202f";

/** @param {number} value */
export function whole(value) {
  return Math.round(value).toLocaleString("en-US");
}

/** A rate: a decimal only where it tells something. @param {number} value */
export function rate(value) {
  if (value <= 0) return "0";
  if (value < 0.05) return "<0.1";
  return value < 10 ? value.toFixed(1) : whole(value);
}

/** @param {number} value @returns {[string, string]} figure and unit */
export function bytesParts(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let place = 0;
  let left = value;
  while (left >= 999.5 && place < units.length - 1) {
    left /= 1000;
    place += 1;
  }
  const digits = place === 0 || left >= 100 ? 0 : 1;
  return [left === 0 ? "0" : left.toFixed(digits), units[place]];
}

/** @param {number} value */
export function bytes(value) {
  return bytesParts(value).join(THIN);
}

/** @param {number | null | undefined} records @param {number} unknown partitions that may lack more */
export function lag(records, unknown = 0) {
  if (records === null || records === undefined) return UNKNOWN;
  return (unknown > 0 ? "≥" + THIN : "") + whole(records);
}

/** @param {number} s */
export function span(s) {
  if (s < 9.95) return s.toFixed(1) + THIN + "s";
  if (s < 119.5) return Math.round(s) + THIN + "s";
  const minutes = Math.round(s / 60);
  if (minutes < 120) return minutes + THIN + "min";
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return hours + THIN + "h" + (minutes % 60 ? " " + (minutes % 60) + THIN + "min" : "");
  return Math.floor(hours / 24) + THIN + "d" + (hours % 24 ? " " + (hours % 24) + THIN + "h" : "");
}

/**
 * Age of the oldest missing record. With nothing missing there is none.
 * @param {number | null | undefined} s
 * @param {number | null | undefined} records
 * @param {number} unknown
 */
export function age(s, records, unknown = 0) {
  if (records === 0 && unknown === 0) return "–";
  if (s === null || s === undefined) return UNKNOWN;
  return (unknown > 0 ? "≥" + THIN : "") + span(s);
}

/** @param {number | null | undefined} ms @returns {[string, string]} figure and unit */
export function latencyParts(ms) {
  if (ms === null || ms === undefined) return ["–", ""];
  if (ms < 9.95) return [ms.toFixed(1).replace(/\.0$/, ""), "ms"];
  return ms < 9_995 ? [whole(ms), "ms"] : [(ms / 1000).toFixed(1), "s"];
}

const two = (/** @type {number} */ value) => String(value).padStart(2, "0");

/** Local time, with the day if it is another. @param {number} ms @param {number} nowMs */
export function clock(ms, nowMs = Date.now()) {
  const at = new Date(ms);
  const text = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  if (at.toDateString() === new Date(nowMs).toDateString()) return text;
  return `${at.toLocaleString("en-GB", { day: "numeric", month: "short" })} ${text.slice(0, 5)}`;
}

/** @param {number} ms */
export function utc(ms) {
  return new Date(ms).toISOString().replace("T", " ").slice(0, 19) + " UTC";
}

/** @param {number} count @param {string} one @param {string} [many] */
export function counted(count, one, many = one + "s") {
  return `${whole(count)} ${count === 1 ? one : many}`;
}
