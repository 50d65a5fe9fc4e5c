// Dead letters: records that could not be copied, kept whole.
import { html } from "../html.js";
import { replaceQuery, route } from "../navigation.js";
import { bytesText } from "../pure/cluster_answers.js";
import { letterCommand } from "../pure/choices.js";
import { bytes, counted, whole } from "../pure/format.js";
import { ofLetter, ofPart, ofTopic } from "../pure/route.js";
import { ofApi } from "../service.js";
import { Asked, Find, Rows } from "./asked.js";
import { sentence } from "./needs.js";
import { Command, Empty, Time } from "./parts.js";

/** @typedef {{topic: string, topic_id: string, partition: number, offset: number, last: number, kind: string, timestamp_ms: number, key: string | null, value_is_null: boolean, cause: string, reason: string, mirror: string, decided_by: string, at_ms: number}} Letter */
/** @typedef {Letter & {value: string | null, headers: [string, string | null][]}} WholeLetter */

/** @param {{link: string}} props */
export function Letters({ link }) {
  return html`<${Asked} title="Dead letters" path=${ofApi(link, "/dead-letters?limit=5000")}>${(/** @type {any} */ data) => html`<${LetterList} link=${link} data=${data} />`}<//>`;
}

/** @param {{link: string, data: {total: number, items: Letter[]}}} props */
function LetterList({ link, data }) {
  const { text = "" } = route.value.query;
  if (data.items.length === 0) {
    return html`<${Empty} title="There is no dead letter.">A record that can’t be copied stops its partition. If you or errors.policy choose “dead letter”, it is kept here, whole, and can be replayed.<//>`;
  }
  const rows = data.items.filter((letter) => letter.topic.includes(text) || letter.reason.includes(text));
  return html`<p class="answer">${counted(data.total, "record was", "records were")} put aside.</p>
    <${Find} label="Filter dead letters" text=${text} onText=${(/** @type {string} */ value) => replaceQuery({ text: value })} says="${whole(rows.length)} of ${whole(data.total)}" />
    ${rows.length === 0 ? html`<${Empty} title="No dead letter matches."><button type="button" onClick=${() => replaceQuery({})}>Clear the filter</button><//>` : html`<${Rows} label="Dead letters" rows=${rows} head=${html`<th scope="col">When</th><th scope="col">Record</th><th scope="col">Why</th><th scope="col" class="wide">Key</th><th scope="col" class="wide">By</th>`}>${(/** @type {Letter} */ letter) => html`<tr key=${[letter.topic, letter.topic_id, letter.partition, letter.offset].join("/")}>
      <td><${Time} ms=${letter.at_ms} /></td>
      <td class="mono"><a data-step href=${ofLetter(link, letter.topic, letter.partition, letter.offset)}>${letter.topic}-${letter.partition}@${letter.offset}</a>${letter.kind === "batch" && html` <span class="dim">to ${letter.last}</span>`}</td>
      <td class="reason">${letter.reason}</td><td class="mono wide short">${bytesText(letter.key).text}</td><td class="wide dim">${letter.decided_by}</td>
    </tr>`}<//>`}`;
}

/** @param {{link: string, topic: string, partition: number, offset: number}} props */
export function LetterDetails({ link, topic, partition, offset }) {
  const path = `/dead-letters/${encodeURIComponent(topic)}/${partition}/${offset}`;
  return html`<p class="path"><a href=${ofPart(link, "dead-letters")}>Dead letters</a> <span class="dim" aria-hidden="true">/</span></p>
    <${Asked} title=${html`<span class="mono">${topic}-${partition}@${offset}</span>`} path=${ofApi(link, path)}>${(/** @type {any} */ data) => data.items.map((/** @type {WholeLetter} */ letter) => html`<${Whole} key=${letter.topic_id} link=${link} letter=${letter} />`)}<//>`;
}

/** @param {{link: string, letter: WholeLetter}} props */
function Whole({ link, letter }) {
  const { topic, partition, offset } = letter;
  return html`<article class="card detail">
    <p>${sentence(letter.reason)} <span class="dim">Put aside at <${Time} ms=${letter.at_ms} /> (${letter.decided_by}). <a class="under" href=${ofTopic(link, topic, partition)}>The partition</a></span></p>
    <dl class="figures"><div><dt>Kind</dt><dd>${letter.kind}</dd></div><div><dt>Timestamp</dt><dd><${Time} ms=${letter.timestamp_ms} /></dd></div><div><dt>Cause</dt><dd>${letter.cause.replaceAll("_", " ")}</dd></div></dl>
    <${Bytes} name="Key" base64=${letter.key} />
    <${Bytes} name="Value" base64=${letter.value} />
    ${letter.headers.map(([name, content], place) => html`<${Bytes} key=${place} name="Header ${name}" base64=${content} />`)}
    <p class="dim">All of it in a terminal; or write it to the source again, as a new record (it asks first):</p>
    <${Command} text=${letterCommand("show", link, topic, partition, offset)} />
    <${Command} text=${letterCommand("replay", link, topic, partition, offset)} />
  </article>`;
}

/** @param {{name: string, base64: string | null}} props */
function Bytes({ name, base64 }) {
  const { text, size, kind, isCut } = bytesText(base64);
  return html`<div class="bytes"><h3>${name} <span class="dim">${kind === "null" ? "none" : `${bytes(size)}${kind === "bytes" ? ", no text" : ""}${isCut ? ", its beginning" : ""}`}</span></h3>${kind !== "null" && html`<pre tabindex="0" role="group" aria-label=${name}>${text}</pre>`}</div>`;
}
