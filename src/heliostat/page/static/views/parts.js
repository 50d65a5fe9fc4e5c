// Small parts that views share.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { clock, utc } from "../pure/format.js";
import { shown, worstFirst } from "../pure/states.js";

/** @param {{state: string, count?: number}} props */
export function State({ state, count }) {
  const { glyph, word, tone } = shown(state);
  return html`<${Mark} of=${{ glyph, tone, word: (count === undefined ? "" : `${count} `) + word }} />`;
}

/** States of a topic: one alone as a word, several with their numbers. @param {{states: Record<string, number>}} props */
export function States({ states }) {
  const rows = worstFirst(states);
  if (rows.length === 0) return html`<span class="dim">–</span>`;
  return html`<span class="states">${rows.map(([state, count]) => html`<${State} key=${state} state=${state} count=${rows.length > 1 ? count : undefined} />`)}</span>`;
}

/** A moment, local; UTC on hover. @param {{ms: number}} props */
export function Time({ ms }) {
  return html`<time class="num" datetime=${new Date(ms).toISOString()} title=${utc(ms)}>${clock(ms)}</time>`;
}

/** A command, and a button that copies it. @param {{text: string}} props */
export function Command({ text }) {
  const [isCopied, setCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setCopied(false), 1_600);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
    } catch {
      setCopied(false); // it stands there to be marked by hand
    }
  };
  return html`<span class="command"><code tabindex="0" role="group" aria-label="Command">${text}</code><button type="button" onClick=${copy} aria-label="Copy: ${text}">${isCopied ? "copied" : "copy"}</button></span>`;
}

/** What is shown where there is nothing, and what to do. @param {{title: string, children?: any}} props */
export function Empty({ title, children }) {
  return html`<div class="empty"><p class="empty-title">${title}</p><div class="dim">${children}</div></div>`;
}

/** An answer that is not there yet, or says what is wrong. @param {{answer: import("../service.js").Answer, what: string}} props */
export function Waiting({ answer, what }) {
  if (answer.problem) return html`<${Trouble} problem=${answer.problem} />`;
  return html`<p class="dim waiting">Reading ${what} …</p>`;
}

/** Why there is no answer, as the service says it: what, code, cause, and what helps. @param {{problem: import("../service.js").Problem, children?: any}} props */
export function Trouble({ problem, children }) {
  const { title, detail, status, code, hint } = problem;
  return html`<div class="empty trouble" role="alert">
    <p class="empty-title"><span class="tone-bad" aria-hidden="true">✕</span> ${title}</p>
    ${detail && html`<p>${detail}</p>`}
    ${hint && html`<p><b>What helps:</b> ${hint}</p>`}
    <p class="dim">${code && html`<code>${code}</code>`}${code && status ? " · " : ""}${status ? `HTTP ${status}` : ""}</p>
    ${children}
  </div>`;
}

/** A glyph and a word in a tone. @param {{of: {glyph: string, word: string, tone: string}}} props */
export function Mark({ of }) {
  return html`<span class="state tone-${of.tone}"><span class="glyph" aria-hidden="true">${of.glyph}</span>${of.word}</span>`;
}

/** A line of a few points without axes. @param {{values: (number | null)[], label: string, tone?: string}} props */
export function Sparkline({ values, label, tone = "1" }) {
  const [width, height] = [120, 28];
  const top = Math.max(1e-9, ...values.map((value) => value ?? 0));
  let path = "";
  let isGap = true;
  values.forEach((value, place) => {
    if (value === null) {
      isGap = true;
      return;
    }
    const x = (place / Math.max(1, values.length - 1)) * width;
    path += `${isGap ? "M" : "L"}${x.toFixed(1)} ${(height - 2 - (value / top) * (height - 5)).toFixed(1)}`;
    isGap = false;
  });
  return html`<svg class="sparkline line-${tone}" viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" role="img" aria-label=${label}><path d=${path} /></svg>`;
}

/** Width of an element, as it changes. @param {{current: HTMLElement | null}} ref */
export function useWidth(ref) {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = ref.current;
    if (!element) return;
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(element);
    setWidth(Math.floor(element.getBoundingClientRect().width));
    return () => observer.disconnect();
  }, []);
  return width;
}

/** A row of links that scrolls so that the current one is in sight. @param {string} where changes with the current one */
export function useCurrentInSight(where) {
  const nav = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const current = /** @type {HTMLElement | null | undefined} */ (nav.current?.querySelector("[aria-current]"));
    if (nav.current && current) nav.current.scrollLeft = current.offsetLeft - nav.current.offsetLeft - (nav.current.clientWidth - current.offsetWidth) / 2;
  }, [where]);
  return nav;
}

/** Where there is nothing yet, or it is not known. @param {{answer: import("../service.js").Answer, none: string}} props */
export function NoneOrWhy({ answer, none }) {
  if (answer.problem?.status === 404) return html`<p class="dim">${none}</p>`;
  return answer.problem ? html`<${Trouble} problem=${answer.problem} />` : html`<p class="dim waiting">Asking the service …</p>`;
}
