// What can be changed of links, topics and partitions: what is offered when, what is sent, and what a dialog says of it.
import { counted, whole } from "./format.js";

/** @typedef {"link" | "topic" | "partition" | "topics"} Kind */
/** @typedef {{kind: Kind, link: string, topic?: string, partition?: number, topics?: string[]}} Place `topics`: of several at once */
/** @typedef {"running" | "paused" | "stopped" | "some" | "open"} Standing `some`: a part of it is paused; `open`: not known, so nothing is left out */
/** @typedef {{state: string, by: string, at_ms: number, why: string}} Wish */
/** @typedef {{state: string, target: string, wish: Wish | null, paused: (Wish & {place: string})[], paused_count: number}} Link */
/** @typedef {{name: string, label: string, hint: string, choices?: string[]}} Field what is asked for besides the reason */

/**
 * @typedef {object} Action
 * @property {string} verb as the path and the command line have it
 * @property {string} word on its button
 * @property {string} [heading] of its dialog, before the place; if there is none, its word
 * @property {string} slot actions of one slot stand in for each other: their button is the same, and keeps the focus
 * @property {Partial<Record<Kind, Standing[]>>} offered where, and in which standing
 * @property {string} becomes what the place is once it is done; empty: it is an order, not a state
 * @property {string} does
 * @property {string} [doesPart] the same for topics and partitions, where it is another thing
 * @property {string} back whether it can be taken back, and what can't
 * @property {Field[]} [fields]
 * @property {Record<string, string>} [body] what it always sends
 * @property {boolean} [byLink] whether its path is the link's, whatever it is for
 */

const GONE = "Only what the source’s retention deletes meanwhile can’t be copied any more.";

/** A further action is a further row: its button, dialog and request come of it. @type {Action[]} */
export const ACTIONS = [
  {
    verb: "pause",
    word: "Pause",
    slot: "pause",
    offered: { link: ["running", "open"], topic: ["running", "some", "open"], topics: ["running", "some", "open"], partition: ["running", "open"] },
    becomes: "paused",
    does: "Copies no more records. What was copied stays. Topics, groups and schemas are kept in step, and lag goes on being measured.",
    back: `Yes, at any time: “Resume” goes on where it was. ${GONE}`,
  },
  {
    verb: "resume",
    word: "Resume",
    slot: "pause",
    offered: { link: ["paused", "open"], topic: ["paused", "some", "open"], topics: ["paused", "some", "open"], partition: ["paused", "open"] },
    becomes: "running",
    does: "Goes on copying where it was.",
    back: "Yes, at any time: “Pause”. Records copied until then stay.",
  },
  {
    verb: "stop",
    word: "Stop",
    slot: "stop",
    offered: { link: ["running", "paused", "open"] },
    becomes: "stopped",
    does: "Does nothing at all any more at either cluster: no records, topics, groups or schemas. Its driver stays, and waits.",
    back: `Yes, at any time: “Start” goes on where it was. ${GONE}`,
  },
  {
    verb: "start",
    word: "Start",
    slot: "stop",
    offered: { link: ["stopped"] },
    becomes: "running",
    does: "Goes on with all that the link does, where it was.",
    back: "Yes, at any time: “Stop”, or “Pause”. What was done until then stays.",
  },
  {
    verb: "restart",
    word: "Restart",
    slot: "restart",
    offered: { link: ["running", "open"], topic: ["running", "some", "open"], topics: ["running", "some", "open"], partition: ["running", "open"] },
    becomes: "",
    does: "Begins anew with all lanes, once; what is stopped is tried again. Copying pauses for some seconds.",
    doesPart: "Tries again now what is stopped of it, once. What is copied is not disturbed.",
    back: "No, but it loses and changes nothing: each partition goes on where its target ends.",
  },
  {
    verb: "limit",
    word: "Limit",
    slot: "limit",
    offered: { link: ["running", "paused", "open"], topic: ["running", "paused", "some", "open"], topics: ["running", "paused", "some", "open"] },
    becomes: "",
    does: "Reads no more than so many bytes a second from the source, over all lanes. What is above it waits there, as lag.",
    back: "Yes, at any time: “Limit” with another figure, or with none.",
    fields: [{ name: "limit", label: "Bytes a second", hint: "such as 20MB/s; none: no limit" }],
  },
  {
    verb: "prefer",
    word: "Prefer",
    slot: "prefer",
    offered: { topic: ["running", "paused", "some", "open"], topics: ["running", "paused", "some", "open"] },
    becomes: "",
    does: "Topics of a higher priority keep their latency while others catch up.",
    back: "Yes, at any time: “Prefer” with another priority.",
    fields: [{ name: "priority", label: "Priority", hint: "normal, unless something else is wished", choices: ["high", "normal", "low"] }],
    byLink: true,
  },
];

/** What is offered of a place, each with a key that its button keeps. @param {Kind} kind @param {Standing} standing @param {Action[]} [actions] @returns {{action: Action, key: string}[]} */
export function offered(kind, standing, actions = ACTIONS) {
  const some = actions.filter((action) => action.offered[kind]?.includes(standing));
  const slots = some.map((action) => action.slot);
  return some.map((action, place) => ({ action, key: slots.indexOf(action.slot) === place ? action.slot : action.verb }));
}

/** How a link stands as a whole. @param {Link} link @returns {Standing} */
export function linkStanding({ state }) {
  return state === "running" || state === "paused" || state === "stopped" ? state : "open";
}

/** The pauses of a topic or one of its partitions that are told; those of a topic come first. @param {Link} link @param {string} topic @param {number} [partition] */
export function pausesOf(link, topic, partition) {
  const isOwn = (/** @type {string} */ place) => place.startsWith(topic + "-") && (partition === undefined ? /^\d+$/.test(place.slice(topic.length + 1)) : place === `${topic}-${partition}`);
  return [...link.paused.filter(({ place }) => place === topic), ...link.paused.filter(({ place }) => isOwn(place))];
}

/**
 * How a topic or partition stands on its own, whatever its link does.
 * @param {Link} link
 * @param {Record<string, number>} states its partitions by state
 * @param {Wish[]} pauses those that are told
 * @returns {Standing}
 */
export function ownStanding(link, states, pauses) {
  if (link.state === "running") {
    const { paused = 0 } = states;
    const all = Object.values(states).reduce((sum, count) => sum + count, 0);
    if (paused > 0) return paused === all ? "paused" : "some";
    return pauses.length > 0 && all !== 1 ? "some" : "running";
  }
  return pauses.length > 0 || link.paused_count > link.paused.length ? "open" : "running"; // its state is the link's; not all pauses are told
}

/** How several topics stand. @param {Link} link @param {{source: string, states: Record<string, number>}[]} topics @returns {Standing} */
export function topicsStanding(link, topics) {
  const all = new Set(topics.map((row) => ownStanding(link, row.states, pausesOf(link, row.source))));
  const [one] = all;
  return all.size === 1 ? one : "some";
}

/** @typedef {{data: {name: string, role: string, may_change: boolean} | null, problem: object | null}} CallerAnswer */

/** Why nothing can be changed now, whatever it is; empty: it can. @param {CallerAnswer} caller @param {boolean} isStale whether the service has not answered lately */
export function whyNotChange(caller, isStale) {
  if (isStale) return "The service does not answer.";
  if (caller.data && !caller.data.may_change) return `The token of ${caller.data.name} may only look (role ${caller.data.role}).`;
  if (!caller.data) return caller.problem ? "What you may change can’t be read." : "What you may change is not known yet.";
  return "";
}

/** The same of a link. @param {CallerAnswer} caller @param {Link | null} link @param {boolean} isStale */
export function whyNot(caller, link, isStale) {
  const reason = whyNotChange(caller, isStale);
  if (reason) return reason;
  if (!link) return "The link’s state is not known yet.";
  return link.state === "unreachable" ? `${link.target} does not answer: nothing can be written to it.` : "";
}

export const TOPICS_MAX = 5_000;

/** Where an action is asked for, below api/v1/. @param {Action} action @param {Place} place */
export function pathOf({ verb, byLink }, { kind, link, topic = "", partition = 0 }) {
  const parts = ["links", link];
  if (byLink) return [...parts, verb].map(encodeURIComponent).join("/");
  if (kind === "topic" || kind === "partition") parts.push("topics", topic);
  if (kind === "partition") parts.push("partitions", String(partition));
  return [...parts, verb].map(encodeURIComponent).join("/");
}

/** What is sent. Of several topics none must never mean the whole link. @param {Action} action @param {Place} place @param {string} why @param {Record<string, string>} [given] */
export function bodyOf({ byLink, body }, { kind, topic = "", topics = [topic] }, why, given = {}) {
  if (kind !== "topics" && !byLink) return { why: why.trim(), ...body, ...given };
  if (topics.length === 0 || topics[0] === "" || topics.length > TOPICS_MAX) throw new RangeError(`${topics.length} topics`);
  return { why: why.trim(), ...body, ...given, topics };
}

/** What an action does at a place. @param {Action} action @param {Place} place */
export const doesAt = ({ does, doesPart }, { kind }) => (kind === "link" ? does : (doesPart ?? does));

/** A place in words. @param {Place} place */
export function placeWords({ kind, link, topic, partition, topics = [] }) {
  if (kind === "link") return `the link ${link}`;
  if (kind === "topics") return topics.length === 1 ? topics[0] : counted(topics.length, "topic");
  return kind === "topic" ? `${topic}` : `${topic}-${partition}`;
}

/** @typedef {{places: string[], changed?: string[], partitions?: number, topics?: number, lanes?: number, stopped?: number, is_done: boolean, waits: string, still_paused?: string[], orders?: {stage: string, text: string}[], took_s: number}} Outcome an answer of the service; what an action does not tell is absent */

/** Whether it would change nothing. @param {Outcome} told */
export const isNothing = (told) => told.changed?.length === 0 || (told.stopped === 0 && told.lanes === 0 && told.places[0] !== WHOLE);

/** The link as a whole, as the service names it. */
const WHOLE = "the link";

/** For how much it counts, by the dry run. @param {Outcome} told @returns {string[]} */
export function foretold(told) {
  if (isNothing(told)) return [told.changed ? "It is wished so already: nothing would change." : "Nothing of it is stopped: nothing would be tried again."];
  const lines = [];
  const { changed, places, partitions, topics, lanes, stopped } = told;
  if (changed && changed.length < places.length) lines.push(`${whole(changed.length)} of ${counted(places.length, "topic")} ${changed.length === 1 ? "changes" : "change"}; of the others it is wished already.`);
  if (topics !== undefined) lines.push(topics > 0 ? `${counted(topics, "topic")}${partitions === undefined ? "" : ` with ${counted(partitions, "partition")}`}.` : "No topic of it was reported yet; it counts for those to come.");
  else if (partitions !== undefined) lines.push(partitions > 0 ? `${counted(partitions, "partition")}${places.length > 1 ? " in all" : ""}.` : "No partition of it was reported yet; it counts for those to come.");
  if (lanes) lines.push(`${counted(lanes, "lane")}.`);
  if (stopped !== undefined && stopped > 0) lines.push(`${counted(stopped, "stopped partition is", "stopped partitions are")} tried again.`);
  return lines;
}

const NAMES_MAX = 5;

/** @param {string[]} names */
export function listedNames(names) {
  const more = names.length - NAMES_MAX;
  return names.slice(0, NAMES_MAX).join(", ") + (more > 0 ? ` and ${whole(more)} more` : "");
}

/** What else is to be known before. @param {Action} action @param {Place} place @param {Link | null} link @param {Outcome} told @returns {string[]} */
export function remarks(action, place, link, told) {
  const lines = [];
  if (told.still_paused?.length) lines.push(`Paused by name, and so they stay: ${listedNames(told.still_paused)}.`);
  if (!link || !action.becomes) return lines;
  if (place.kind !== "link" && (link.state === "paused" || link.state === "stopped")) lines.push(`The link as a whole is ${link.state}: nothing is copied before it goes on, whatever is wished of its topics.`);
  if (link.state === "halted") lines.push("The link has halted: the wish is kept, and counts once it begins again.");
  if (link.state === "no_owner" || link.state === "unknown") lines.push("No driver runs the link now: the wish is kept, and carried out once one does.");
  if (link.state === "silent") lines.push("The link’s driver has not reported lately: it, or another one, carries the wish out.");
  return lines;
}

/** Whether what was wished is what is seen now; null: that can't be told from here. @param {Action} action @param {Place} place @param {Standing | null} standing */
export function isSeen(action, place, standing) {
  return !action.becomes || standing === null || place.kind === "topics" ? null : standing === action.becomes;
}

/** @typedef {{glyph: string, word: string, tone: import("./states.js").Tone}} Shown */

/** What became of it. @param {Action} action @param {Outcome} told @param {boolean | null} seen @returns {Shown} */
export function outcome(action, told, seen) {
  if (told.is_done) return { glyph: "●", word: action.becomes ? `Done: it is ${action.becomes} (${told.took_s.toFixed(1)} s).` : `Done (${told.took_s.toFixed(1)} s).`, tone: "ok" };
  const cut = told.orders?.find(({ stage }) => stage === "cut_short");
  if (cut) return { glyph: "▲", word: `Begun, and cut short: ${cut.text || "its driver ended meanwhile; it may have been done or not, and is not repeated"}.`, tone: "lag" };
  if (seen) return { glyph: "●", word: `Done: it is ${action.becomes}.`, tone: "ok" };
  return { glyph: "◐", word: `Written, and waits: ${told.waits || "its owner has not carried it out yet"}.`, tone: "wait" };
}
