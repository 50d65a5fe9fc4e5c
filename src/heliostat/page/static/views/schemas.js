// Schemas of the source's registry, and what is of them at the target's.
import { html } from "../html.js";
import { replaceQuery, route } from "../navigation.js";
import { schemasInOrder, shownSchema } from "../pure/cluster_answers.js";
import { counted, whole } from "../pure/format.js";
import { commandOf } from "../pure/choices.js";
import { ofApi } from "../service.js";
import { Asked, Find, Rows } from "./asked.js";
import { Command, Empty, Mark } from "./parts.js";

/** @typedef {{subject: string, version: number, id: number, is_deleted: boolean, state: string, target_subjects: string[], target_id: number | null, code: string, reason: string, hint: string}} Version */
/** @typedef {{pipeline: string, id: number, target_subjects: string[], target_id: number | null, reason: string}} Derived */

/** @param {{link: string, target: string}} props */
export function Schemas({ link, target }) {
  return html`<${Asked} title="Schemas" path=${ofApi(link, "/schemas?limit=5000")}>${(/** @type {any} */ data) => html`<${Answer} link=${link} target=${target} data=${data} />`}<//>`;
}

/** @param {{link: string, target: string, data: {strategy: string, in_sync: boolean, states: Record<string, number>, derived: Derived[], items: Version[]}}} props */
function Answer({ link, target, data }) {
  const { text = "", state = "" } = route.value.query;
  const set = (/** @type {Record<string, string>} */ changed) => replaceQuery({ text, state, ...changed });
  if (data.strategy === "off") {
    return html`<${Empty} title="This link mirrors no schemas.">If records name schemas by an id, give both clusters a schema_registry and the link schemas.strategy, before the first record is copied. What it would do: <${Command} text=${commandOf("plan", link)} /><//>`;
  }
  const part = text.toLowerCase();
  const rows = schemasInOrder(data.items).filter((row) => (!state || row.state === state) && row.subject.toLowerCase().includes(part));
  return html`<p class="answer">${data.in_sync ? `${target} has all that the link mirrors: ${counted(data.items.length, "version")}.` : `Not all of ${counted(data.items.length, "version")} can be read at ${target} yet.`} <span class="dim">Strategy ${data.strategy}.</span></p>
    ${data.items.length === 0 ? html`<${Empty} title="The source’s registry has no schema that the link selects.">One appears here once a producer has registered it.<//>` : html`<${Find} label="Filter subjects" text=${text} onText=${(/** @type {string} */ value) => set({ text: value })} says="${whole(rows.length)} of ${counted(data.items.length, "version")}"><div class="choice" role="group" aria-label="State">${Object.entries(data.states).map(([name, count]) => html`<button type="button" key=${name} aria-pressed=${state === name} onClick=${() => set({ state: state === name ? "" : name })}><${Mark} of=${{ ...shownSchema(name), word: `${whole(count)} ${shownSchema(name).word}` }} /></button>`)}</div><//>
    ${rows.length === 0 ? html`<${Empty} title="No version matches."><button type="button" onClick=${() => replaceQuery({})}>Clear the filter</button><//>` : html`<${Rows} label="Versions of schemas" rows=${rows} head=${html`<th scope="col">Subject</th><th scope="col" class="r">Version</th><th scope="col" class="r wide">Id</th><th scope="col" class="r wide">At the target</th><th scope="col">State</th><th scope="col" class="wide">Why</th>`}>${(/** @type {Version} */ row) => html`<tr key=${row.subject + "/" + row.version}>
      <td class="mono name" title=${row.target_subjects.join(", ")}>${row.subject}${row.is_deleted && html` <span class="dim">deleted</span>`}</td><td class="r num">${row.version}</td><td class="r num wide">${row.id}</td><td class="r num wide">${row.target_id ?? "–"}</td>
      <td><${Mark} of=${shownSchema(row.state)} /></td><td class="wide reason dim">${row.reason}${row.hint && `: ${row.hint}`} ${row.code && html`<code>${row.code}</code>`}</td>
    </tr>`}<//>`}`}
    ${data.derived.length > 0 && html`<h2 class="second">What pipelines make of schemas</h2><${Rows} label="Schemas of pipelines" rows=${data.derived} head=${html`<th scope="col">Pipeline</th><th scope="col" class="r">Id at the source</th><th scope="col" class="r">At the target</th><th scope="col" class="wide">Subjects</th><th scope="col">Why not</th>`}>${(/** @type {Derived} */ row) => html`<tr key=${row.pipeline + row.id}><td class="mono">${row.pipeline}</td><td class="r num">${row.id}</td><td class="r num">${row.target_id ?? "not there"}</td><td class="mono wide">${row.target_subjects.join(", ")}</td><td class="reason tone-lag">${row.reason}</td></tr>`}<//>`}`;
}
