// What has happened lately.
import { html } from "../html.js";
import { replaceQuery, route } from "../navigation.js";
import { ofLink } from "../pure/route.js";
import { usePolled } from "../service.js";
import { Empty, Time, Waiting } from "./parts.js";

/** @typedef {{id: number, at_ms: number, level: string, link: string, text: string}} Event */
const SHOWN = 500;

/** Events, the newest first. @param {Event[]} items */
export const newestFirst = (items) => [...items].sort((a, b) => b.at_ms - a.at_ms || b.id - a.id);

/** @param {{link: string}} props */
export function Events({ link }) {
  const answer = usePolled(`events?limit=${SHOWN}` + (link ? `&link=${encodeURIComponent(link)}` : ""), 2_000);
  const { warnings = "", text = "" } = route.value.query;
  if (!answer.data) return html`<${Waiting} answer=${answer} what="events" />`;
  /** @type {Event[]} */
  const all = answer.data.items;
  const part = text.toLowerCase();
  const items = newestFirst(all.filter((event) => (!warnings || event.level !== "INFO") && (!part || event.text.toLowerCase().includes(part) || event.link.includes(part))));
  const set = (/** @type {Record<string, string>} */ changed) => replaceQuery({ warnings, text, ...changed });
  return html`<section aria-labelledby="events-title">
    <div class="bar">
      <h1 id="events-title" class=${link ? "hidden" : ""}>Events</h1>
      <input data-filter type="search" class="filter" placeholder="Filter   /" aria-label="Filter events" value=${text} onInput=${(/** @type {any} */ event) => set({ text: event.target.value })} />
      <label class="check"><input type="checkbox" checked=${!!warnings} onChange=${(/** @type {any} */ event) => set({ warnings: event.target.checked ? "1" : "" })} /> warnings only</label>
      <span class="dim end-of-bar">${items.length} of ${all.length}</span>
    </div>
    ${items.length === 0 ? html`<${Empty} title=${all.length ? "No event matches." : "Nothing has happened since the service was started."}>${all.length ? "Change the filter." : "Events are kept while the service runs."}<//>` : html`<div class="card"><${EventList} items=${items} hasLink=${!link} /></div>`}
  </section>`;
}

/** @param {{items: Event[], hasLink: boolean}} props */
export function EventList({ items, hasLink }) {
  let day = "";
  return html`<ol class="events">${items.map((event) => {
    const its = new Date(event.at_ms).toDateString();
    const isNewDay = its !== day && its !== new Date().toDateString();
    day = its;
    return html`<li key=${event.id} class=${isNewDay ? "new-day" : ""}>
      <span class="when dim"><${Time} ms=${event.at_ms} /></span>
      <span class="level tone-${event.level === "INFO" ? "quiet" : "lag"}" title=${event.level}><span aria-hidden="true">${event.level === "INFO" ? "·" : "▲"}</span><span class="hidden">${event.level}</span></span>
      <span class="text">${hasLink && event.link && html`<a href=${ofLink(event.link)}>${event.link}</a>${" "}`}${event.text}</span>
    </li>`;
  })}</ol>`;
}

