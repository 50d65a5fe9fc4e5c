// Asks the service: again and again while the page is in sight, once for all views that need an answer.
import { signal } from "@preact/signals";
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { whole } from "./pure/pages.js";

const KEPT = 12;
const WITHIN_MS = 8_000;
const CLUSTERS_WITHIN_MS = 45_000;
const CHANGED_WITHIN_MS = 30_000;
const AGAIN_MS = 2_000;
const ABSENT_AGAIN_MS = 15_000;
const TOKEN = "heliostat.token";

/** @typedef {{status: number, title: string, detail: string, code?: string, hint?: string}} Problem */
/** @typedef {{data: any, problem: Problem | null, at: number}} Answer `at`: when it came, by `performance.now()` */

/** Whether the service answers, and when it last did. */
export const service = signal({ okAt: performance.now(), failingSince: 0, why: "" });
export const needsToken = signal(false);
/** Ticks each second while the page is in sight. */
export const now = signal(performance.now());

/** @type {Answer} */
const NONE = { data: null, problem: null, at: 0 };
/** @type {Map<string, Polled>} */
const resources = new Map();

class Polled {
  /** @param {string} path @param {number} everyMs @param {boolean} isWhole whether all its pages are read */
  constructor(path, everyMs, isWhole) {
    this.path = path;
    this.isWhole = isWhole;
    this.everyMs = everyMs;
    this.answer = signal(NONE);
    this.users = 0;
    this.tag = "";
    this.timer = 0;
    /** @type {AbortController | null} */
    this.asking = null;
  }

  /** Polls until the returned function is called. */
  use() {
    this.users += 1;
    if (this.users === 1) this.ask();
    return () => {
      this.users -= 1;
      if (this.users === 0) this.pause();
    };
  }

  pause() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.asking = null;
  }

  async ask() {
    clearTimeout(this.timer);
    if (this.users === 0 || document.hidden || this.asking) return;
    const asking = (this.asking = new AbortController());
    const late = setTimeout(() => asking.abort("late"), WITHIN_MS);
    const began = performance.now();
    let again = this.everyMs;
    try {
      const response = await fetch(this.path, { headers: headersOf(this.tag), signal: asking.signal, cache: "no-store" });
      again = await this.take(response);
    } catch (error) {
      if (this.asking !== asking) return; // nobody waits for it any more
      fail(asking.signal.aborted ? `no answer within ${WITHIN_MS / 1000} s` : "it can't be reached");
      again = AGAIN_MS;
    } finally {
      clearTimeout(late);
    }
    if (this.asking !== asking) return;
    this.asking = null;
    if (this.users > 0) this.timer = setTimeout(() => this.ask(), Math.max(200, again - (performance.now() - began)));
  }

  /** @param {Response} response @returns {Promise<number>} when to ask again */
  async take(response) {
    const at = performance.now();
    if (response.status === 304) {
      this.answer.value = { ...this.answer.peek(), at };
    } else if (response.ok) {
      const first = await response.json();
      const data = this.isWhole ? await whole(first, (after) => this.page(after)) : first;
      this.tag = this.isWhole && first.next ? "" : (response.headers.get("etag") ?? ""); // it is the first page's alone
      this.answer.value = { data, problem: null, at: performance.now() };
    } else {
      const problem = await problemOf(response);
      if (response.status >= 500 && !CLUSTERS.has(response.status)) {
        fail(problem.detail || problem.title);
        return AGAIN_MS;
      }
      this.tag = "";
      this.answer.value = { data: null, problem, at };
      succeed();
      succeed();
      return ABSENT_AGAIN_MS;
    }
    succeed();
    return this.everyMs;
  }

  /** A further page of the answer. @param {string} after its cursor */
  async page(after) {
    const response = await fetch(pageAfter(this.path, after), { headers: headersOf(""), signal: this.asking?.signal, cache: "no-store" });
    if (!response.ok) throw new Error(response.statusText);
    return response.json();
  }
}

/** The service answers, but a cluster does not. */
const CLUSTERS = new Set([503]);

/** @param {Response} response @returns {Promise<Problem>} */
export async function problemOf(response) {
  if (response.status === 401) needsToken.value = true;
  return response.json().catch(() => ({ status: response.status, title: response.statusText || `status ${response.status}`, detail: "" }));
}

/** @param {string} path @param {string} after */
const pageAfter = (path, after) => path + (path.includes("?") ? "&" : "?") + "after=" + encodeURIComponent(after);

/** @param {string} tag */
export function headersOf(tag) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  if (tag) headers["If-None-Match"] = tag;
  const token = storedToken();
  if (token) headers.Authorization = `Bearer ${token}`;
  return headers;
}

function storedToken() {
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return null;
  }
}

/** Uses a token until the tab is closed. @param {string} token */
export function giveToken(token) {
  sessionStorage.setItem(TOKEN, token);
  needsToken.value = false;
  askAll();
}

function succeed() {
  service.value = { okAt: performance.now(), failingSince: 0, why: "" };
}

/** @param {string} why */
function fail(why) {
  const { okAt, failingSince } = service.peek();
  service.value = { okAt, failingSince: failingSince || Date.now(), why };
}

function askAll() {
  for (const resource of resources.values()) resource.ask();
}

/** @param {string} path @param {number} everyMs @param {boolean} isWhole */
function resourceOf(path, everyMs, isWhole) {
  let resource = resources.get(path);
  resources.delete(path); // the newest is the last
  resource ??= new Polled(path, everyMs, isWhole);
  resource.everyMs = everyMs;
  resources.set(path, resource);
  for (const [other, { users }] of resources) {
    if (resources.size <= KEPT) break;
    if (users === 0 && other !== path) resources.delete(other);
  }
  return resource;
}

/**
 * An answer of the service, kept new while the view is there.
 * @param {string | null} path below api/v1/; null: nothing is asked
 * @param {number} everyMs
 * @param {boolean} [isWhole] whether all its pages are read, not only the first
 * @returns {Answer}
 */
export function usePolled(path, everyMs, isWhole = false) {
  const resource = useMemo(() => (path === null ? null : resourceOf(`api/v1/${path}`, everyMs, isWhole)), [path, everyMs]);
  useEffect(() => resource?.use(), [resource]);
  return resource === null ? NONE : resource.answer.value;
}

/** @typedef {{data: any, problem: Problem | null, isAsking: boolean, again: () => void}} Asked `data` may be older than `problem` */

/** @type {Omit<Asked, "again">} */
const ASKING = { data: null, problem: null, isAsking: true };

/**
 * An answer that costs round trips to clusters: asked once, and again only by who sees it. All its pages are read.
 * @param {string} path below api/v1/
 * @returns {Asked}
 */
export function useAsked(path) {
  const [answer, setAnswer] = useState(ASKING);
  const [turn, setTurn] = useState(0);
  const isShut = needsToken.value;
  useEffect(() => {
    const leaving = new AbortController();
    setAnswer((was) => ({ ...was, isAsking: true }));
    askOnce(`api/v1/${path}`, leaving.signal).then(
      ({ data, problem }) => setAnswer((was) => ({ data: data ?? was.data, problem, isAsking: false })),
      (error) => leaving.signal.aborted || setAnswer((was) => ({ ...was, problem: unreached(error), isAsking: false })),
    );
    return () => leaving.abort();
  }, [path, turn, isShut]);
  const again = useCallback(() => setTurn((was) => was + 1), []);
  return { ...answer, again };
}

/** @param {string} path @param {AbortSignal} leaving @returns {Promise<{data: any, problem: Problem | null}>} */
async function askOnce(path, leaving) {
  const signal = AbortSignal.any([leaving, AbortSignal.timeout(CLUSTERS_WITHIN_MS)]);
  const ask = (/** @type {string} */ address) => fetch(address, { headers: headersOf(""), signal, cache: "no-store" });
  const response = await ask(path);
  if (!response.ok) return { data: null, problem: await problemOf(response) };
  /** @type {Problem | null} */
  let problem = null;
  const data = await whole(await response.json(), async (after) => {
    const more = await ask(pageAfter(path, after));
    if (more.ok) return more.json();
    problem = await problemOf(more);
    return null;
  });
  return { data, problem };
}

/** An answer of the service now, or why there is none. @param {string} path below api/v1/ @param {AbortSignal} leaving */
export async function get(path, leaving) {
  try {
    return await askOnce(`api/v1/${path}`, leaving);
  } catch (error) {
    return { data: null, problem: unreached(/** @type {Error} */ (error)) };
  }
}

/**
 * Changes something of the service, and asks for all anew.
 * @param {"POST" | "DELETE"} method
 * @param {string} path below api/v1/
 * @param {object} [body]
 * @returns {Promise<Problem | null>} why it was not done
 */
export async function change(method, path, body) {
  try {
    const response = await send(method, path, body, AbortSignal.timeout(WITHIN_MS));
    return response.ok ? null : await problemOf(response);
  } catch (error) {
    return unreached(/** @type {Error} */ (error));
  } finally {
    askAll();
  }
}

/**
 * The same where the answer says what became of it, or would; clusters are asked for it.
 * @param {string} path below api/v1/
 * @param {object} body
 * @param {AbortSignal} [leaving]
 * @param {string} [key] the same under the same key is done once
 * @returns {Promise<{data: any, problem: Problem | null}>}
 */
export const post = (path, body, leaving, key = "") => write({ method: "POST", path, body, tag: "" }, leaving, key);

/** A key under which the same is done once. */
export const newKey = () => `${Date.now()}-${Math.random()}`;

/**
 * The same by any method.
 * @param {{method: string, path: string, body: object | undefined, tag: string}} request `tag`: the ETag of what is meant
 * @param {AbortSignal} [leaving]
 * @param {string} [key]
 * @returns {Promise<{data: any, problem: Problem | null}>}
 */
export async function write({ method, path, body, tag }, leaving, key = "") {
  const late = AbortSignal.timeout(CHANGED_WITHIN_MS);
  try {
    const response = await send(method, path, body, leaving ? AbortSignal.any([leaving, late]) : late, key, tag);
    return response.ok ? { data: await response.json(), problem: null } : { data: null, problem: await problemOf(response) };
  } catch (error) {
    return { data: null, problem: unreached(/** @type {Error} */ (error)) };
  } finally {
    if (!leaving) askAll();
  }
}

/** @param {string} method @param {string} path @param {object | undefined} body @param {AbortSignal} signal @param {string} [key] @param {string} [tag] */
function send(method, path, body, signal, key = "", tag = "") {
  const headers = headersOf("");
  if (key) headers["Idempotency-Key"] = key;
  if (tag) headers["If-Match"] = tag;
  if (body) headers["Content-Type"] = "application/json";
  return fetch(`api/v1/${path}`, { method, headers, body: body && JSON.stringify(body), signal, cache: "no-store" });
}

/** @param {Error} error @returns {Problem} */
function unreached(error) {
  const detail = error.name === "TimeoutError" ? "It gave no answer in time." : "It can't be reached.";
  return { status: 0, title: "The service does not answer", detail, hint: "Copying does not depend on it; heliostat status tells how it goes." };
}

/** @param {string} link @param {string} [part] */
export const ofApi = (link, part = "") => `links/${encodeURIComponent(link)}${part}`;

/** Asks as soon as the page is in sight again, and ticks; until it is closed. */
export function startClock() {
  document.addEventListener("visibilitychange", () => {
    now.value = performance.now();
    if (!document.hidden) askAll();
  });
  setInterval(() => {
    if (!document.hidden) now.value = performance.now();
  }, 1000);
}
