// Events as they happen: a stream while the view is in sight, asked for again where there is none.
import { useEffect, useState } from "preact/hooks";
import { messagesOf } from "./pure/event_stream.js";
import { headersOf, needsToken, problemOf } from "./service.js";

const STREAM = "text/event-stream";
const AGAIN_MS = 2_000;
const KEPT = 2_000;

/** @typedef {import("./views/events.js").Event} Event */
/** @typedef {{items: Event[] | null, problem: import("./service.js").Problem | null, isLive: boolean}} Events null: not told yet */

/** @type {Events} */
const NONE = { items: null, problem: null, isLive: false };

class Following {
  /** @param {string} path @param {(events: Events) => void} show */
  constructor(path, show) {
    this.path = path;
    this.show = show;
    this.events = NONE;
    this.id = "";
    this.asking = new AbortController();
    this.timer = 0;
    this.isOver = false;
  }

  /** Begins, or begins again where it was; it rests while nobody sees it. */
  look() {
    clearTimeout(this.timer);
    this.asking.abort();
    if (document.hidden || this.isOver) return;
    this.asking = new AbortController();
    const { signal } = this.asking;
    this.follow(signal)
      .catch(() => this.set({ isLive: false }))
      .finally(() => {
        if (!signal.aborted) this.timer = setTimeout(() => this.look(), AGAIN_MS);
      });
  }

  end() {
    this.isOver = true;
    this.look();
  }

  /** @param {AbortSignal} signal */
  async follow(signal) {
    /** @type {Record<string, string>} */
    const headers = { ...headersOf(""), Accept: STREAM };
    if (this.id) headers["Last-Event-ID"] = this.id;
    let response = await fetch(this.path, { headers, signal, cache: "no-store" });
    if (response.status === 429) response = await fetch(this.path, { headers: headersOf(""), signal, cache: "no-store" }); // all streams are taken
    if (!response.ok) {
      this.set({ problem: await problemOf(response), isLive: false });
    } else if (response.headers.get("content-type")?.startsWith(STREAM) && response.body) {
      this.set({ items: this.events.items ?? [], problem: null, isLive: true });
      await this.read(response.body.pipeThrough(new TextDecoderStream()).getReader());
      this.set({ isLive: false });
    } else {
      this.set({ items: (await response.json()).items, problem: null, isLive: false });
    }
  }

  /** @param {ReadableStreamDefaultReader<string>} reader */
  async read(reader) {
    let text = "";
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      const { messages, rest } = messagesOf(text + piece.value);
      text = rest;
      if (messages.length === 0) continue;
      this.id = messages[messages.length - 1].id;
      /** @type {Event[]} */
      const told = messages.map(({ data }) => JSON.parse(data));
      const items = [...(this.events.items ?? []).filter((event) => event.id < told[0].id), ...told];
      this.set({ items: items.slice(-KEPT) });
    }
  }

  /** @param {Partial<Events>} changed */
  set(changed) {
    this.events = { ...this.events, ...changed };
    if (!this.isOver) this.show(this.events);
  }
}

/** Events of a link, or of all. @param {string} link @returns {Events} */
export function useEvents(link) {
  const [events, setEvents] = useState(NONE);
  const isShut = needsToken.value;
  useEffect(() => {
    const path = "api/v1/events?limit=2000" + (link ? `&link=${encodeURIComponent(link)}` : "");
    const following = new Following(path, setEvents);
    const look = () => following.look();
    look();
    document.addEventListener("visibilitychange", look);
    return () => {
      document.removeEventListener("visibilitychange", look);
      following.end();
    };
  }, [link, isShut]);
  return events;
}
