// Where the page is, and keys that lead elsewhere.
import { signal } from "@preact/signals";
import * as routes from "./pure/route.js";

export const route = signal(routes.parse(location.hash));
export const isHelpShown = signal(false);
/** Views of a link by the key after g. @type {Record<string, import("./pure/route.js").Part>} */
const PARTS = { gg: "groups", ga: "gaps", gd: "dead-letters", gs: "schemas", gp: "plan", gn: "lanes", gc: "configuration", gv: "verify", gf: "failover", gr: "rights", gw: "why" };
const SEQUENCE_MS = 1_200;
let before = { key: "", at: 0 };

/** Filter and order by which topics of a link were last looked at. @type {Map<string, Record<string, string>>} */
const lastQuery = new Map();

function follow() {
  const next = routes.parse(location.hash);
  if (next.view === "topics" && next.link) lastQuery.set(next.link, next.query);
  route.value = next;
}
addEventListener("hashchange", follow);

/** Where topics of a link are, as they were last looked at. @param {string} link */
export const backToTopics = (link) => routes.ofTopics(link, { ...lastQuery.get(link), focus: "" });

/** Changes the query of the address, and nothing else. @param {Record<string, string>} query */
export function replaceQuery(query) {
  const [path] = location.hash.split("?");
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "")).toString();
  history.replaceState(null, "", (path || "#/") + (given ? "?" + given : ""));
  follow();
}

/** The link that keys mean: the one in sight, else the first. @param {string[]} names */
const linkOf = (names) => route.peek().link ?? names[0];

/** @param {() => string[]} names of all links */
export function listenToKeys(names) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.closest("input, textarea, select, dialog")) return;
    const sequence = performance.now() - before.at < SEQUENCE_MS ? before.key + event.key : event.key;
    before = { key: sequence === "g" ? "g" : "", at: performance.now() };
    if (act(sequence, names())) event.preventDefault();
  });
}

/** @param {string} keys @param {string[]} names @returns {boolean} whether they mean something */
function act(keys, names) {
  const link = linkOf(names);
  const { view, topic, partition } = route.peek();
  switch (keys) {
    case "?":
      isHelpShown.value = true;
      return true;
    case "/":
      return find(link);
    case "gm":
      return go("#/");
    case "gl":
      return link !== undefined && go(routes.ofLink(link));
    case "gt":
      return link !== undefined && go(routes.ofTopics(link));
    case "ge":
      return go("#/events");
    case "j":
    case "k":
      return step(keys === "j" ? 1 : -1);
    case "Escape":
      if (view === "topic" && link) return go(partition === undefined || !topic ? backToTopics(link) : routes.ofTopic(link, topic));
      if (view === "group" && link) return go(routes.ofPart(link, "groups"));
      if (view === "letter" && link) return go(routes.ofPart(link, "dead-letters"));
      return route.peek().link !== undefined && link !== undefined ? go(view === "link" ? "#/" : routes.ofLink(link)) : view !== "map" && go("#/");
    default:
      return keys in PARTS && link !== undefined && go(routes.ofPart(link, PARTS[keys]));
  }
}

/** @param {string} address */
function go(address) {
  location.hash = address;
  return true;
}

/** @param {string | undefined} link */
function find(link) {
  const field = /** @type {HTMLInputElement | null} */ (document.querySelector("[data-filter]"));
  if (field) {
    field.focus();
    field.select();
  } else if (link !== undefined) {
    location.hash = routes.ofTopics(link, { focus: "1" });
  }
  return true;
}

/** Moves the focus among what `data-step` marks; long lists listen to "step" themselves. @param {number} by */
function step(by) {
  const list = document.querySelector("[data-steps]");
  if (list) {
    list.dispatchEvent(new CustomEvent("step", { detail: by }));
    return true;
  }
  const all = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[data-step]")]);
  if (all.length === 0) return false;
  const place = all.indexOf(/** @type {HTMLElement} */ (document.activeElement));
  all[Math.min(all.length - 1, Math.max(0, place + by))].focus();
  return true;
}
