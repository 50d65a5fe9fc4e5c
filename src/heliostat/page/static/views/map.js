// All clusters and links in a picture, and whether all is well in a sentence.
import { useRef } from "preact/hooks";
import { html } from "../html.js";
import { exposureSentences } from "../pure/exposure.js";
import { age, bytesParts, lag, rate, span } from "../pure/format.js";
import { beatingFlows, lineWidth, mapLayout, SILENT_AFTER_S } from "../pure/map_layout.js";
import { ofLink } from "../pure/route.js";
import { mapSentence } from "../pure/sentence.js";
import { ofApi, usePolled } from "../service.js";
import { EventList, newestFirst } from "./events.js";
import { NewLink } from "./definition.js";
import { Pill } from "./link_head.js";
import { Command, Empty, Sparkline, useWidth, Waiting } from "./parts.js";

const WIDTH_MAX = 1_320;

/** @param {{answer: import("../service.js").Answer}} props */
export function MapView({ answer }) {
  if (!answer.data) return html`<${Waiting} answer=${answer} what="links" />`;
  const links = answer.data.items;
  if (links.length === 0) {
    return html`<${Empty} title="There are no links yet.">Name two clusters and a link in the configuration, then look at what it would do: <${Command} text="heliostat plan -c heliostat.yaml" /><${NewLink} /><//>`;
  }
  const said = mapSentence(links);
  return html`
    <div class="say-all"><h1 role="status"><span class="say-mark tone-${said.tone}" aria-hidden="true"></span>${said.text}</h1>${said.more.map((text) => html`<p class="dim" key=${text}>${text}</p>`)}</div>
    <${Picture} links=${links} />
    <ul class="link-cards">${links.map((/** @type {any} */ link) => html`<${LinkCard} key=${link.name} link=${link} />`)}</ul>
    <div class="new-link"><${NewLink} /></div>
    <${Lately} />
  `;
}

function Lately() {
  const answer = usePolled("events?limit=40", 2_000);
  const items = newestFirst(answer.data?.items ?? []).slice(0, 8);
  return items.length > 0 && html`<section class="card lately" aria-labelledby="lately-title"><h2 id="lately-title">Lately <a class="all" href="#/events">all events</a></h2><${EventList} items=${items} hasLink=${true} /></section>`;
}

/** @param {{links: any[]}} props */
function Picture({ links }) {
  const place = useRef(null);
  const width = useWidth(place);
  return html`<div class="card picture" ref=${place}>${width > 0 && html`<${Drawing} links=${links} width=${Math.min(width, WIDTH_MAX)} />`}</div>`;
}

/** @param {{links: any[], width: number}} props */
function Drawing({ links, width }) {
  const flows = beatingFlows(links);
  const { boxes, curves, height } = mapLayout([...links, ...flows], width);
  const words = [...links.map((link) => `${link.name}: from ${link.source} to ${link.target}, ${link.state}`), ...flows.map((flow) => `MirrorMaker 2 from ${flow.source} to ${flow.target}, ${beatText(flow)}`)].join("; ");
  return html`<svg width=${width} height=${height} viewBox="0 0 ${width} ${height}" role="group" aria-label="Clusters and links. ${words}">
    ${links.map((link) => html`<${Flow} key=${link.name} link=${link} curve=${curves.get(link.name)} />`)}
    ${flows.map((flow) => html`<${Beating} key=${flow.name} flow=${flow} curve=${curves.get(flow.name)} />`)}
    ${[...boxes].map(([name, box]) => html`<g key=${name} class="cluster"><rect x=${box.x} y=${box.y} width=${box.width} height=${box.height} rx="12" /><text x=${box.x + box.width / 2} y=${box.y + box.height / 2 + 5} text-anchor="middle">${name}</text></g>`)}
    ${links.map((link) => html`<${FlowLabel} key=${link.name} link=${link} curve=${curves.get(link.name)} room=${width} />`)}
    ${flows.map((flow) => html`<${BeatLabel} key=${flow.name} flow=${flow} curve=${curves.get(flow.name)} room=${width} />`)}
  </svg>`;
}

/** @typedef {import("../pure/map_layout.js").Beating} BeatingFlow */
/** @param {BeatingFlow} flow */
const beatText = (flow) => `heartbeat ${span(flow.ageS)} ago`;

/** A flow that is no link of ours. @param {{flow: BeatingFlow, curve: import("../pure/map_layout.js").Curve}} props */
function Beating({ flow, curve }) {
  const id = `beat-${flow.name.replace(/[^\w-]/g, "_")}`;
  return html`<g class="flow-line tone-${flow.ageS > SILENT_AFTER_S ? "unknown" : "quiet"} still">
    <marker id=${id} viewBox="0 0 10 10" refX="7" refY="5" markerWidth="14" markerHeight="14" markerUnits="userSpaceOnUse" orient="auto"><path d="M1 1L9 5L1 9z" /></marker>
    <path class="line" d=${curve.path} stroke-width="2" marker-end="url(#${id})" />
  </g>`;
}

/** @param {{flow: BeatingFlow, curve: import("../pure/map_layout.js").Curve, room: number}} props */
function BeatLabel({ flow, curve, room }) {
  const second = beatText(flow);
  const width = second.length * 6.4 + 28;
  const x = Math.min(room - width / 2 - 6, Math.max(width / 2 + 6, curve.x));
  return html`<g class="flow-label beat"><rect x=${x - width / 2} y=${curve.y - 21} width=${width} height="42" rx="9" /><text x=${x} y=${curve.y - 4} text-anchor="middle" class="name">MirrorMaker 2</text><text x=${x} y=${curve.y + 12} text-anchor="middle" class="figures">${second}</text></g>`;
}

/** @param {any} link */
const toneOf = (link) => (link.state !== "running" ? (link.state === "unreachable" ? "bad" : "unknown") : link.in_sync ? "ok" : link.stopped || link.refused ? "bad" : "lag");

/** @param {{link: any, curve: import("../pure/map_layout.js").Curve}} props */
function Flow({ link, curve }) {
  const tone = toneOf(link);
  const width = lineWidth(link.bytes_per_s);
  const moves = link.state === "running" && link.records_per_s > 0;
  return html`<g class="flow-line tone-${tone} ${link.state === "running" ? "" : "still"}">
    <marker id="end-${link.name}" viewBox="0 0 10 10" refX="7" refY="5" markerWidth="14" markerHeight="14" markerUnits="userSpaceOnUse" orient="auto"><path d="M1 1L9 5L1 9z" /></marker>
    <path class="line" d=${curve.path} stroke-width=${width} marker-end="url(#end-${link.name})" />
    ${moves && html`<path class="moving" d=${curve.path} stroke-width=${Math.max(2, width * 0.55)} />`}
  </g>`;
}

/** @param {{link: any, curve: import("../pure/map_layout.js").Curve, room: number}} props */
function FlowLabel({ link, curve, room }) {
  const [figure, unit] = bytesParts(link.bytes_per_s);
  const second = link.state === "running" ? `${rate(link.records_per_s)} rec/s · ${figure} ${unit}/s · lag ${lag(link.lag_records, link.unknown)}` : link.state;
  const width = Math.max(link.name.length * 7.6, second.length * 6.4) + 24;
  const x = Math.min(room - width / 2 - 6, Math.max(width / 2 + 6, curve.x));
  return html`<a href=${ofLink(link.name)} class="flow-label" data-step>
    <rect x=${x - width / 2} y=${curve.y - 21} width=${width} height="42" rx="9" />
    <text x=${x} y=${curve.y - 4} text-anchor="middle" class="name">${link.name}</text>
    <text x=${x} y=${curve.y + 12} text-anchor="middle" class="figures">${second}</text>
  </a>`;
}

/** @param {{link: any}} props */
function LinkCard({ link }) {
  const history = usePolled(ofApi(link.name, "/history?step=5"), 5_000).data;
  const [figure, unit] = bytesParts(link.bytes_per_s);
  return html`<li class="card link-card">
    <div class="link-card-head"><h2><a href=${ofLink(link.name)}>${link.name}</a></h2><${Pill} link=${link} /></div>
    <dl class="figures">
      <div><dt>Records/s</dt><dd class="num">${rate(link.records_per_s)}${history && html`<${Sparkline} values=${history.records_per_s} label="Records a second in the last 15 minutes" />`}</dd></div>
      <div><dt>Bytes/s</dt><dd class="num">${figure} <small>${unit}</small>${history && html`<${Sparkline} values=${history.bytes_per_s} label="Bytes a second in the last 15 minutes" />`}</dd></div>
      <div><dt>Records missing</dt><dd class="num">${lag(link.lag_records, link.unknown)}${history && html`<${Sparkline} values=${history.lag_records} tone="2" label="Records missing in the last 15 minutes" />`}</dd></div>
      <div><dt>The oldest</dt><dd class="num">${age(link.lag_s, link.lag_records, link.unknown)}${history && html`<${Sparkline} values=${history.lag_s} tone="2" label="Age of the oldest missing record in the last 15 minutes" />`}</dd></div>
    </dl>
    ${link.state !== "unreachable" && html`<p class="dim">${exposureSentences(link).join(" ")}</p>`}
    ${link.why_not_in_sync.length > 0 && html`<ul class="why dim">${link.why_not_in_sync.slice(0, 3).map((/** @type {string} */ text) => html`<li key=${text}>${text}</li>`)}${link.why_not_in_sync.length > 3 && html`<li>and ${link.why_not_in_sync.length - 3} more</li>`}</ul>`}
  </li>`;
}
