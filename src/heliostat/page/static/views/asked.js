// What clusters are asked once, when the view is opened: when that was, a button that asks again, and why there is no answer.
import { useState } from "preact/hooks";
import { html } from "../html.js";
import { span, whole } from "../pure/format.js";
import { now, useAsked } from "../service.js";
import { Time, Trouble } from "./parts.js";

const OLD_S = 300;
const ROWS = 200;

/**
 * @param {{title: any, path: string, children?: any}} props `children` makes the view of the answer; it is given what asks again, too
 */
export function Asked({ title, path, children }) {
  const { data, problem, isAsking, again } = useAsked(path);
  return html`<section class="asked" aria-labelledby="asked-title" aria-busy=${isAsking}>
    <div class="bar asked-bar"><h2 id="asked-title">${title}</h2>
      <p class="end-of-bar dim" role="status">${isAsking ? "Asking …" : data?.as_of_ms ? html`<${AskedAt} ms=${data.as_of_ms} />` : ""}</p>
      <button type="button" onClick=${again} disabled=${isAsking}>Ask again</button>
    </div>
    ${problem && html`<${Trouble} problem=${problem}>${data ? html`<p>What you see below was told at <${Time} ms=${data.as_of_ms} />.</p>` : ""}<//>`}
    ${data && data.next && html`<p class="tone-lag">Only the first ${whole(data.items.length)} rows are shown.</p>`}
    ${data && html`<div class="asked-body ${problem ? "old" : ""}">${children(data, again)}</div>`}
  </section>`;
}

/** @param {{ms: number}} props */
function AskedAt({ ms }) {
  now.value; // it grows older
  const ageS = Math.max(0, (Date.now() - ms) / 1000);
  return html`asked at <${Time} ms=${ms} /><span class=${ageS > OLD_S ? "tone-lag" : ""} aria-hidden="true">${ageS < 2 ? "" : `, ${span(ageS)} ago`}</span>`;
}

/**
 * A table of which the first rows are drawn, and more if somebody wants them.
 * @param {{label: string, head: any, rows: any[], children?: any}} props `children` makes a row
 */
export function Rows({ label, head, rows, children }) {
  const [most, setMost] = useState(ROWS);
  return html`<div class="card over" tabindex="0" role="group" aria-label=${label}><table class="table"><thead><tr>${head}</tr></thead><tbody>${rows.slice(0, most).map(children)}</tbody></table>
    ${rows.length > most && html`<p class="more"><button type="button" onClick=${() => setMost(most + ROWS)}>${whole(Math.min(ROWS, rows.length - most))} more</button> <span class="dim">${whole(most)} of ${whole(rows.length)} are shown</span></p>`}
  </div>`;
}

/** What is looked for, in the address. @param {{label: string, text: string, onText: (text: string) => void, says: string, children?: any}} props */
export function Find({ label, text, onText, says, children }) {
  return html`<div class="bar"><input data-filter type="search" class="filter" placeholder="Filter   /" aria-label=${label} value=${text} onInput=${(/** @type {any} */ event) => onText(event.target.value)} spellcheck=${false} autocomplete="off" />${children}<span class="dim end-of-bar" role="status">${says}</span></div>`;
}
