// Rights and quotas that follow the source.
import { html } from "../html.js";
import { replaceQuery, route } from "../navigation.js";
import { aclsCommand } from "../pure/choices.js";
import { counted, whole } from "../pure/format.js";
import { MOVES } from "../pure/moves.js";
import { asksSentence, rightsRows, rightsSentence } from "../pure/rights.js";
import { ofApi } from "../service.js";
import { Asked, Find, Rows } from "./asked.js";
import { Moves } from "./moves.js";
import { Command, Empty, Mark } from "./parts.js";

/** @param {{link: string, target: string}} props */
export function RightsView({ link, target }) {
  return html`<${Asked} title="Rights" path=${ofApi(link, "/access")}>${(/** @type {import("../pure/rights.js").Rights} */ rights, /** @type {() => void} */ again) => html`<${Answer} link=${link} target=${target} rights=${rights} again=${again} />`}<//>`;
}

/** @param {{link: string, target: string, rights: import("../pure/rights.js").Rights, again: () => void}} props */
function Answer({ link, target, rights, again }) {
  const { text = "" } = route.value.query;
  const all = rightsRows(rights);
  const rows = all.filter((row) => `${row.kind} ${row.text} ${row.why}`.toLowerCase().includes(text.toLowerCase()));
  const asks = asksSentence(rights);
  return html`<p class="answer">${rightsSentence(rights, target)}</p>
    ${asks && html`<p class=${rights.is_confirmed ? "dim" : "tone-lag"} role="status">${asks}</p>`}
    ${rights.asks && !rights.is_confirmed && html`<${Moves} moves=${[MOVES.confirmRights]} link=${link} label="What waits for a person" ended=${again} />`}
    ${all.length === 0 ? html`<${Empty} title="There is nothing to do, and nothing that waits.">${rights.is_on ? "What is changed at the source is followed with the next comparison." : "To follow rights, set access.sync_acls and access.sync_quotas of the link. What it takes:"} ${!rights.is_on && html`<${Command} text=${aclsCommand(link)} />`}<//>` : html`<${Find} label="Filter rights" text=${text} onText=${(/** @type {string} */ value) => replaceQuery({ text: value })} says="${whole(rows.length)} of ${counted(all.length, "line")}" />
    ${rows.length === 0 ? html`<${Empty} title="No line matches."><button type="button" onClick=${() => replaceQuery({})}>Clear the filter</button><//>` : html`<${Rows} label="Rights" rows=${rows} head=${html`<th scope="col">What</th><th scope="col">Of which</th><th scope="col" class="wide">Why</th>`}>${(/** @type {import("../pure/rights.js").Row} */ row, /** @type {number} */ place) => html`<tr key=${place}><td><${Mark} of=${{ glyph: row.glyph, word: row.kind, tone: row.tone }} /></td><td class="reason fill mono">${row.text}</td><td class="reason wide dim">${row.why}</td></tr>`}<//>`}`}`;
}
