// Asks the service: again and again while the page is in sight, once for all views that need an answer.
import { signal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

const KEPT = 12;
const WITHIN_MS = 8_000;
const AGAIN_MS = 2_000;
const ABSENT_AGAIN_MS = 15_000;
const TOKEN = "heliostat.token";

/** @typedef {{status: number, title: string, detail: string, hint?: string}} Problem */
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
  /** @param {string} path @param {number} everyMs */
  constructor(path, everyMs) {
    this.path = path;
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
      const data = await response.json();
      this.tag = response.headers.get("etag") ?? "";
      this.answer.value = { data, problem: null, at: performance.now() };
    } else {
      const problem = await response.json().catch(() => ({ status: response.status, title: response.statusText, detail: "" }));
      if (response.status === 401) needsToken.value = true;
      if (response.status >= 500) {
        fail(problem.detail || problem.title);
        return AGAIN_MS;
      }
      this.tag = "";
      this.answer.value = { data: null, problem, at };
      succeed();
      return ABSENT_AGAIN_MS;
    }
    succeed();
    return this.everyMs;
  }
}

/** @param {string} tag */
function headersOf(tag) {
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

/** @param {string} path @param {number} everyMs */
function resourceOf(path, everyMs) {
  let resource = resources.get(path);
  resources.delete(path); // the newest is the last
  resource ??= new Polled(path, everyMs);
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
 * @returns {Answer}
 */
export function usePolled(path, everyMs) {
  const resource = useMemo(() => (path === null ? null : resourceOf(`api/v1/${path}`, everyMs)), [path, everyMs]);
  useEffect(() => resource?.use(), [resource]);
  return resource === null ? NONE : resource.answer.value;
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
