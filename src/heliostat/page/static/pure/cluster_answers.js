// What clusters have told, in words: groups, lost records, plans, schemas, and bytes of dead letters.
import { counted, whole } from "./format.js";

/** @typedef {import("./states.js").Tone} Tone */
/** @typedef {{glyph: string, word: string, tone: Tone}} Shown */
/** @typedef {{group: string, target_group: string, selected: boolean, why: string, in_sync: boolean, problem: string | null, partitions: number, open_partitions: number, reread_records: number, source_state: string | null, target_state: string | null}} Group */

/** How a group stands. @param {Group} group @returns {Shown} */
export function shownGroup(group) {
  if (!group.selected) return { glyph: "–", word: "not selected", tone: "quiet" };
  if (group.problem) return { glyph: "✕", word: "not synced", tone: "bad" };
  if (group.in_sync) return { glyph: "●", word: "in sync", tone: "ok" };
  return { glyph: "◐", word: group.open_partitions ? `${whole(group.open_partitions)} of ${whole(group.partitions)} open` : "not in sync", tone: "lag" };
}

/** Groups, those that are not in sync first, those that are not selected last. @param {Group[]} groups */
export function groupsInOrder(groups) {
  const rank = (/** @type {Group} */ group) => (!group.selected ? 3 : group.problem ? 0 : group.in_sync ? 2 : 1);
  return [...groups].sort((a, b) => rank(a) - rank(b) || (a.group < b.group ? -1 : 1));
}

/** How the groups of a link stand. @param {Group[]} groups @param {boolean} isSynced whether the link publishes offsets @param {string} target */
export function groupsSentence(groups, isSynced, target) {
  const selected = groups.filter((group) => group.selected);
  const open = selected.filter((group) => !group.in_sync);
  if (selected.length === 0) return "No group of the source is selected.";
  const all = counted(selected.length, "group");
  if (!isSynced) return `Offsets are not published at ${target}: groups.sync is off. This is what would be done for ${all}.`;
  if (open.length === 0) return `All of ${all} would resume at ${target} where ${selected.length === 1 ? "it stands" : "they stand"} at the source.`;
  return `${whole(open.length)} of ${all} ${open.length === 1 ? "is" : "are"} not in sync.`;
}

/** What a group would do if it went on at the target now. @param {Group} group @param {string} target */
export function resumeSentence(group, target) {
  if (!group.selected) return `It is not selected: ${group.why}.`;
  if (group.problem) return `Its offsets are not published: ${group.problem}.`;
  const again = group.reread_records;
  const where = group.in_sync ? "where it stands at the source" : "behind where it stands at the source";
  if (again > 0) return `If it went on at ${target} now, it would read ${counted(again, "record")} again.`;
  return group.in_sync ? `If it went on at ${target} now, it would resume ${where}.` : `${counted(group.open_partitions, "partition is", "partitions are")} not in sync; as far as is known no record would be read again.`;
}

/** What a reason of an offset asks for (docs/groups.md). @type {Record<string, string>} */
const GROUP_HELP = {
  ACTIVE_AT_TARGET: "Stop its consumers at the target, if they should not be there.",
  REWOUND_AT_TARGET: "To give it back to the link, delete the group's offset at the target.",
  MOVED_AT_TARGET: "To give it back to the link, delete the group's offset at the target.",
  METADATA_TOO_LARGE: "Set offset.metadata.max.bytes of the target's brokers as the source has it.",
  TARGET_SHORTER: "Check the mirror: did the target lose records?",
};

/** @param {string} reason */
export const groupHelp = (reason) => GROUP_HELP[reason] ?? "";
export const SETTLED = new Set(["SYNCED", "BELOW_START", "NOT_MIRRORED", "MOVED_AT_TARGET"]);

/** Offsets that are lost, both included. @param {{first: number, last: number | null}} gap */
export function gapOffsets({ first, last }) {
  if (last === null) return `${whole(first)} – ?`;
  return last < first ? `at ${whole(first)}` : last === first ? whole(first) : `${whole(first)} – ${whole(last)}`;
}

/** @param {{count: number | null}[]} gaps */
export function lostSentence(gaps) {
  const unknown = gaps.filter((gap) => gap.count === null).length;
  const sum = gaps.reduce((total, gap) => total + (gap.count ?? 0), 0);
  const least = unknown ? "at least " : "";
  return `${counted(gaps.length, "gap")}: ${least}${counted(sum, "record")} that the mirror will never have.`;
}

/** @type {Record<string, Shown>} */
const PLAN_KINDS = {
  create: { glyph: "+", word: "create", tone: "ok" },
  grow: { glyph: "↑", word: "grow", tone: "ok" },
  configure: { glyph: "≔", word: "configure", tone: "ok" },
  remember: { glyph: "·", word: "remember", tone: "quiet" },
  start: { glyph: "↦", word: "begin", tone: "quiet" },
  refuse: { glyph: "✕", word: "refuse", tone: "bad" },
  pipeline: { glyph: "✕", word: "pipeline", tone: "bad" },
  gone: { glyph: "▲", word: "gone", tone: "bad" },
  leave_out: { glyph: "–", word: "leave out", tone: "quiet" },
  follow: { glyph: "↓", word: "follow", tone: "quiet" },
  publish: { glyph: "→", word: "publish", tone: "quiet" },
  rights: { glyph: "⚿", word: "rights", tone: "quiet" },
  drift: { glyph: "≠", word: "drift", tone: "lag" },
  note: { glyph: "i", word: "note", tone: "quiet" },
};

/** @param {string} kind @returns {Shown} */
export const shownPlan = (kind) => PLAN_KINDS[kind] ?? { glyph: "?", word: kind, tone: "unknown" };

/** A line of a plan without the kind that stands before it anyway. @param {{kind: string, text: string}} line */
export function planText({ kind, text }) {
  const { word } = shownPlan(kind);
  const rest = text.startsWith(word + ":") ? text.slice(word.length + 1) : text.startsWith(word + " ") ? text.slice(word.length + 1) : text;
  return rest.trim();
}

/** What a plan comes down to. @param {{is_empty: boolean, mirrors: number, kinds: Record<string, number>}} plan @param {string} target */
export function planSentence({ is_empty, mirrors, kinds }, target) {
  const does = (kinds.create ?? 0) + (kinds.grow ?? 0) + (kinds.configure ?? 0) + (kinds.remember ?? 0);
  const wrong = (kinds.refuse ?? 0) + (kinds.pipeline ?? 0) + (kinds.gone ?? 0);
  const has = `${counted(mirrors, "topic is", "topics are")} mirrored`;
  if (is_empty) return mirrors ? `Nothing to do at ${target}: ${has} as configured.` : `Nothing to do at ${target}: no topic is selected.`;
  const parts = [...(does ? [`${counted(does, "thing")} to do at ${target}`] : []), ...(wrong ? [`${whole(wrong)} refused`] : [])];
  return `${parts.join(", ") || "Mirrors are left to another link"}; ${has}.`;
}

/** @type {Record<string, Shown>} */
const SCHEMA_STATES = {
  mirrored: { glyph: "●", word: "same id", tone: "ok" },
  mapped: { glyph: "●", word: "id of its own", tone: "ok" },
  missing: { glyph: "◐", word: "not there yet", tone: "lag" },
  refused: { glyph: "✕", word: "refused", tone: "bad" },
  left_out: { glyph: "–", word: "left out", tone: "quiet" },
};
const SCHEMA_ORDER = ["refused", "missing", "mapped", "mirrored", "left_out"];

/** @param {string} state @returns {Shown} */
export const shownSchema = (state) => SCHEMA_STATES[state] ?? { glyph: "?", word: state, tone: "unknown" };

/** @param {{subject: string, version: number, state: string}[]} rows */
export function schemasInOrder(rows) {
  const rank = (/** @type {{state: string}} */ row) => SCHEMA_ORDER.indexOf(row.state); // one of a later version is the first
  return [...rows].sort((a, b) => rank(a) - rank(b) || (a.subject < b.subject ? -1 : a.subject > b.subject ? 1 : a.version - b.version));
}

const SHOWN_BYTES = 4_096;

/**
 * Bytes as somebody can read them: text where they are, else their hexadecimal digits; no more than the first 4 kB.
 * @param {string | null} base64
 * @returns {{text: string, size: number, kind: "text" | "bytes" | "null", isCut: boolean}}
 */
export function bytesText(base64) {
  if (base64 === null) return { text: "null", size: 0, kind: "null", isCut: false };
  const all = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const isCut = all.length > SHOWN_BYTES;
  const part = all.subarray(0, SHOWN_BYTES);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(part, { stream: isCut });
    if (!/[\u0000-\u0008\u000e-\u001f\u007f]/.test(text)) return { text, size: all.length, kind: "text", isCut };
  } catch {
    // not text: its digits are shown
  }
  return { text: [...part].map((byte) => byte.toString(16).padStart(2, "0")).join(" "), size: all.length, kind: "bytes", isCut };
}
