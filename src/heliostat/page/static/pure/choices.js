// What can be done where a partition is stopped, and what each choice does (docs/gaps.md).

/** @typedef {{choice: string, does: string}} Choice */

const WAIT = { choice: "wait", does: "Leaves it stopped, whatever the policy says. Nothing is given up." };
const AFTER = "Continues with the next record the source has; what is between is lost to the mirror. Offsets of both sides differ from there on, and the map translates them.";
const EMPTY = "Deletes the records of this partition's mirror and copies what the source has now. Groups before that offset follow their auto.offset.reset.";
const ANEW = "Deletes the mirror topic with all its partitions and copies it anew, with equal offsets. Groups have no position in it at first.";
const SKIP = "Leaves out what can't be copied, and goes on after it. Offsets differ from there on.";
const KEEP = "Puts the record into the dead letters, whole, then goes on after it.";

const OF_GAPS = [
  { choice: "continue", does: AFTER },
  { choice: "restart", does: EMPTY },
  WAIT,
];
const OF_RECORDS = [{ choice: "dead_letter", does: KEEP }, { choice: "continue", does: SKIP }, WAIT];
const OF_WRITERS = [{ choice: "restart", does: ANEW }, WAIT];
const OF_TOPICS = [{ choice: "restart", does: ANEW }, WAIT];

/** @type {Record<string, Choice[]>} */
export const CHOICES = {
  SOURCE_OVERTOOK: OF_GAPS,
  SOURCE_TRUNCATED: OF_GAPS,
  TARGET_TRUNCATED: OF_GAPS,
  TAIL_UNKNOWN: OF_GAPS,
  FOREIGN_TAIL: OF_WRITERS,
  TARGET_REFUSES_SEQUENCE: OF_WRITERS,
  APPENDED_ELSEWHERE: OF_WRITERS,
  INVALID_PRODUCER_EPOCH: OF_WRITERS,
  TOO_LARGE: OF_RECORDS,
  RECORD_REFUSED: OF_RECORDS,
  TRANSFORM_FAILED: OF_RECORDS,
  SCHEMA_UNREADABLE: OF_RECORDS,
  CORRUPT: OF_RECORDS,
  source_recreated: [{ choice: "continue", does: AFTER }, ...OF_TOPICS],
  target_recreated: OF_TOPICS,
};

/** The command that decides, or without a choice shows what each would do in numbers. @param {string} link @param {string} topic @param {number | null} partition @param {string} [choice] */
export function resolveCommand(link, topic, partition, choice) {
  const where = [quoted(topic), ...(partition === null ? [] : [partition])].join(" ");
  return `heliostat resolve ${where} --link ${quoted(link)}` + (choice ? ` --choose ${choice}` : "");
}

/** A command about a link, or about all. @param {string} verb @param {string} [link] */
export const commandOf = (verb, link) => `heliostat ${verb} -c heliostat.yaml` + (link === undefined ? "" : ` --link ${quoted(link)}`);

/** @param {string} link */
export const aclsCommand = (link) => `heliostat acls ${quoted(link)} -c heliostat.yaml`;

/** A command about a dead letter: shows it, or writes it to the source again, once one has said yes. @param {"show" | "replay"} verb @param {string} link @param {string} topic @param {number} partition @param {number} offset */
export const letterCommand = (verb, link, topic, partition, offset) => `heliostat dlq ${verb} ${quoted(topic)} ${partition} ${offset} --link ${quoted(link)}` + (verb === "replay" ? " --to-source" : "");

/** @param {string} word */
function quoted(word) {
  return /^[\w.-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
