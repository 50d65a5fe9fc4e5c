// Why something is as it is, since when, and what to do: the answer of `heliostat explain`.
import { useState } from "preact/hooks";
import { html } from "../html.js";
import { replaceQuery, route } from "../navigation.js";
import { effectText, ended, shownKind } from "../pure/explanation.js";
import { span } from "../pure/format.js";
import { ofApi, usePolled } from "../service.js";
import { Command, Time, Waiting } from "./parts.js";

/** @typedef {import("../pure/explanation.js").Explanation} Explanation */

const EVERY_MS = 5_000;
const OLD_S = 10;

/** Asks about anything of a link. @param {{link: string}} props */
export function WhyView({ link }) {
  const what = route.value.query.what ?? "";
  const answer = usePolled(ofApi(link, `/explain?what=${encodeURIComponent(what)}`), EVERY_MS);
  return html`<section aria-labelledby="why-title">
    <h2 id="why-title">Why?</h2>
    <${Ask} key=${what} what=${what} />
    <div role="status">${answer.data ? html`<${Answer} found=${answer.data} />` : html`<${Waiting} answer=${answer} what="what is known" />`}</div>
  </section>`;
}

/** @param {{what: string}} props */
function Ask({ what }) {
  const [text, setText] = useState(what);
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    replaceQuery({ what: text.trim() });
  };
  return html`<form class="ask" onSubmit=${submit}>
    <label for="why-what" class="dim">A topic, a partition, a record's source offset, or a group; empty: the link</label>
    <p class="ask-row"><input id="why-what" class="mono" type="search" value=${text} maxlength="600" autocomplete="off" spellcheck=${false} placeholder="TOPIC-0@48211, or group NAME" onInput=${(/** @type {any} */ event) => setText(event.target.value)} /><button type="submit" class="main">Ask</button></p>
  </form>`;
}

/** @param {{found: Explanation}} props */
function Answer({ found }) {
  const { glyph, word, tone } = shownKind(found.kind);
  return html`<article class="card detail">
    <p class="detail-state"><span class="state tone-${tone}"><span class="glyph" aria-hidden="true">${glyph}</span>${word}</span> ${found.code && html`<code class="dim">${found.code}</code>`} <span class="dim">${found.since_ms !== null && html`since <${Time} ms=${found.since_ms} />`}</span></p>
    <p class="why-answer">${ended(found.answer)}</p>
    ${found.reasons.length > 0 && html`<ul class="passing-list dim">${found.reasons.map((reason) => html`<li key=${reason}>${ended(reason)}</li>`)}</ul>`}
    ${found.hint && html`<p><b>What helps:</b> ${ended(found.hint)}</p>`}
    ${found.next_steps.length > 0 && html`<ol class="why-steps">${found.next_steps.map((step) => html`<li key=${step.text}>${ended(step.text)}${step.command && html`<${Command} text=${step.command} />`}</li>`)}</ol>`}
    ${found.choices.length > 0 && html`<div class="choices"><dl>${found.choices.map((choice) => html`<div key=${choice.choice}><dt>${choice.choice.replace("_", " ")}</dt><dd>${ended(effectText(found.code, choice))}${choice.command && html`<${Command} text=${choice.command} />`}</dd></div>`)}</dl></div>`}
    <p class="dim">As of <${Time} ms=${found.as_of_ms} />${found.age_s !== null && found.age_s > OLD_S && html`, <span class="tone-lag">${span(found.age_s)} old</span>`}</p>
  </article>`;
}
