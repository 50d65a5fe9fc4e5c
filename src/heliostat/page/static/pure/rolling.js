// A rolling switch in words: what is merged, what each of its moves would do, and who still writes at the source.
import { listedNames } from "./actions.js";
import { counted, whole } from "./format.js";
import { MOVES, shownStep, switchForetold, TOPICS } from "./moves.js";

/** @typedef {import("./moves.js").Move} Move */
/** @typedef {import("./moves.js").Line} Line */
/** @typedef {"mirror" | "merged" | "given_away"} Stage */
/** @typedef {{topic: string, stage: Stage, partitions: number | null}} Topic `partitions`: null if that is not known any more */
/** @typedef {{link: string, merges: boolean, topics: Topic[], backs: string[]}} Rolling */
/** @typedef {{topic: string, partition: number, last_ms: number, open_from: number | null}} Writing */
/** @typedef {{producer_id: number, transactional_id: string, last_ms: number, partitions: Writing[]}} Writer */

/** Topics that are so far. @param {Rolling} rolling @param {Stage} stage */
export const ofStage = ({ topics }, stage) => topics.filter((topic) => topic.stage === stage);

/** So many topics, with their partitions if those of all are known. @param {(Topic | undefined)[]} topics */
function much(topics) {
  const count = topics.reduce((/** @type {number | null} */ sum, topic) => (sum === null || topic === undefined || topic.partitions === null ? null : sum + topic.partitions), 0);
  return counted(topics.length, "topic") + (count === null ? "" : ` (${counted(count, "partition")})`);
}

/** How far it is. @param {Rolling} rolling */
export function rollingSentence(rolling) {
  const [mirrors, merged, given] = [ofStage(rolling, "mirror"), ofStage(rolling, "merged"), ofStage(rolling, "given_away")];
  if (rolling.topics.length === 0) return "The link merges topics, and has copied none yet.";
  const parts = [];
  if (mirrors.length) parts.push(`${much(mirrors)} still ${mirrors.length === 1 ? "is a mirror, of which" : "are mirrors, of which"} nothing is copied until ${mirrors.length === 1 ? "it is" : "they are"} merged in place.`);
  if (merged.length) parts.push(`${much(merged)} ${merged.length === 1 ? "is" : "are"} merged: both sites may be written.`);
  if (given.length) parts.push(`${much(given)} ${given.length === 1 ? "was" : "were"} left to the target.`);
  return parts.join(" ");
}

/** @param {Rolling} rolling @returns {import("./states.js").Tone} */
export const rollingTone = (rolling) => (ofStage(rolling, "mirror").length ? "lag" : "ok");

/** Who brings the target's records back. @param {Rolling} rolling @param {string} source */
export function backSentence({ backs, topics }, source) {
  if (backs.length) return `${backs.join(" and ")} ${backs.length === 1 ? "brings" : "bring"} the target’s records back to ${source}.`;
  return topics.some(({ stage }) => stage !== "given_away") ? `No link of this configuration brings records back to ${source}: add one that begins at the cuts.` : "";
}

/** @param {any} turned @returns {import("./moves.js").Foretold} */
function turnForetold({ topics, partitions, refused, is_possible }) {
  const whys = Object.entries(/** @type {Record<string, string>} */ (refused)).map(([, why]) => /** @type {Line} */ ({ text: `In the way: ${why}`, tone: "bad" }));
  const can = topics.length ? `${counted(topics.length, "mirror")} (${counted(partitions, "partition")}) ${is_possible ? "would become" : "could become"} ${topics.length === 1 ? "a merged topic" : "merged topics"}: ${listedNames(topics)}.` : is_possible ? "No mirror is left to be merged; the cuts are told again." : "No mirror can be merged in place.";
  const more = is_possible ? [] : [{ text: "While one can’t be merged, none is: name the others under “Topics”." }];
  return { lines: [{ text: can }, ...whys, ...more], mayGo: is_possible };
}

/** @param {any} turned @returns {Line} */
const turned = ({ topics, partitions }) => ({
  text: topics.length ? `Done: ${counted(topics.length, "mirror")} (${counted(partitions, "partition")}) ${topics.length === 1 ? "is a merged topic" : "are merged topics"}.` : "Done: no mirror was left to be merged.",
  detail: "The file of cuts for the link back stands below.",
  tone: "ok",
});

/** @param {any} crossed @returns {Line} */
function crossedLine({ has_crossed, topics, problems, took_s }) {
  const names = listedNames(Object.keys(topics));
  if (has_crossed) return { text: `All that ${names} had has crossed: who stopped before may go on at the target.`, detail: `It took ${whole(Math.ceil(took_s))} s.`, tone: "ok" };
  return { text: "Not all has crossed.", detail: problems.map((/** @type {any} */ { text, code, hint }) => `${text} (${code}). ${hint}`).join(" "), tone: "bad" };
}

/** What can be done with a rolling switch as it is now. @param {Rolling} rolling @returns {Record<"turn" | "wait" | "finish", Move>} */
export function rollingMoves(rolling) {
  const isLeft = ofStage(rolling, "mirror").length > 0;
  const byName = new Map(rolling.topics.map((topic) => [topic.topic, topic]));
  return {
    turn: {
      verb: "switch --rolling",
      path: "rolling/turn",
      word: isLeft ? "Merge in place" : "Tell the cuts",
      does: isLeft ? "Makes mirrors merged topics, without copying anew: both sites may be written from then on. The link gives way for some seconds, and goes on by itself." : "Nothing is left to be merged: it tells again where each mirror ended, as the file for the link back.",
      back: isLeft ? "No: there is no way back to a mirror, and offsets of the two sites differ from then on." : "It changes nothing.",
      fields: [TOPICS],
      isLong: true,
      foretold: turnForetold,
      became: turned,
    },
    wait: {
      verb: "switch --rolling --wait",
      path: "rolling/wait",
      word: "Wait",
      does: "Asks where these topics end at the source now, and waits until all of that is at the target: then a producer that has stopped may go on there, in order. What others write meanwhile is not waited for.",
      back: "It changes nothing. The service goes on waiting if this dialog is closed.",
      fields: [{ ...TOPICS, hint: "by their names at the source", isNeeded: true }, { name: "within_s", label: "For", hint: "seconds at most; empty: 300", kind: "seconds" }],
      isUntried: true,
      isFree: true,
      isLong: true,
      foretold: () => ({ lines: [{ text: "Their ends at the source are asked once, and waited for." }], mayGo: true }),
      became: crossedLine,
    },
    finish: {
      ...MOVES.switch,
      verb: "switch --rolling --finish",
      path: "rolling/finish",
      word: "Finish",
      does: "Ends the rolling switch, in steps that are kept at the target: the link back rests, producers are kept out of the source, the rest is copied, groups move, and both links leave the topics, the one that leads back first.",
      back: "Until topics are given away, yes: “Go back”. Afterwards no: “Reverse” can’t turn merged topics round.",
      foretold: (plan) => switchForetold(plan, (topics) => `${much(topics.map((name) => byName.get(name)))} would be left to the target`),
    },
  };
}

/** The same moves for the finish of a rolling switch as for a switch. @type {Record<"on" | "back", Move>} */
export const FINISH = {
  on: { ...MOVES.switchOn, verb: "switch --rolling --finish, again", path: "rolling/finish", back: "Until topics are given away, yes: “Go back”." },
  back: { ...MOVES.switchBack, verb: "switch --rolling --finish --back", path: "rolling/finish", does: "Takes back what the run has changed: producers may write at the source again, and then the link back goes on.", back: "Yes: finish again." },
};

/** Whether a course of the turn has cuts that hold: not those of a mirror that was only looked at. @param {any} course */
export const hasCuts = (course) => course.result !== null && (!course.is_tried || course.result.topics.length === 0);

/** How waiting is: done only if all has crossed. @param {any} course */
export const shownWait = ({ state, result }) => (result && !result.has_crossed ? { glyph: "✕", word: "not all has crossed", tone: /** @type {const} */ ("bad") } : result ? { glyph: "●", word: "all has crossed", tone: /** @type {const} */ ("ok") } : shownStep(state));

/** @param {Writer} writer */
export function writerWords({ producer_id, transactional_id }) {
  return transactional_id || `producer ${producer_id}`;
}

/** Which topics a producer has written, and where a transaction is open. @param {Writer} writer */
export function writerPlaces({ partitions }) {
  const topics = [...new Set(partitions.map(({ topic }) => topic))];
  const open = partitions.filter(({ open_from }) => open_from !== null);
  return { topics: listedNames(topics), open: open.length ? `A transaction is open in ${listedNames(open.map(({ topic, partition }) => `${topic}-${partition}`))}.` : "" };
}

/** @param {{writers: Writer[], refused: string[]}} answer */
export function writersSentence({ writers, refused }) {
  const rest = refused.length ? " Somebody may be missing." : "";
  if (writers.length === 0) return `No producer with an id is remembered at the source, besides links.${rest}`;
  return `${counted(writers.length, "producer")} with an id wrote at the source lately, besides links.${rest}`;
}
