// One link: how it goes, its figures over time, the field, what needs a person, what has happened.
import { useRef } from "preact/hooks";
import { html } from "../html.js";
import { commandOf } from "../pure/choices.js";
import { driftLines } from "../pure/drift.js";
import { age, bytes, counted, lag, rate, span, whole } from "../pure/format.js";
import { address, ofTopic, ofTopics } from "../pure/route.js";
import { linkSentence, movingOf, untilLevel } from "../pure/sentence.js";
import { ofApi, usePolled } from "../service.js";
import { Rests } from "./actions.js";
import { Charts } from "./charts.js";
import { EventList, newestFirst } from "./events.js";
import { FieldView } from "./field.js";
import { Levels } from "./levels.js";
import { Needs } from "./needs.js";
import { Command, States, Waiting } from "./parts.js";

const SAMPLES = 30;

/** @param {{name: string}} props */
export function Link({ name }) {
  const answer = usePolled(ofApi(name), 1_000);
  const field = usePolled(ofApi(name, "/partitions"), 2_000);
  const link = answer.data;
  if (!link) return html`<${Waiting} answer=${answer} what="the link" />`;
  return html`
    <${Saying} link=${link} field=${field.data} />
    <${Charts} name=${name} link=${link} />
    <div class="two">
      <div>
        <section class="card" aria-labelledby="field-title">
          <h2 id="field-title">The field <span class="dim">each tile is a partition: bright where records cross, coloured where they don’t</span></h2>
          ${field.data ? html`<${FieldView} field=${field.data} link=${name} />` : html`<${Waiting} answer=${field} what="partitions" />`}
        </section>
        <${Worst} name=${name} />
      </div>
      <div>
        <${Needs} link=${link} />
        ${link.paused_count > 0 && html`<${PausedByName} link=${link} topics=${field.data?.topics ?? []} />`}
        <${Levels} link=${link} />
        ${link.drift && link.drift.count > 0 && html`<${Drift} link=${link} />`}
        <${Lately} name=${name} />
      </div>
    </div>`;
}

/** @param {{link: any, field: import("./field.js").Field | null}} props */
function Saying({ link, field }) {
  const moving = field ? movingOf(field) : null;
  const samples = useRef(/** @type {import("../pure/sentence.js").Sample[]} */ ([]));
  if (moving && field && samples.current.at(-1)?.[0] !== field.as_of_ms) {
    samples.current = [...samples.current, /** @type {[number, number]} */ ([field.as_of_ms, moving.lag])].slice(-SAMPLES);
  }
  const said = linkSentence(link, link.at_ms, moving);
  const leftS = link.state === "running" ? untilLevel(samples.current) : null;
  const more = leftS === null ? said.more : [`In about ${span(Math.max(1, leftS))} it will be level.`, ...said.more];
  return html`<div class="say"><p class="say-first"><span class="say-mark tone-${said.tone}" aria-hidden="true"></span>${said.text}</p>${more.length > 0 && html`<p class="dim">${more.join(" ")}</p>`}</div>`;
}

/** @param {{link: any, topics: string[]}} props */
function PausedByName({ link, topics }) {
  const known = new Set(topics);
  const more = link.paused_count - link.paused.length;
  return html`<section class="card" aria-labelledby="paused-title"><h2 id="paused-title">Paused by name <span class="dim num">${whole(link.paused_count)}</span><a class="all" href=${ofTopics(link.name, { filter: "state:paused" })}>these topics</a></h2>
    ${link.paused.map((/** @type {any} */ pause) => html`<${Rests} key=${pause.place} wish=${pause} what=${html`<${PlaceLink} link=${link.name} place=${pause.place} topics=${known} />`} />`)}
    ${more > 0 && html`<p class="dim">and ${whole(more)} more</p>`}
  </section>`;
}

/** Where mirrors are other than wanted. @param {{link: any}} props */
function Drift({ link }) {
  const lines = driftLines(link.drift);
  const more = link.drift.count - link.drift.items.length;
  return html`<section class="card" aria-labelledby="drift-title"><h2 id="drift-title">Mirrors that differ <span class="dim num">${whole(link.drift.mirrors)}</span></h2>
    ${lines.map((line) => html`<p key=${line.what}><span class="mono">${line.names}</span>: ${line.what} <span class="dim">${line.why}</span></p>`)}
    ${more > 0 && html`<p class="dim">and ${counted(more, "difference")} more: <${Command} text=${commandOf("plan", link.name)} /></p>`}
  </section>`;
}

/** A topic, or `TOPIC-PARTITION` where there is no topic of that name. @param {{link: string, place: string, topics: Set<string>}} props */
function PlaceLink({ link, place, topics }) {
  const dash = place.lastIndexOf("-");
  const isTopic = topics.has(place) || !topics.has(place.slice(0, dash));
  return html`<a class="mono" data-step href=${isTopic ? ofTopic(link, place) : ofTopic(link, place.slice(0, dash), Number(place.slice(dash + 1)))}>${place}</a>`;
}

/** @param {{name: string}} props */
function Lately({ name }) {
  const answer = usePolled(`events?limit=40&link=${encodeURIComponent(name)}`, 1_000);
  const items = newestFirst(answer.data?.items ?? []).slice(0, 8);
  return html`<section class="card" aria-labelledby="lately-title"><h2 id="lately-title">Lately <a class="all" href=${address(["links", name, "events"])}>all events</a></h2>
    ${items.length ? html`<${EventList} items=${items} hasLink=${false} />` : html`<p class="dim">${answer.problem ? "Events are not told." : "Nothing has happened since the service was started."}</p>`}
  </section>`;
}

/** @param {{name: string}} props */
function Worst({ name }) {
  const answer = usePolled(ofApi(name, "/topics?limit=8"), 1_000);
  const items = answer.data?.items ?? [];
  return html`<section class="card" aria-labelledby="worst-title"><h2 id="worst-title">Topics that are most behind <a class="all" href=${ofTopics(name)}>all topics</a></h2>
    ${items.length === 0 ? html`<p class="dim">No topic is mirrored yet. <code>heliostat plan</code> tells which are selected, and why not.</p>` : html`<table class="table"><thead><tr><th scope="col">Topic</th><th scope="col" class="r">Records/s</th><th scope="col" class="r wide">Bytes/s</th><th scope="col" class="r">Lag</th><th scope="col" class="r">Oldest</th><th scope="col" class="wide">State</th></tr></thead><tbody>
      ${items.map((/** @type {any} */ row) => html`<tr key=${row.source}><td class="mono name"><a data-step href=${ofTopic(name, row.source)}>${row.source}</a></td><td class="r num">${rate(row.records_per_s)}</td><td class="r num wide">${bytes(row.bytes_per_s)}</td><td class="r num">${lag(row.lag_records, row.unknown)}</td><td class="r num">${age(row.lag_s, row.lag_records, row.unknown)}</td><td class="wide"><${States} states=${row.states} /></td></tr>`)}
    </tbody></table>`}
  </section>`;
}
