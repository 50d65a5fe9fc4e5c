// Records that the mirror will never have, and what waits for a decision.
import { html } from "../html.js";
import { replaceQuery, route } from "../navigation.js";
import { gapOffsets, lostSentence } from "../pure/cluster_answers.js";
import { commandOf } from "../pure/choices.js";
import { question } from "../pure/explanation.js";
import { counted, UNKNOWN, whole } from "../pure/format.js";
import { ofTopic, ofWhy } from "../pure/route.js";
import { ofApi } from "../service.js";
import { Asked, Find, Rows } from "./asked.js";
import { Choices, sentence } from "./needs.js";
import { Command, Empty, State, Time } from "./parts.js";

/** @typedef {{topic: string, partition: number, first: number, last: number | null, count: number | null, cause: string, at_ms: number, choice: string, decided_by: string, mirror: string, is_done: boolean, text: string}} Gap */
/** @typedef {{topic: string, partition: number | null, state: string, code: string, reason: string, since_ms: number | null, decision: {choice?: string, decided_by?: string} | null, position: number | null}} OpenDecision */

/** @type {Record<string, string>} */
const POLICIES = {
  stop: "A partition with a gap waits until you decide",
  continue: "A partition with a gap goes on after it by itself",
  restart: "A mirror with a gap starts over by itself",
};

/** @param {{link: string}} props */
export function Gaps({ link }) {
  return html`<${Asked} title="Gaps" path=${ofApi(link, "/gaps?limit=5000")}>${(/** @type {any} */ data) => html`<${Answer} link=${link} data=${data} />`}<//>`;
}

/** @param {{link: string, data: {policy: string, stopped: OpenDecision[], total: number, items: Gap[]}}} props */
function Answer({ link, data }) {
  const { text = "" } = route.value.query;
  const rows = data.items.filter((gap) => gap.topic.includes(text));
  return html`<p class="dim">${POLICIES[data.policy] ?? "What happens then is set"} (<code>gaps.policy: ${data.policy}</code>).</p>
    ${data.stopped.length > 0 && html`<section class="card needs" aria-labelledby="waits-title"><h2 id="waits-title">Waits for your decision <span class="badge">${whole(data.stopped.length)}</span></h2>${data.stopped.map((stop) => html`<${Waits} key=${stop.topic + "/" + stop.partition} link=${link} stop=${stop} />`)}</section>`}
    ${data.items.length === 0 ? html`<${Empty} title="No record was lost to the mirror.">${data.stopped.length ? "What you decide is written here, with the offsets that it gives up." : "If the source deletes records before they are copied, or a topic is created anew, it is written here, with offsets and the choice that was made."}<//>` : html`<p class="answer">${lostSentence(data.items)}</p>
    <${Find} label="Filter gaps by topic" text=${text} onText=${(/** @type {string} */ value) => replaceQuery({ text: value })} says="${whole(rows.length)} of ${counted(data.total, "gap")}" />
    ${rows.length === 0 ? html`<${Empty} title="No gap matches."><button type="button" onClick=${() => replaceQuery({})}>Clear the filter</button><//>` : html`<${Rows} label="Gaps" rows=${rows} head=${html`<th scope="col">When</th><th scope="col">Partition</th><th scope="col" class="r">Records</th><th scope="col" class="r wide">Source offsets</th><th scope="col">Cause</th><th scope="col">Choice</th><th scope="col" class="wide">By</th>`}>${(/** @type {Gap} */ gap) => html`<tr key=${gap.topic + "/" + gap.partition + "/" + gap.at_ms} title=${gap.text}>
      <td><${Time} ms=${gap.at_ms} /></td>
      <td class="mono"><a data-step href=${ofTopic(link, gap.topic, gap.partition)}>${gap.topic}-${gap.partition}</a></td>
      <td class="r num">${gap.count === null ? UNKNOWN : whole(gap.count)}</td><td class="r num wide">${gapOffsets(gap)}</td>
      <td>${gap.cause.replaceAll("_", " ")}</td><td>${gap.choice.replaceAll("_", " ")}${gap.is_done ? "" : html` <span class="tone-lag">not done yet</span>`}</td><td class="wide dim">${gap.decided_by}</td>
    </tr>`}<//>`}`}`;
}

/** @param {{link: string, stop: OpenDecision}} props */
function Waits({ link, stop }) {
  const { topic, partition, code, reason, since_ms, decision } = stop;
  const where = partition === null ? topic : question(topic, partition);
  return html`<article class="issue tone-edge-bad">
    <p class="issue-head">${partition === null ? html`<b class="mono">${topic}</b>` : html`<a class="mono" data-step href=${ofTopic(link, topic, partition)}>${where}</a>`} <${State} state=${stop.state} /> <a class="why-link" href=${ofWhy(link, where)}>Why?</a></p>
    <p>${sentence(reason || code)} ${since_ms && html`<span class="dim">Since <${Time} ms=${since_ms} />.</span>`}</p>
    ${decision?.choice ? html`<p class="tone-wait">Decided: ${decision.choice.replaceAll("_", " ")}${decision.decided_by ? ` (${decision.decided_by})` : ""}. A running link does it at its next look at the topics; a stopped one when it starts: <${Command} text=${commandOf("run")} /></p>` : html`<${Choices} link=${link} problem=${{ source: topic, partition, code }} />`}
  </article>`;
}
