// Limits and priorities that stand: who wishes each, since when, why, and a button that takes it back.
import { useId, useState } from "preact/hooks";
import { html } from "../html.js";
import { whole } from "../pure/format.js";
import { levelsOf, untold } from "../pure/levels.js";
import { ofTopic } from "../pure/route.js";
import { Change, Rests, useWhyNot } from "./actions.js";

/** @typedef {import("../pure/levels.js").Level} Level */

/** Of a link in a card, or of a topic as lines. @param {{link: any, topic?: string}} props */
export function Levels({ link, topic }) {
  const [opened, setOpened] = useState(/** @type {Level | null} */ (null)); // its row may go before its dialog
  const whyNot = useWhyNot(link);
  const id = useId();
  const rows = levelsOf(link, topic);
  const more = untold(link);
  const lines = html`${rows.map((row) => html`<${Standing} key=${row.key} row=${row} link=${link.name} isNamed=${topic === undefined || row.isPattern} whyNot=${whyNot} whyNotId=${id} open=${() => setOpened(row)} />`)}
    ${rows.length > 0 && whyNot && html`<p id=${id} class="dim why-not">${whyNot}</p>`}${more && html`<p class="dim">${more}</p>`}`;
  return html`${topic !== undefined ? lines : rows.length > 0 && html`<section class="card" aria-labelledby="levels-title"><h2 id="levels-title">Limits and priorities <span class="dim num">${whole(rows.length)}</span></h2>${lines}</section>`}
    ${opened && html`<${Change} action=${opened.action} place=${opened.place} standing=${null} link=${link} close=${() => setOpened(null)} />`}`;
}

/** @param {{row: Level, link: string, isNamed: boolean, whyNot: string, whyNotId: string, open: () => void}} props */
function Standing({ row, link, isNamed, whyNot, whyNotId, open }) {
  const { glyph, word, name, isPattern, use, said, action } = row;
  const of = !name ? html`<span>the link</span>` : isPattern ? html`<span class="mono">${name}</span>` : html`<a class="mono" data-step href=${ofTopic(link, name)}>${name}</a>`;
  return html`<${Rests} wish=${said} of=${{ glyph, word, tone: "wait" }} what=${html`${isNamed && of}${use && html`<span class="num">${use}</span>`}`}>
    ${action && html`<button type="button" aria-haspopup="dialog" aria-disabled=${whyNot ? "true" : undefined} aria-describedby=${whyNot ? whyNotId : undefined} onClick=${() => whyNot || open()}>${action.word}<span class="hidden"> ${word} of ${name || "the link"}</span> …</button>`}
  <//>`;
}
