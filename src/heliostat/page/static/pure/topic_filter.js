// Topics filtered as one types, and sorted.
import { shown } from "./states.js";

/**
 * @typedef {object} Topic
 * @property {string} source
 * @property {string} target
 * @property {number} partitions
 * @property {number} records_per_s
 * @property {number} bytes_per_s
 * @property {number | null} lag_records
 * @property {number | null} lag_s
 * @property {Record<string, number>} states
 * @property {number} mapped
 * @property {number} unknown
 */
/** @typedef {(topic: Topic) => boolean} Test */

const COMPARED = /^(lag|rate|partitions)(>=|<=|>|<)(\d+(?:\.\d+)?)(s|min|h)?$/;
const SECONDS = { s: 1, min: 60, h: 3600 };

/**
 * Words that all have to be true: a part of a name, /regex/, state:S, lag>N, lag>10s, rate>N, partitions>N, is:mapped,
 * is:unknown; "-" before one turns it round.
 * @param {string} text
 * @returns {{test: Test, problem: string}}
 */
export function filterOf(text) {
  /** @type {Test[]} */
  const tests = [];
  let problem = "";
  for (const word of wordsOf(text)) {
    const turned = word.length > 1 && word.startsWith("-");
    const made = testOf(turned ? word.slice(1) : word);
    if (typeof made === "string") problem ||= made;
    else tests.push(turned ? (topic) => !made(topic) : made);
  }
  return { test: (topic) => tests.every((test) => test(topic)), problem };
}

/** @param {string} text */
function wordsOf(text) {
  return text.match(/-?\/(?:\\.|[^/\\])*\/(?=\s|$)|\S+/g) ?? [];
}

/** @param {string} word @returns {Test | string} */
function testOf(word) {
  if (word.length > 2 && word.startsWith("/") && word.endsWith("/")) {
    try {
      const pattern = new RegExp(word.slice(1, -1), "i");
      return (topic) => pattern.test(topic.source) || pattern.test(topic.target);
    } catch {
      return `${word} is no regular expression`;
    }
  }
  if (word.startsWith("state:")) {
    const wanted = word.slice(6).toLowerCase();
    return (topic) => Object.keys(topic.states).some((state) => state.startsWith(wanted));
  }
  if (word === "is:mapped") return (topic) => topic.mapped > 0;
  if (word === "is:unknown") return (topic) => topic.unknown > 0 || topic.lag_records === null;
  if (word.startsWith("is:")) return `${word}: there are is:mapped and is:unknown`;
  const compared = COMPARED.exec(word);
  if (compared) return comparison(compared);
  if (/^(lag|rate|partitions)[<>]/.test(word)) return `${word}: write a number, as in lag>100 or lag>10s`;
  const part = word.toLowerCase();
  return (topic) => topic.source.toLowerCase().includes(part) || topic.target.toLowerCase().includes(part);
}

/** @param {RegExpExecArray} match @returns {Test | string} */
function comparison([, name, sign, number, unit]) {
  if (unit && name !== "lag") return `${name} has no unit`;
  const limit = Number(number) * (unit ? SECONDS[/** @type {"s"} */ (unit)] : 1);
  const compare = { ">": gt, "<": lt, ">=": ge, "<=": le }[/** @type {">"} */ (sign)];
  return (topic) => {
    const value = name === "rate" ? topic.records_per_s : name === "partitions" ? topic.partitions : lagOf(topic, !!unit);
    return value === null ? sign.startsWith(">") : compare(value, limit); // what is not known may be large
  };
}
const gt = (/** @type {number} */ a, /** @type {number} */ b) => a > b;
const lt = (/** @type {number} */ a, /** @type {number} */ b) => a < b;
const ge = (/** @type {number} */ a, /** @type {number} */ b) => a >= b;
const le = (/** @type {number} */ a, /** @type {number} */ b) => a <= b;

/** @param {Topic} topic @param {boolean} inSeconds */
function lagOf(topic, inSeconds) {
  if (!inSeconds) return topic.lag_records;
  return topic.lag_records === 0 && topic.unknown === 0 ? 0 : topic.lag_s;
}

/** @type {Record<string, (topic: Topic) => number | string>} */
const KEYS = {
  name: (topic) => topic.source,
  partitions: (topic) => topic.partitions,
  rate: (topic) => topic.records_per_s,
  bytes: (topic) => topic.bytes_per_s,
  lag: (topic) => topic.lag_records ?? Infinity,
  age: (topic) => (topic.lag_records === 0 && !topic.unknown ? -1 : (topic.lag_s ?? Infinity)),
  state: (topic) => -worst(topic),
};
export const SORTS = Object.keys(KEYS);

/** @param {Topic} topic */
function worst(topic) {
  let least = 9;
  for (const state in topic.states) least = Math.min(least, shown(state).rank);
  return least;
}

/**
 * Rows in an order; "problems" is the one to begin with: what is stopped, what lags, then the busiest.
 * @param {Topic[]} rows
 * @param {string} sort name of a column, with "-" before it: the largest first
 */
export function sorted(rows, sort) {
  if (sort === "problems") return [...rows].sort(byProblems);
  const turned = sort.startsWith("-");
  const key = KEYS[turned ? sort.slice(1) : sort] ?? KEYS.name;
  const keyed = rows.map((row) => ({ row, key: key(row) }));
  const sign = turned ? -1 : 1;
  keyed.sort((a, b) => sign * compared(a.key, b.key) || compared(a.row.source, b.row.source));
  return keyed.map((each) => each.row);
}

/** @param {Topic} a @param {Topic} b */
function byProblems(a, b) {
  return (
    worst(a) - worst(b) ||
    (b.lag_records ?? Infinity) - (a.lag_records ?? Infinity) || // NaN: both are not known
    b.unknown - a.unknown ||
    b.records_per_s - a.records_per_s ||
    compared(a.source, b.source)
  );
}

/** @param {number | string} a @param {number | string} b */
function compared(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}
