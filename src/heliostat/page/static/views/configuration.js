// The configuration as it is in force for a link: its own settings, and those of its two clusters.
import { html } from "../html.js";
import { replaceQuery, route } from "../navigation.js";
import { commandOf } from "../pure/choices.js";
import { counted, whole } from "../pure/format.js";
import { Asked, Find, Rows } from "./asked.js";
import { Definition } from "./definition.js";
import { Command, Empty } from "./parts.js";

/** @typedef {{path: string, value: unknown, is_default: boolean}} Setting */
const HIDDEN = "(not shown)";

/** @param {{link: string}} props */
export function Configuration({ link }) {
  return html`<${Definition} name=${link} /><${Asked} title="Configuration in force" path="configuration?link=${encodeURIComponent(link)}">${(/** @type {any} */ data) => html`<${Answer} link=${link} items=${data.items} />`}<//>`;
}

/** @param {{link: string, items: Setting[]}} props */
function Answer({ link, items }) {
  const { text = "", all = "" } = route.value.query;
  const set = (/** @type {Record<string, string>} */ changed) => replaceQuery({ text, all, ...changed });
  const rows = items.filter((row) => (all || !row.is_default) && row.path.toLowerCase().includes(text.toLowerCase()));
  return html`<p class="dim">As the service read it when it was started; what may be a secret is not shown. The same in a terminal: <${Command} text=${commandOf("config", link)} /></p>
    <${Find} label="Filter settings" text=${text} onText=${(/** @type {string} */ value) => set({ text: value })} says="${whole(rows.length)} of ${counted(items.length, "setting")}"><label class="check"><input type="checkbox" checked=${!!all} onChange=${(/** @type {any} */ event) => set({ all: event.target.checked ? "1" : "" })} /> defaults, too</label><//>
    ${rows.length === 0 ? html`<${Empty} title=${text ? "No setting matches." : "Nothing is set but defaults."}><button type="button" onClick=${() => replaceQuery({ all: "1" })}>Show all settings</button><//>` : html`<${Rows} label="Settings" rows=${rows} head=${html`<th scope="col">Setting</th><th scope="col">Value</th><th scope="col" class="wide">From</th>`}>${(/** @type {Setting} */ row) => html`<tr key=${row.path}><td class="mono reason">${row.path.split(".").map((part, place) => html`${place ? html`.<wbr />` : ""}${part}`)}</td><td class="mono reason ${row.value === HIDDEN ? "dim" : ""}">${typeof row.value === "string" ? row.value : JSON.stringify(row.value)}</td><td class="wide dim">${row.is_default ? "default" : "the file"}</td></tr>`}<//>`}`;
}
