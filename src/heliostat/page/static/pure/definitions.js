// Links of the home: how they are made, changed and deleted; what is sent, what a dry run foretells, and what became of it.
import { listedNames } from "./actions.js";
import { counted } from "./format.js";

/** @typedef {import("./moves.js").Line} Line */
/** @typedef {import("./moves.js").Foretold} Foretold */
/** @typedef {{name: string, content: string, why: string, state: boolean, mirrors: boolean, typed: string}} Given what was filled in; `content` is JSON */
/** @typedef {{name: string, origin: "file" | "home" | "connector", content: Record<string, any> | null, generation: number | null, by: string, at_ms: number | null, why: string, waits: string[]}} Definition */
/** @typedef {{link: string, did: "created" | "changed" | "deleted" | "nothing", generation: number | null, content: Record<string, any> | null, differs: string[], notes: string[], topics: string[], reach: Reach | null}} Outcome */
/** @typedef {{topics: number, partitions: number}} Count */
/** @typedef {{selected: Count, begun: Count, left: Count, error: string}} Reach what a definition selects at its source */
/** @typedef {{method: "POST" | "PUT" | "DELETE", path: string, body: object | undefined, tag: string}} Request `tag`: of the definition that is meant */

/**
 * @typedef {object} Verb
 * @property {"create" | "change" | "delete"} verb as the command line has it
 * @property {string} word on its button
 * @property {string} does
 * @property {string} back whether it can be taken back
 */

/** @type {Record<"create" | "change" | "delete", Verb>} */
export const VERBS = {
  create: {
    verb: "create",
    word: "New link",
    does: "Defines a link on the home, for every run whose file names that home; one of them begins to copy.",
    back: "Yes, by “Delete”. Mirrors that it has made by then stay, unless you choose that they go.",
  },
  change: {
    verb: "change",
    word: "Change",
    does: "Replaces the definition by what stands below. Runs take it over while they go on.",
    back: "Yes: change it back. What was copied, or made at the target, until then stays.",
  },
  delete: {
    verb: "delete",
    word: "Delete",
    does: "Takes the definition away: whoever runs the link lets it go, and nothing is copied any more.",
    back: "Without topics, yes: make it again, and it goes on where it was. Topics that are deleted are gone.",
  },
};

export const DRAFT = JSON.stringify({ source: "", target: "", topics: { include: [] } }, null, 2);

/** What was filled in at first. @param {Definition | null} definition @returns {Given} */
export function given(definition) {
  const content = definition === null ? DRAFT : JSON.stringify(definition.content, null, 2);
  return { name: definition?.name ?? "", content, why: "", state: false, mirrors: false, typed: "" };
}

/** The content, or why it is none. @param {string} text @returns {{content: Record<string, any> | null, wrong: string}} */
export function contentOf(text) {
  try {
    const content = JSON.parse(text);
    if (content !== null && typeof content === "object" && !Array.isArray(content)) return { content, wrong: "" };
    return { content: null, wrong: "The definition is not a JSON object: { … }." };
  } catch (error) {
    return { content: null, wrong: `The definition is not JSON: ${/** @type {Error} */ (error).message}.` };
  }
}

/** Why a dry run can't be asked yet; empty: it can. @param {Verb} verb @param {Given} given */
export function lacks({ verb }, { name, content }) {
  if (verb === "delete") return "";
  if (!name) return "It is told once the link has a name.";
  return contentOf(content).wrong;
}

/** @param {Verb} verb @param {Given} given @param {Definition | null} definition the one that is meant @param {boolean} isTried @returns {Request} */
export function requestOf({ verb }, { name, content, why, state, mirrors }, definition, isTried) {
  const query = new URLSearchParams();
  if (verb === "delete") {
    if (state) query.set("state", "true");
    if (mirrors) query.set("mirrors", "true");
    if (why.trim()) query.set("why", why.trim());
  }
  if (isTried) query.set("dry_run", "true");
  const end = query.size ? `?${query}` : "";
  const body = { content: contentOf(content).content, why: why.trim() };
  if (verb === "create") return { method: "POST", path: `links${end}`, body: { name, ...body }, tag: "" };
  const path = `links/${encodeURIComponent(name)}/definition${end}`;
  const tag = `"${definition?.generation}"`;
  return verb === "change" ? { method: "PUT", path, body, tag } : { method: "DELETE", path, body: undefined, tag };
}

/** How many partitions it concerns. @param {Verb} verb @param {Outcome} told @param {number | null} partitions of the link now; null: not known @returns {string[]} */
export function extent({ verb }, { reach }, partitions) {
  if (verb !== "delete" && reach) return reached(verb, reach);
  if (partitions === null) return ["How many partitions the link has is not known now."];
  if (partitions === 0) return ["The link has no partitions yet."];
  return [verb === "delete" ? `${counted(partitions, "partition")} would be copied no more.` : `The link has ${counted(partitions, "partition")} now; those that the change does not concern are not disturbed.`];
}

/** @param {"create" | "change"} verb @param {Reach} reach */
function reached(verb, { selected, begun, left, error }) {
  if (error) return [`How many partitions it concerns is not known now: ${error}`];
  /** @param {Count} count */
  const text = ({ topics, partitions }) => `${counted(topics, "topic")} with ${counted(partitions, "partition")}`;
  if (verb === "create") return [`It selects ${text(selected)} now.`];
  const lines = [`It selects ${text(selected)}; those that the change does not concern are not disturbed.`];
  if (begun.topics) lines.push(`${text(begun)} would begin to be copied.`);
  if (left.topics) lines.push(`${text(left)} would be copied no more; their mirrors stay.`);
  return lines;
}

/** @param {Verb} verb @param {Given} given @param {Outcome} told @param {number | null} partitions @returns {Foretold} */
export function foretold(verb, given, told, partitions) {
  const notes = told.notes.map((text) => ({ text: sentenceOf(text), tone: /** @type {const} */ ("lag") }));
  if (told.did === "nothing") return { lines: [{ text: "It is defined so already: nothing would change." }], mayGo: false };
  /** @type {Line[]} */
  const lines = extent(verb, told, partitions).map((text) => ({ text }));
  if (verb.verb === "change") lines.push({ text: `${counted(told.differs.length, "field differs", "fields differ")}: ${told.differs.join(", ")}` });
  if (verb.verb === "delete") {
    if (told.topics.length) lines.push({ text: `${counted(told.topics.length, "topic")} of the target would be deleted, with all records.`, tone: "bad" }, ...told.topics.map((text) => ({ text })));
    else lines.push({ text: given.state || given.mirrors ? "There is no topic to delete." : "No topic is deleted." });
  }
  return { lines: [...lines, ...notes], mayGo: true };
}

/** @param {Verb} verb @param {Outcome} told @returns {Line} */
export function became({ verb }, told) {
  const detail = told.notes.map(sentenceOf).join(" ");
  if (verb === "delete") return { text: told.topics.length ? `Done: the link is deleted, and ${counted(told.topics.length, "topic")}: ${listedNames(told.topics)}.` : "Done: the link is deleted; its topics stay.", detail, tone: "ok" };
  const next = verb === "create" ? "A run with that home takes it up within seconds." : "Runs take it over while they go on.";
  return { text: told.did === "nothing" ? "It was defined so already." : `Written, as generation ${told.generation}. ${next}`, detail, tone: "ok" };
}

/** @param {string} text */
const sentenceOf = (text) => text.charAt(0).toUpperCase() + text.slice(1) + ".";

/** Where a link is defined, and why it is not changed here; empty: it may be. @param {Definition} definition */
export function whyFixed({ origin }) {
  if (origin === "file") return "It stands in the file, and is changed there: a run takes the file over while it goes on.";
  return origin === "connector" ? "It is a connector, and is changed by Kafka Connect’s API." : "";
}

/** Why no link can be made here; empty: one can, or it is not known yet. @param {{home: string | null} | null} listing all links that are defined */
export function whyNoNew(listing) {
  return listing?.home === null ? "Links made here lie on a home cluster, and there is none: set service.home in the configuration file, then start the service again." : "";
}
