// Addresses of the page: all behind "#", so that no path of the service is taken.

/**
 * @typedef {object} Route
 * @property {"map" | "link" | "topics" | "topic" | "group" | "letter" | "nowhere" | Part} view
 * @property {string} [link]
 * @property {string} [topic]
 * @property {number} [partition]
 * @property {string} [group]
 * @property {number} [offset]
 * @property {Record<string, string>} query
 */
/** @typedef {"lanes" | "events" | "why" | "groups" | "gaps" | "dead-letters" | "schemas" | "plan" | "configuration" | "verify" | "failover" | "rights"} Part a view of a link with nothing below it */

/** @type {Set<string>} */
const PARTS = new Set(["lanes", "events", "why", "groups", "gaps", "dead-letters", "schemas", "plan", "configuration", "verify", "failover", "rights"]);
/** @param {string} part @returns {part is Part} */
const isPart = (part) => PARTS.has(part);

/** @param {string} hash @returns {Route} */
export function parse(hash) {
  const text = hash.replace(/^#/, "");
  const mark = text.indexOf("?");
  const path = mark < 0 ? text : text.slice(0, mark);
  const query = Object.fromEntries(new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)));
  const parts = path.split("/").filter(Boolean).map(decoded);
  if (parts.length === 0) return { view: "map", query };
  if (parts[0] === "events" && parts.length === 1) return { view: "events", query };
  if (parts[0] !== "links" || parts.length < 2) return { view: "nowhere", query };
  const [, link, part, topic, number] = parts;
  if (part === undefined) return { view: "link", link, query };
  if (isPart(part) && parts.length === 3) return { view: part, link, query };
  if (part === "groups" && parts.length === 4) return { view: "group", link, group: topic, query };
  if (part === "dead-letters" && parts.length === 6 && isWhole(number) && isWhole(parts[5])) {
    return { view: "letter", link, topic, partition: Number(number), offset: Number(parts[5]), query };
  }
  if (part !== "topics" || parts.length > 5) return { view: "nowhere", query };
  if (topic === undefined) return { view: "topics", link, query };
  if (number === undefined) return { view: "topic", link, topic, query };
  if (!isWhole(number)) return { view: "nowhere", query };
  return { view: "topic", link, topic, partition: Number(number), query };
}

/** @param {string} text */
const isWhole = (text) => /^\d+$/.test(text);

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** An address; empty values of the query are left out. @param {(string | number)[]} parts @param {Record<string, string>} [query] */
export function address(parts, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== "");
  const text = new URLSearchParams(given).toString();
  return "#/" + parts.map((part) => encodeURIComponent(part)).join("/") + (text ? "?" + text : "");
}

/** @param {string} link */
export const ofLink = (link) => address(["links", link]);
/** Why something of a link is so. @param {string} link @param {string} what */
export const ofWhy = (link, what) => address(["links", link, "why"], { what });
/** @param {string} link @param {Record<string, string>} [query] */
export const ofTopics = (link, query) => address(["links", link, "topics"], query);
/** @param {string} link @param {string} topic @param {number} [partition] */
export const ofTopic = (link, topic, partition) =>
  address(["links", link, "topics", topic, ...(partition === undefined ? [] : [partition])]);
/** @param {string} link @param {Part} part @param {Record<string, string>} [query] */
export const ofPart = (link, part, query) => address(["links", link, part], query);
/** @param {string} link @param {string} group */
export const ofGroup = (link, group) => address(["links", link, "groups", group]);
/** @param {string} link @param {string} topic @param {number} partition @param {number} offset */
export const ofLetter = (link, topic, partition, offset) => address(["links", link, "dead-letters", topic, partition, offset]);
