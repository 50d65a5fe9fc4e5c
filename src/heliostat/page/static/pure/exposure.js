// What would be lost, and read again, if a source were gone now. Figures are exact, at least so much, or not known.
import { age, counted, lag, span } from "./format.js";

/** @typedef {{records: number | null, age_s: number | null, truth: "exact" | "bound" | "not_known"}} Loss */
/** @typedef {{records: number | null, truth: "exact" | "bound" | "not_known", groups: number, unknown: number, at_ms: number, is_synced: boolean}} Rereads */
/** @typedef {{count: number, by: string, at_ms: number, topics: string[]}} Unfenced topics that were failed over */
/** @typedef {{source: string, unfenced?: Unfenced | null, would_be_lost?: Loss, without_mirror?: number, rereads?: Rereads | null}} Exposed */

/** @param {Loss} loss */
const unknownIn = (loss) => (loss.truth === "bound" ? 1 : 0);

/** @param {Loss | undefined} loss */
export function lossFigure(loss) {
  return loss ? lag(loss.records, unknownIn(loss)) : lag(null);
}

/** @param {Loss | undefined} loss */
export function lossAge(loss) {
  return loss ? age(loss.age_s, loss.records, unknownIn(loss)) : age(null, null);
}

/**
 * What would be lost of a link, and what groups would read again, as sentences.
 * @param {Exposed} link
 * @param {number} [atMs] when that was so; without it nothing is said of how old figures of groups are
 */
export function exposureSentences(link, atMs) {
  if (!link.would_be_lost) return []; // of a service that does not tell it
  const said = [];
  if (link.unfenced) said.push(`${counted(link.unfenced.count, "topic was", "topics were")} failed over by ${link.unfenced.by}: until ${link.source} is fenced it may still be written, and that is not copied.`);
  said.push(lossSentence(link.source, link.would_be_lost));
  if (link.without_mirror) said.push(`So would all of ${counted(link.without_mirror, "topic that has no mirror", "topics that have no mirror")}.`);
  if (link.rereads) said.push(rereadSentence(link.rereads, atMs));
  return said;
}

/** @param {Exposed} link @returns {import("./states.js").Tone} */
export function exposureTone({ unfenced, would_be_lost }) {
  if (!would_be_lost || would_be_lost.records === null) return "unknown";
  return unfenced || would_be_lost.records > 0 || would_be_lost.truth !== "exact" ? "lag" : "ok";
}

/** @param {string} source @param {Loss} loss */
function lossSentence(source, loss) {
  if (loss.records === null) return `What would be lost with ${source} now is not known.`;
  const least = loss.truth === "bound" ? "at least " : "";
  if (loss.records === 0 && !least) return `If ${source} were lost now, nothing would be lost with it.`;
  const oldest = loss.records === 0 || loss.age_s === null ? "" : `, the oldest ${span(loss.age_s)} old`;
  return `If ${source} were lost now, ${least}${counted(loss.records, "record")} would be lost${oldest}.`;
}

/** @typedef {{group: string, records: number | null, truth: string, partitions_begun_anew: number, partitions_not_known: number, partitions_without_mirror: number, why: string}} GroupReread */

/** What a group would read again, as a figure; without an answer it is not known. @param {GroupReread | undefined} group */
export const rereadFigure = (group) => lag(group?.records, group?.truth === "bound" ? 1 : 0);

/** What stands behind the figure; empty: nothing. @param {GroupReread} group */
export function rereadDetails({ partitions_begun_anew, partitions_not_known, partitions_without_mirror, why }) {
  const said = [];
  if (partitions_begun_anew) said.push(`the target has no offset of ${counted(partitions_begun_anew, "partition")}: read from the first record on, or as auto.offset.reset says`);
  if (partitions_not_known) said.push(`of ${counted(partitions_not_known, "partition")} it is not known`);
  if (partitions_without_mirror) said.push(`${counted(partitions_without_mirror, "partition has", "partitions have")} no mirror`);
  if (why) said.push(why);
  return said.join("; ");
}

/** What groups would read again, all together. @param {Rereads} rereads @param {number | undefined} [atMs] */
export function rereadSentence(rereads, atMs) {
  const ago = atMs === undefined ? "" : ` (looked at ${span(Math.max(0, (atMs - rereads.at_ms) / 1000))} ago)`;
  const why = rereads.is_synced ? "" : ": their offsets are not published";
  if (rereads.records === null) return `What consumer groups would read again is not known${why}.`;
  if (rereads.records === 0) return `Consumer groups would read nothing again${rereads.truth === "bound" ? " but what they have read since the last look" : ""}${ago}.`;
  const least = rereads.truth === "bound" ? "at least " : "";
  return `${counted(rereads.groups, "consumer group")} would read again ${least}${counted(rereads.records, "record")}${ago}${why}.`;
}
