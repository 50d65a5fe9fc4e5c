// The name of a link, whether it runs, and its views.
import { html } from "../html.js";
import { route } from "../navigation.js";
import { counted, whole } from "../pure/format.js";
import { ofLink, ofPart, ofTopics } from "../pure/route.js";
import { ofApi, usePolled } from "../service.js";
import { linkStanding } from "../pure/actions.js";
import { wishWaits } from "../pure/sentence.js";
import { Actions, Rests } from "./actions.js";
import { State, useCurrentInSight } from "./parts.js";

/** Views that stand below one of a tab. @type {Record<string, string>} */
const ABOVE = { topic: "topics", group: "groups", letter: "dead-letters" };

/** @param {{name: string, summary: any}} props */
export function LinkHead({ name, summary }) {
  const { data } = usePolled(ofApi(name), 1_000);
  const shown = data && summary ? { ...summary, ...data } : summary; // the summary knows how many topics
  const { view } = route.value;
  const nav = useCurrentInSight(view);
  const owner = data?.owner?.host;
  const waits = shown ? wishWaits(shown) : "";
  const tabs = [
    ["link", "Overview", ofLink(name), ""],
    ["topics", "Topics", ofTopics(name), shown ? whole(shown.topics) : ""],
    ["groups", "Groups", ofPart(name, "groups"), ""],
    ["gaps", "Gaps", ofPart(name, "gaps"), ""],
    ["dead-letters", "Dead letters", ofPart(name, "dead-letters"), ""],
    ["schemas", "Schemas", ofPart(name, "schemas"), ""],
    ["rights", "Rights", ofPart(name, "rights"), ""],
    ["plan", "Plan", ofPart(name, "plan"), ""],
    ["lanes", "Lanes", ofPart(name, "lanes"), data ? whole(data.lanes.length) : ""],
    ["events", "Events", ofPart(name, "events"), ""],
    ["verify", "Verify", ofPart(name, "verify"), ""],
    ["failover", "Fail over", ofPart(name, "failover"), ""],
    ["configuration", "Configuration", ofPart(name, "configuration"), ""],
    ["why", "Why?", ofPart(name, "why"), ""],
  ];
  return html`<div class="link-head">
    <h1>${name}</h1>
    ${shown && html`<${Pill} link=${shown} />`}
    ${shown && html`<${Actions} place=${{ kind: "link", link: name }} standing=${linkStanding(shown)} link=${shown} label="the link" />`}
    ${shown && html`<p class="flow dim">${shown.source} → ${shown.target} · ${counted(shown.topics, "topic")} · ${counted(shown.partitions, "partition")}${data ? ` · ${counted(data.lanes.length, "lane")}` : ""}${owner ? ` · owner ${owner}` : ""}</p>`}
    ${shown?.wish && html`<${Rests} wish=${shown.wish} />`}
    ${waits && html`<p class="dim">${waits}</p>`}
    <nav class="tabs" ref=${nav} aria-label="Views of ${name}">${tabs.map(([key, word, href, count]) => html`<a key=${key} href=${href} aria-current=${(ABOVE[view] ?? view) === key ? "page" : undefined}>${word}${count && html` <span class="dim num">${count}</span>`}</a>`)}</nav>
  </div>`;
}

/** @param {{link: any}} props */
export function Pill({ link }) {
  if (link.state !== "running") return html`<span class="pill"><${State} state=${link.state} /></span>`;
  if (link.in_sync) return html`<span class="pill tone-ok"><span aria-hidden="true">●</span> in sync</span>`;
  if (link.stopped) return html`<span class="pill tone-bad"><span aria-hidden="true">■</span> needs you</span>`;
  return html`<span class="pill tone-lag"><span aria-hidden="true">◐</span> not level</span>`;
}
