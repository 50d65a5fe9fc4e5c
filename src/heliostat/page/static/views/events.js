// What has happened lately.
import { html } from "../html.js";
import { useEvents } from "../live_events.js";
import { replaceQuery, route } from "../navigation.js";
import { whole } from "../pure/format.js";
import { ofLink } from "../pure/route.js";
import { Empty, Time, Trouble, Waiting } from "./parts.js";

/** @typedef {{id: number, at_ms: number, level: string, link: string, text: string}} Event */
const SHOWN = 500;

/** Events, the newest first. @param {Event[]} items */
export const newestFirst = (items) => [...items].sort((a, b) => b.at_ms - a.at_ms || b.id - a.id);

/** @param {{link: string}} props */
export function Events({ link }) {
  const { items: all, problem, isLive } = useEvents(link);
  const { warnings = "", text = "" } = route.value.query;
  if (!all) return html`<${Waiting} answer=${{ data: null, problem, at: 0 }} what="events" />`;
  const part = text.toLowerCase();
  const items = newestFirst(all.filter((event) => (!warnings || event.level !== "INFO") && (!part || event.text.toLowerCase().includes(part) || event.link.includes(part))));
  const set = (/** @type {Record<string, string>} */ changed) => replaceQuery({ warnings, text, ...changed });
  return html`<section aria-labelledby="events-title">
    <div class="bar">
      <h1 id="events-title" class=${link ? "hidden" : ""}>Events</h1>
      <input data-filter type="search" class="filter" placeholder="Filter   /" aria-label="Filter events" value=${text} onInput=${(/** @type {any} */ event) => set({ text: event.target.value })} />
      <label class="check"><input type="checkbox" checked=${!!warnings} onChange=${(/** @type {any} */ event) => set({ warnings: event.target.checked ? "1" : "" })} /> warnings only</label>
      <span class="end-of-bar"><${Live} is=${isLive} /><span class="dim num"> · ${whole(items.length)} of ${whole(all.length)}</span></span>
    </div>
    ${problem && html`<${Trouble} problem=${problem} />`}
    ${items.length === 0 ? html`<${Empty} title=${all.length ? "No event matches." : "Nothing has happened since the service was started."}>${all.length ? "Change the filter." : "Events are kept while the service runs."}<//>` : html`<div class="card"><${EventList} items=${items.slice(0, SHOWN)} hasLink=${!link} />${items.length > SHOWN && html`<p class="more dim">The newest ${SHOWN} are shown.</p>`}</div>`}
  </section>`;
}

/** @param {{is: boolean}} props */
function Live({ is }) {
  const title = is ? "Each event is shown as it happens" : "Asked for every 2 s";
  return html`<span class="state ${is ? "tone-ok" : "tone-quiet"}" title=${title}><span class="glyph" aria-hidden="true">${is ? "●" : "◌"}</span>${is ? "live" : "every 2 s"}</span>`;
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

