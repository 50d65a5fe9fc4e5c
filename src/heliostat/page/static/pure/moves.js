// What needs an admin and the link's name typed: what is asked for, what a dry run foretells, and what became of it.
import { listedNames } from "./actions.js";
import { drillForetold } from "./drill.js";
import { counted, span, whole } from "./format.js";

/** @typedef {{name: string, label: string, hint: string, kind?: "text" | "topics" | "seconds" | "number" | "choice" | "check", choices?: string[], isNeeded?: boolean, inQuery?: boolean}} Field */
/** @typedef {{text: string, detail?: string, tone?: import("./states.js").Tone}} Line */
/** @typedef {{lines: Line[], mayGo: boolean, accepts?: {code: string, text: string}[]}} Foretold `accepts`: what may be accepted, so that it goes on */
/** @typedef {Record<string, string>} Given what was filled in, by field; a check is "1" or "" */

/**
 * @typedef {object} Move
 * @property {string} verb as the command line has it, for a heading
 * @property {string} path below the link's own
 * @property {string} word on its button
 * @property {string} does
 * @property {string} back whether it can be taken back
 * @property {Field[]} fields
 * @property {Record<string, any>} [body] what it always sends
 * @property {(told: any) => Record<string, any>} [bodyOf] what it sends of the dry run's answer
 * @property {boolean} [isUntried] whether there is no dry run of it
 * @property {boolean} [isFree] whether it changes nothing: no admin and no typed name is needed
 * @property {boolean} [isLong] whether it is followed while it goes on
 * @property {(answer: any) => Foretold} foretold by the dry run's answer
 * @property {(answer: any) => Line} became once it is done
 */

/** @type {Field} */
export const TOPICS = { name: "topics", label: "Topics", hint: "by their names at the source; empty: all", kind: "topics" };
/** @type {Field} */
const WHY = { name: "why", label: "Why", hint: "kept, and shown to all" };
/** @type {Field} */
const RESUME = { name: "resume", label: "Take it over", hint: "even if another process seems to carry it out", kind: "check" };
const NAMES_MAX = 5;

/** @param {string[]} words @returns {Line[]} */
const linesOf = (words) => words.map((text) => ({ text }));

/** How a link would be kept out of mirrors that are failed over. @param {{by: string, within_s: number} | null | undefined} fence */
export function fenceSentence(fence) {
  if (!fence || fence.within_s === 0) return "How the link would be kept out of its mirrors is not known now.";
  const within = span(fence.within_s);
  if (fence.by === "owner") return `A failover would take effect within ${within}: the link’s driver answers, and gives its mirrors up.`;
  if (fence.by === "deny_rule") return `A failover would take effect within ${within}: the link’s driver is silent, so the target’s brokers deny it to write.`;
  return `A failover would take effect after ${within}: the link’s driver is silent, so what it may still write is waited out.`;
}

/** Why a verb for admins, or operators, can't be asked now; empty: it can. @param {{data: {name: string, role: string} | null, problem: object | null}} caller @param {boolean} isStale @param {"admin" | "operate"} [role] */
export function whyNotAdmin(caller, isStale, role = "admin") {
  if (isStale) return "The service does not answer.";
  if (!caller.data) return caller.problem ? "What you may change can’t be read." : "What you may change is not known yet.";
  return caller.data.role === "admin" || caller.data.role === role ? "" : `It needs a token of role ${role}; the one of ${caller.data.name} has ${caller.data.role}.`;
}

/** @type {Record<string, string>} */
const WEIGHTS = { stops: "In the way: ", asks: "To accept: ", told: "" };

/** @param {any} plan @param {(topics: string[]) => string} [what] @returns {Foretold} */
export function switchForetold(plan, what = (topics) => `${counted(topics.length, "topic")} would be switched`) {
  const problems = plan.problems.map((/** @type {any} */ each) => ({ text: WEIGHTS[each.weight] + each.text, detail: each.hint, tone: each.weight === "stops" ? "bad" : each.weight === "asks" ? "lag" : undefined }));
  const asked = plan.problems.filter((/** @type {any} */ each) => each.weight === "asks");
  const accepts = [...new Map(asked.map((/** @type {any} */ each) => [each.code, { code: each.code, text: each.text }])).values()];
  return {
    lines: [{ text: `${what(plan.topics)}: ${listedNames(plan.topics)}.` }, ...problems, { text: plan.is_possible ? "Nothing is in the way." : "It would end at its first step, and change nothing." }],
    mayGo: plan.is_possible,
    accepts,
  };
}

/** What is missing, of a report of a failover. @param {any} report */
export function missingSentence({ missing, partitions_not_known, partitions }) {
  if (partitions_not_known === partitions.length) return "What is missing at the target is not known.";
  const rest = partitions_not_known ? `; of ${counted(partitions_not_known, "partition")} nothing is known` : "";
  return `At least ${counted(missing, "record is", "records are")} missing at the target${rest}.`;
}

/** Transactions that were open at the source. @param {any} report */
function openText({ transactions, transactions_not_named: rest }) {
  const more = rest ? `, and others that are not named in ${counted(rest, "more partition")}` : "";
  return `${counted(transactions.length, "transaction was", "transactions were")} open at the source when it was last seen${more}; one over several partitions may have arrived in part.`;
}

/** @param {any} report @returns {Foretold} */
function failoverForetold(report) {
  /** @type {Line[]} */
  const lines = [
    { text: `${counted(report.topics.length, "mirror")} (${counted(report.partitions.length, "partition")}) would be given away.` },
    { text: missingSentence(report), tone: report.missing || report.partitions_not_known ? "lag" : undefined },
  ];
  const worst = report.topics.filter((/** @type {any} */ each) => each.missing > 0).sort((/** @type {any} */ a, /** @type {any} */ b) => b.missing - a.missing);
  for (const { source, missing } of worst.slice(0, NAMES_MAX)) lines.push({ text: `${source}: ${whole(missing)}` });
  if (worst.length > NAMES_MAX) lines.push({ text: `and ${counted(worst.length - NAMES_MAX, "more topic")}` });
  if (report.transactions.length || report.transactions_not_named) lines.push({ text: openText(report), tone: "lag" });
  lines.push(...openingLines(report), ...linesOf(movedGroups(report)), { text: fenceSentence(report.forecast) }, { text: "Nothing fences the source: stop its producers if it still runs." });
  return { lines, mayGo: report.partitions.length > 0 };
}

/** What opens the target to producers, or did. @param {any} report @returns {Line[]} */
export function openingLines({ opening, is_target_open, is_tried }) {
  const lines = opening.map((/** @type {any} */ { part, text, code, hint }) => ({ text: `${part === "rights" ? "Rights" : "Registry"}: ${code ? `not all is open (${code}): ` : ""}${text}`, detail: hint ?? "", tone: code ? "bad" : undefined }));
  if (is_tried || is_target_open) return lines;
  return [...lines, { text: "As far as is noted, the target is not wholly open to producers. Fail over again: it does what is left.", tone: "bad" }];
}

/** What groups read again after a failover. @param {any} report @returns {string[]} */
export function movedGroups({ groups, groups_sync }) {
  if (!groups_sync) return ["Offsets of groups are not published (groups.sync is off): each begins as it is configured."];
  if (groups.length === 0) return ["No group’s offsets were published for these mirrors."];
  const most = [...groups].sort((a, b) => b.at_most - a.at_most).slice(0, NAMES_MAX);
  const rows = most.map(({ group, again, at_most }) => `${group} reads ${again === null ? "" : `${whole(again)} records again as last measured, `}${whole(at_most)} at most`);
  return [`${counted(groups.length, "group resumes", "groups resume")} where offsets were published last: ${rows.join("; ")}${groups.length > NAMES_MAX ? "; …" : "."}`];
}

/** @param {any} moved @param {string} verb */
function movedLines(moved, verb) {
  const refused = Object.entries(/** @type {Record<string, number>} */ (moved.refused ?? {}));
  return [
    ...(verb === "append" || moved.appended ? [`${counted(moved.appended, "record")} ${moved.is_tried ? "would be" : "were"} appended.`] : []),
    ...(moved.exported ? [`${counted(moved.exported, "record")} ${moved.is_tried ? "would be" : "were"} exported.`] : []),
    ...refused.map(([why, count]) => `${counted(count, "record")} can’t be appended: ${why}`),
  ];
}

/** @type {Record<string, string>} */
const RETURNS = { ready: "can be copied back", done: "are copied back already", left: "are left as they are", refused: "can’t be copied back" };

/** @param {any} reversal @returns {Foretold} */
function reverseForetold({ topics, back, groups = [], open_subjects = [] }) {
  const of = (/** @type {string} */ state) => topics.filter((/** @type {any} */ each) => each.state === state);
  /** @type {Line[]} */
  const lines = [];
  for (const [state, words] of Object.entries(RETURNS)) {
    const rows = of(state);
    if (rows.length === 0) continue;
    const names = listedNames(rows.map((/** @type {any} */ each) => each.topic));
    const whys = [...new Set(rows.map((/** @type {any} */ each) => each.why))].slice(0, 3).join("; ");
    lines.push({ text: `${counted(rows.length, "topic")} ${rows.length === 1 ? words.replace(/^are /, "is ") : words}: ${names}`, detail: state === "ready" ? "" : whys, tone: state === "refused" ? "bad" : state === "left" ? "lag" : undefined });
  }
  const tail = topics.reduce((/** @type {number} */ sum, /** @type {any} */ each) => sum + each.tail, 0);
  if (tail) lines.push({ text: `Up to ${counted(tail, "record")} at the old source never crossed: rescue the tail first.`, tone: "lag" });
  const anew = topics.filter((/** @type {any} */ each) => each.is_recreated);
  if (anew.length) lines.push({ text: `${counted(anew.length, "topic")} ${anew.length === 1 ? "is" : "are"} deleted at the old source and made anew: ${listedNames(anew.map((/** @type {any} */ each) => each.topic))}`, tone: "lag" });
  const stay = groups.filter((/** @type {any} */ each) => each.has_members);
  const back_set = groups.length - stay.length;
  if (back_set) lines.push({ text: `${counted(back_set, "offset")} of groups at the old source ${back_set === 1 ? "is" : "are"} set back to the promotion.` });
  for (const each of stay.slice(0, NAMES_MAX)) lines.push({ text: `Group ${each.group} runs at the old source: its offset of ${each.topic}-${each.partition} stays.`, tone: "lag" });
  for (const text of open_subjects.slice(0, NAMES_MAX)) lines.push({ text, tone: "lag" });
  lines.push({ text: `Start link ${back} afterwards, unless it runs: it copies what came since.` });
  return { lines, mayGo: of("ready").length > 0 };
}

/** @param {any} answer @returns {Foretold} */
function applyForetold({ changes, refused, drift }) {
  const shown = changes.slice(0, 200).map((/** @type {any} */ each) => ({ text: each.what, detail: each.fate === "held_back" ? `not done: ${each.text || "it deletes"}` : each.why, tone: each.fate === "held_back" ? "lag" : undefined }));
  const held = changes.filter((/** @type {any} */ each) => each.fate === "held_back").length;
  const goes = changes.length - held;
  const more = changes.length > shown.length ? [{ text: `and ${counted(changes.length - shown.length, "more change")}` }] : [];
  return {
    lines: [
      { text: goes ? `${counted(goes, "change")} would be made, without copying a record.` : "There is nothing to change." },
      ...(held ? [{ text: `${counted(held, "change deletes, and is", "changes delete, and are")} left out unless you allow it.`, tone: /** @type {const} */ ("lag") }] : []),
      ...shown,
      ...more,
      ...Object.entries(/** @type {Record<string, string>} */ (refused)).slice(0, NAMES_MAX).map(([item, why]) => ({ text: `${item} is refused`, detail: why, tone: /** @type {const} */ ("bad") })),
      ...drift.slice(0, NAMES_MAX).map((/** @type {string} */ text) => ({ text, tone: "lag" })),
    ],
    mayGo: goes > 0,
  };
}

/** @param {any} answer @returns {Line} */
function applied({ changes, waits, is_done }) {
  if (is_done) return { text: `Done: ${counted(changes.length, "change")}.`, tone: "ok" };
  const by = (/** @type {string} */ fate) => changes.filter((/** @type {any} */ each) => each.fate === fate).length;
  const parts = [[by("done"), "done"], [by("failed"), "failed"], [by("held_back"), "held back"], [by("waits"), "waiting"]].filter(([count]) => count);
  const failed = changes.find((/** @type {any} */ each) => each.fate === "failed");
  return { text: parts.map(([count, word]) => `${count} ${word}`).join(", ") + ".", detail: waits || failed?.text || "", tone: by("failed") ? "bad" : "lag" };
}

/** @type {Record<"drill" | "switch" | "switchOn" | "switchBack" | "failover" | "append" | "export" | "drop" | "reverse" | "apply" | "confirmRights", Move>} */
export const MOVES = {
  drill: {
    verb: "drill",
    path: "drill",
    word: "Rehearse",
    does: "Makes topics and groups on both clusters, with a load and links of their own, switches them there and back, counts, and removes them all. It takes some minutes.",
    back: "Nothing is left of it. If the service ends meanwhile, the next drill removes what it had made.",
    fields: [
      { name: "partitions", label: "Partitions", hint: "of all made-up topics together; empty: 50", kind: "number" },
      { name: "records_a_second", label: "Records a second", hint: "that producers write; empty: 100", kind: "number" },
      { name: "failover", label: "A failover, too", hint: "the drill’s own driver is killed", kind: "check" },
      { name: "clean", label: "Only clean", hint: "remove what drills have left that crashed", kind: "check" },
    ],
    foretold: drillForetold,
    became: () => ({ text: "It is begun; its steps stand below.", tone: "wait" }),
  },
  switch: {
    verb: "switch",
    path: "switch",
    word: "Switch",
    does: "Moves producers and consumers to the target, in steps that are kept there: producers are kept out of the source, the last records are copied, groups move, and mirrors become ordinary topics.",
    back: "Until mirrors are given away, yes: “Go back”. Afterwards “Reverse” leads back, without a full copy.",
    fields: [TOPICS, { name: "verify", label: "Compare contents", hint: "before producers are kept out, and then what came since; empty: not", kind: "choice", choices: ["all"] }],
    foretold: (plan) => switchForetold(plan),
    became: () => ({ text: "It is begun; its steps stand below. It goes on if you leave this page.", tone: "wait" }),
  },
  switchOn: {
    verb: "switch, again",
    path: "switch",
    word: "Go on",
    does: "Goes on with the run where it was; what was seen of the clusters is looked at anew.",
    back: "Until mirrors are given away, yes: “Go back”.",
    fields: [RESUME],
    isUntried: true,
    foretold: () => ({ lines: [{ text: "What is left of the run is done." }], mayGo: true }),
    became: () => ({ text: "It goes on; its steps stand below.", tone: "wait" }),
  },
  switchBack: {
    verb: "switch --back",
    path: "switch",
    word: "Go back",
    does: "Takes back what the run has changed: producers may write at the source again. Copying never stopped.",
    back: "Yes: switch again.",
    fields: [RESUME],
    body: { back: true },
    isUntried: true,
    foretold: () => ({ lines: [{ text: "The run is taken back, as far as it came." }], mayGo: true }),
    became: () => ({ text: "It goes back; its steps stand below.", tone: "wait" }),
  },
  failover: {
    verb: "failover",
    path: "failover",
    word: "Fail over",
    does: "Gives mirrors away as they are, the source dead or half dead. Nothing of the link can write into them any more; others may.",
    back: "No. “Reverse” leads back once the source is there again.",
    fields: [TOPICS, { name: "drain_s", label: "First wait for what is still copied", hint: "seconds at most; empty: not at all", kind: "seconds", inQuery: true }, WHY],
    isLong: true,
    foretold: failoverForetold,
    became: (report) => ({ text: `Done: ${counted(report.topics.length, "mirror")} ${report.is_target_open ? "may be written" : "are given away"}. ${missingSentence(report)}`, detail: openingLines(report).filter(({ tone }) => tone).map(({ text }) => text).join(" "), tone: report.is_target_open ? "ok" : "bad" }),
  },
  append: {
    verb: "tail append",
    path: "tail/append",
    word: "Append",
    does: "Appends what never crossed to the topics that were mirrors, each record once, with its origin in a header.",
    back: "No. What was appended stays.",
    fields: [TOPICS, { name: "refused_to_topic", label: "What can’t be appended goes to", hint: "a topic of the target that is no mirror; empty: nothing is appended if there is such a record" }],
    foretold: (moved) => ({ lines: linesOf(movedLines(moved, "append")), mayGo: moved.appended + moved.exported > 0 }),
    became: (moved) => ({ text: moved.is_done ? `Done: ${movedLines({ ...moved, is_tried: false }, "append").join(" ")}` : "It goes on …", tone: moved.is_done ? "ok" : "wait" }),
  },
  export: {
    verb: "tail export",
    path: "tail/export",
    word: "Export",
    does: "Writes what never crossed to a topic of the target, with its origin in headers. As files: heliostat tail export --to-parquet.",
    back: "It only adds records to that topic.",
    fields: [TOPICS, { name: "to_topic", label: "To topic", hint: "of the target, and no mirror", isNeeded: true }],
    foretold: (moved) => ({ lines: linesOf(movedLines(moved, "export")), mayGo: moved.exported > 0 }),
    became: (moved) => ({ text: moved.is_done ? `Done: ${movedLines({ ...moved, is_tried: false }, "export").join(" ")}` : "It goes on …", tone: moved.is_done ? "ok" : "wait" }),
  },
  drop: {
    verb: "tail drop",
    path: "tail/drop",
    word: "Drop",
    does: "Gives up what never crossed, with a row in the ledger. The old source keeps the records.",
    back: "No.",
    fields: [TOPICS, { ...WHY, isNeeded: true }],
    foretold: (moved) => ({ lines: [{ text: `${counted(moved.dropped, "record")} would be given up.`, tone: "lag" }], mayGo: moved.dropped > 0 }),
    became: (moved) => ({ text: `Done: ${counted(moved.dropped, "record")} given up.`, tone: "ok" }),
  },
  reverse: {
    verb: "reverse",
    path: "reverse",
    word: "Reverse",
    does: "Lets a link in the other direction go on behind what both clusters have. Nothing of the old source is written or deleted by it.",
    back: "Switch that link, and reverse again.",
    fields: [
      { name: "back", label: "Link back", hint: "in the other direction, and not running", kind: "choice", choices: [], isNeeded: true },
      TOPICS,
      { name: "tail", label: "Topics with a tail", hint: "records that never crossed", kind: "choice", choices: ["refuse", "keep", "leave"] },
    ],
    isLong: true,
    foretold: reverseForetold,
    became: ({ topics, back }) => ({ text: `Done: ${counted(topics.filter((/** @type {any} */ each) => each.state === "ready").length, "topic")}. Start link ${back} now.`, tone: "ok" }),
  },
  apply: {
    verb: "apply",
    path: "apply",
    word: "Apply",
    does: "Does once at the target what the plan says, without copying a record.",
    back: "What is made stays; what is unset can be set again.",
    fields: [{ name: "allow_delete", label: "Also what deletes", hint: "unset settings, leave mirrors to other links", kind: "check", inQuery: true }, WHY],
    foretold: applyForetold,
    became: applied,
  },
  confirmRights: {
    verb: "access --allow-delete",
    path: "access/confirm",
    word: "Confirm",
    does: "Lets the running link remove just the rights that are shown here. If the source changes meanwhile, it asks again.",
    back: "No: rights that are removed are made again only if the source has them again.",
    fields: [],
    bodyOf: (told) => ({ removals: told.confirmation }),
    foretold: ({ remove, asks }) => ({ lines: [{ text: asks ? `${counted(remove.length, "right")} would be removed: ${asks}.` : "Nothing waits for a person any more." }, ...linesOf(remove.slice(0, 200)), ...(remove.length > 200 ? [{ text: `and ${whole(remove.length - 200)} more` }] : [])], mayGo: asks !== "" }),
    became: ({ remove }) => ({ text: `Confirmed: the running link removes ${whole(remove.length)} with its next comparison.`, tone: "ok" }),
  },
};

/** @param {Field} field @param {string} value */
const sent = ({ kind }, value) => (kind === "topics" ? value.split(/[\s,]+/).filter(Boolean) : kind === "check" ? true : kind === "number" || kind === "seconds" ? Number(value) : value);

/** What is sent. @param {Move} move @param {Given} given @param {string} typed the link's name, as typed @param {any} [told] the dry run's answer */
export function bodyOf(move, given, typed, told) {
  /** @type {Record<string, any>} */
  const body = { ...(typed ? { confirm: typed } : {}), ...move.body, ...(told ? move.bodyOf?.(told) : {}) };
  for (const field of move.fields) if (given[field.name] && !field.inQuery) body[field.name] = sent(field, given[field.name]);
  if (given.accept) body.accept = given.accept.split(" ");
  return body;
}

/** Its address below api/v1/. @param {Move} move @param {string} link @param {Given} given @param {boolean} isTried */
export function pathOf(move, link, given, isTried) {
  const query = new URLSearchParams();
  for (const { name, kind, inQuery } of move.fields) if (inQuery && given[name]) query.set(name, kind === "check" ? "true" : given[name]);
  if (isTried) query.set("dry_run", "true");
  if (move.isLong) query.set("wait_s", "0");
  const text = query.toString();
  return `links/${encodeURIComponent(link)}/${move.path}${text ? "?" + text : ""}`;
}

/** Why a dry run can't be asked yet; empty: it can. @param {Move} move @param {Given} given */
export function lacks(move, given) {
  const field = move.fields.find(({ name, isNeeded }) => isNeeded && !given[name]);
  if (field) return `It is told once “${field.label}” is filled.`;
  const wrong = move.fields.find(({ name, kind }) => kind === "seconds" && given[name] && !/^\d+(\.\d+)?$/.test(given[name]));
  if (wrong) return `“${wrong.label}” is a number of seconds.`;
  const odd = move.fields.find(({ name, kind }) => kind === "number" && given[name] && !/^\d+$/.test(given[name]));
  return odd ? `“${odd.label}” is a whole number.` : "";
}

/** @type {Record<string, {glyph: string, word: string, tone: import("./states.js").Tone}>} */
const STEPS = {
  pending: { glyph: "·", word: "to come", tone: "quiet" },
  running: { glyph: "◐", word: "under way", tone: "wait" },
  done: { glyph: "●", word: "done", tone: "ok" },
  failed: { glyph: "✕", word: "failed", tone: "bad" },
  went_back: { glyph: "↩", word: "taken back", tone: "quiet" },
};

/** @param {string} state */
export const shownStep = (state) => STEPS[state] ?? { glyph: "?", word: state, tone: /** @type {const} */ ("unknown") };

/** @type {Record<string, {glyph: string, word: string, tone: import("./states.js").Tone}>} */
const RUNS = {
  under_way: { glyph: "◐", word: "under way", tone: "wait" },
  going_back: { glyph: "◐", word: "goes back", tone: "wait" },
  done: { glyph: "●", word: "done", tone: "ok" },
  failed: { glyph: "✕", word: "failed, and has changed nothing", tone: "bad" },
  went_back: { glyph: "↩", word: "went back: producers and groups stay at the source", tone: "quiet" },
};

/** @typedef {{name: string, state: string, began_ms: number | null, ended_ms: number | null, text: string}} Step */
/** @typedef {{id: string, kind: string, topics: string[], by: string, began_ms: number, ended_ms: number | null, state: string, steps: Step[], text: string, is_carried_out: boolean, may_go_back: boolean}} Run */

/** @param {Run} run */
export const shownRun = ({ state }) => RUNS[state] ?? { glyph: "?", word: state, tone: /** @type {const} */ ("unknown") };

/** Whether something of it remains to be done. @param {Run | null} run */
export const isUnderWay = (run) => run?.state === "under_way" || run?.state === "going_back";

/** What to do with a run that is not over; empty: nothing. @param {Run} run */
export function runAdvice(run) {
  if (!isUnderWay(run)) return "";
  if (run.is_carried_out) return run.may_go_back ? "This service carries it out. If it is cut short, “Go on” or “Go back” is offered here." : "This service carries it out; topics are being given away, so there is no way back any more.";
  return run.may_go_back ? "This service does not carry it out. If no other process does, go on with it, or take it back." : "This service does not carry it out. If no other process does, go on with it: what is left is done; there is no way back any more.";
}

/** How long a step took, or takes. @param {Step} step @param {number} nowMs */
export function tookText({ began_ms, ended_ms }, nowMs) {
  return began_ms === null ? "" : span(Math.max(0, ((ended_ms ?? nowMs) - began_ms) / 1000));
}

/** @param {{records: number, partitions: number, why_not: Record<string, string>}} tail */
export function tailSentence({ records, partitions, why_not }) {
  const rest = Object.keys(why_not).length;
  const unknown = rest ? ` Of ${counted(rest, "topic")} it can’t be known.` : "";
  if (records === 0) return `Nothing of ${counted(partitions, "partition")} waits for a decision: all has crossed, or was dealt with.${unknown}`;
  return `${counted(records, "record")} of ${counted(partitions, "partition")} never crossed, and wait for your decision.${unknown}`;
}
