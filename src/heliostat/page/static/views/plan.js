// What the link would do to the target's topics now.
import { html } from "../html.js";
import { replaceQuery, route } from "../navigation.js";
import { planSentence, planText, shownPlan } from "../pure/cluster_answers.js";
import { commandOf } from "../pure/choices.js";
import { counted, whole } from "../pure/format.js";
import { ofApi } from "../service.js";
import { MOVES } from "../pure/moves.js";
import { Asked, Find, Rows } from "./asked.js";
import { Moves } from "./moves.js";
import { Command, Empty, Mark } from "./parts.js";

/** @param {{link: string, target: string}} props */
export function Plan({ link, target }) {
  return html`<${Asked} title="Plan" path=${ofApi(link, "/plan?limit=5000")}>${(/** @type {any} */ data, /** @type {() => void} */ again) => html`<${Answer} link=${link} target=${target} data=${data} again=${again} />`}<//>`;
}

/** @typedef {{kind: string, text: string}} Line */
/** @param {{link: string, target: string, data: {is_empty: boolean, mirrors: number, kinds: Record<string, number>, items: Line[]}, again: () => void}} props */
function Answer({ link, target, data, again }) {
  const { text = "", kind = "" } = route.value.query;
  const set = (/** @type {Record<string, string>} */ changed) => replaceQuery({ text, kind, ...changed });
  const rows = data.items.filter((line) => (!kind || line.kind === kind) && line.text.toLowerCase().includes(text.toLowerCase()));
  return html`<p class="answer">${planSentence(data, target)}</p>
    <${Moves} moves=${[MOVES.apply]} link=${link} label="Carry out the plan" ended=${again} />
    <p class="dim">What a running link does at its next look at the topics. Pipelines and schemas are looked at by: <${Command} text=${commandOf("plan", link)} /></p>
    ${data.items.length === 0 ? data.mirrors === 0 && html`<${Empty} title="No topic of the source is selected.">Which there are, and why each is left out: <${Command} text=${commandOf("topics", link)} /><//>` : html`<${Find} label="Filter the plan" text=${text} onText=${(/** @type {string} */ value) => set({ text: value })} says="${whole(rows.length)} of ${counted(data.items.length, "line")}"><div class="choice" role="group" aria-label="Kind">${Object.entries(data.kinds).map(([name, count]) => html`<button type="button" key=${name} aria-pressed=${kind === name} onClick=${() => set({ kind: kind === name ? "" : name })}><${Mark} of=${{ ...shownPlan(name), word: `${shownPlan(name).word} ${whole(count)}` }} /></button>`)}</div><//>
    ${rows.length === 0 ? html`<${Empty} title="No line matches."><button type="button" onClick=${() => replaceQuery({})}>Clear the filter</button><//>` : html`<${Rows} label="Lines of the plan" rows=${rows} head=${html`<th scope="col">What</th><th scope="col">Of which</th>`}>${(/** @type {Line} */ line, /** @type {number} */ place) => html`<tr key=${place}><td><${Mark} of=${shownPlan(line.kind)} /></td><td class="reason fill">${planText(line)}</td></tr>`}<//>`}`}`;
}
