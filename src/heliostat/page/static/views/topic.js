// A topic and its partitions; one of them in full.
import { html } from "../html.js";
import { backToTopics } from "../navigation.js";
import { age, bytes, counted, lag, rate, span, UNKNOWN, whole } from "../pure/format.js";
import { lossAge, lossFigure } from "../pure/exposure.js";
import { question } from "../pure/explanation.js";
import { ofPart, ofTopic, ofWhy } from "../pure/route.js";
import { ownStanding, pausesOf } from "../pure/actions.js";
import { STOPPED } from "../pure/states.js";
import { ofApi, usePolled } from "../service.js";
import { Actions, Rests } from "./actions.js";
import { TopicCharts } from "./charts.js";
import { Levels } from "./levels.js";
import { Choices, sentence } from "./needs.js";
import { State, States, Time, Waiting } from "./parts.js";

/** @typedef {{source: string, partition: number, state: string, records_per_s: number, lag_records: number | null, lag_s: number | null, is_bound: boolean, position: number, source_end: number, target_end: number, is_mapped: boolean, lane: number, code: string, reason: string, since_ms: number, would_be_lost: import("../pure/exposure.js").Loss}} Partition */

/** An offset that may not be known. @param {number} value */
const offset = (value) => (value < 0 ? UNKNOWN : whole(value));

/** @param {{link: string, topic: string, partition?: number}} props */
export function TopicView({ link, topic, partition }) {
  const path = ofApi(link, `/topics/${encodeURIComponent(topic)}`);
  const answer = usePolled(path, 1_000);
  const parts = usePolled(path + "/partitions", 1_000);
  const { data: whole } = usePolled(ofApi(link), 1_000);
  const row = answer.data;
  /** @type {Partition[]} */
  const items = parts.data?.items ?? [];
  const chosen = items.find((each) => each.partition === partition);
  return html`<section aria-labelledby="topic-title">
    <p class="path"><a href=${backToTopics(link)}>Topics</a> <span class="dim" aria-hidden="true">/</span></p>
    <h2 id="topic-title" class="topic-title mono">${topic}${partition !== undefined && html`<span class="dim">-${partition}</span>`} <a class="why-link" href=${ofWhy(link, question(topic, partition))}>Why?</a></h2>
    ${row && html`<p class="topic-figures"><${States} states=${row.states} /><span class="dim">→ <span class="mono">${row.target}</span></span><span>${counted(row.partitions, "partition")}</span><span class="num">${rate(row.records_per_s)} rec/s</span><span class="num">${bytes(row.bytes_per_s)}/s</span><span class="num">lag ${lag(row.lag_records, row.unknown)}${row.lag_records ? `, ${age(row.lag_s, row.lag_records, row.unknown)}` : ""}</span><span class="num">would be lost ${lossFigure(row.would_be_lost)}</span><a class="under" href=${ofPart(link, "gaps", { text: topic })}>gaps</a></p>`}
    ${!row && html`<${Waiting} answer=${answer} what="the topic" />`}
    ${row && whole && (partition === undefined || chosen) && html`<${Steering} link=${whole} topic=${topic} states=${chosen ? { [chosen.state]: 1 } : row.states} partition=${partition} />`}
    ${chosen && html`<${Details} link=${link} row=${chosen} />`}
    ${partition !== undefined && parts.data && !chosen && html`<p class="tone-lag">There is no partition ${partition}.</p>`}
    ${items.length > 0 && html`<div class="card over"><${PartitionTable} link=${link} topic=${topic} items=${items} chosen=${partition} /></div>`}
    ${row && html`<${TopicCharts} link=${link} topic=${topic} of=${partition === undefined || row.partitions === 1 ? "" : "of all its partitions"} />`}
  </section>`;
}

const PAUSES_SHOWN = 5;

/** What can be changed of it, and by whom it was paused. @param {{link: any, topic: string, states: Record<string, number>, partition?: number}} props */
function Steering({ link, topic, states, partition }) {
  const pauses = pausesOf(link, topic, partition);
  const standing = ownStanding(link, states, pauses);
  const place = partition === undefined ? { kind: "topic", link: link.name, topic } : { kind: "partition", link: link.name, topic, partition };
  const isUntold = pauses.length === 0 && standing !== "running" && link.paused_count > link.paused.length;
  return html`<div class="steering">
    <${Actions} place=${place} standing=${standing} link=${link} label=${partition === undefined ? "this topic" : "this partition"} />
    ${pauses.slice(0, PAUSES_SHOWN).map((pause) => html`<${Rests} key=${pause.place} wish=${pause} what=${html`<span class="mono">${pause.place}</span>`} />`)}
    ${partition === undefined && html`<${Levels} link=${link} topic=${topic} />`}
    ${isUntold && html`<p class="dim">Who paused what is told of ${link.paused.length} places at most; ${link.paused_count} are paused by name.</p>`}
  </div>`;
}

/** @param {{link: string, topic: string, items: Partition[], chosen?: number}} props */
function PartitionTable({ link, topic, items, chosen }) {
  return html`<table class="table"><thead><tr><th scope="col">Partition</th><th scope="col">State</th><th scope="col" class="r">Records/s</th><th scope="col" class="r">Lag</th><th scope="col" class="r">Oldest</th><th scope="col" class="r wide">Position</th><th scope="col" class="r wide">Source end</th><th scope="col" class="r wide">Target end</th><th scope="col" class="wide">Offsets</th><th scope="col" class="r wide">Lane</th></tr></thead>
    <tbody>${items.map((row) => html`<tr key=${row.partition} class=${row.partition === chosen ? "active" : ""}>
      <td class="num"><a data-step href=${ofTopic(link, topic, row.partition)} aria-current=${row.partition === chosen ? "true" : undefined}>${row.partition}</a></td>
      <td><${State} state=${row.state} /></td>
      <td class="r num">${rate(row.records_per_s)}</td>
      <td class="r num">${lag(row.lag_records, row.is_bound ? 1 : 0)}</td>
      <td class="r num">${age(row.lag_s, row.lag_records, row.is_bound ? 1 : 0)}</td>
      <td class="r num wide">${offset(row.position)}</td><td class="r num wide">${offset(row.source_end)}</td><td class="r num wide">${offset(row.target_end)}</td>
      <td class="wide dim">${row.is_mapped ? "mapped" : "equal"}</td>
      <td class="r num wide">${row.lane < 0 ? "–" : row.lane}</td>
    </tr>`)}</tbody></table>`;
}

/** @param {{link: string, row: Partition}} props */
function Details({ link, row }) {
  const isStopped = STOPPED.has(row.state);
  return html`<div class="card detail">
    <p class="detail-state"><${State} state=${row.state} /> <span class="dim">${row.since_ms > 0 && html`since <${Time} ms=${row.since_ms} />, ${span(Math.max(0, (Date.now() - row.since_ms) / 1000))}`}</span></p>
    ${row.reason && html`<p>${sentence(row.reason)} ${row.code && html`<code class="dim">${row.code}</code>`}</p>`}
    <dl class="figures">
      <div><dt>Next source offset to copy</dt><dd class="num">${offset(row.position)}</dd></div>
      <div><dt>Source end</dt><dd class="num">${offset(row.source_end)}</dd></div>
      <div><dt>Missing</dt><dd class="num">${lag(row.lag_records, row.is_bound ? 1 : 0)} <small>${age(row.lag_s, row.lag_records, row.is_bound ? 1 : 0)}</small></dd></div>
      <div><dt>Would be lost</dt><dd class="num">${lossFigure(row.would_be_lost)} <small>${lossAge(row.would_be_lost)}</small></dd></div>
      <div><dt>Target end</dt><dd class="num">${offset(row.target_end)}</dd></div>
      <div><dt>Offsets</dt><dd>${row.is_mapped ? "mapped" : "equal"}</dd></div>
      <div><dt>Lane</dt><dd class="num">${row.lane < 0 ? "none" : row.lane}</dd></div>
    </dl>
    ${isStopped && html`<${Choices} link=${link} problem=${row} isOpen=${true} />`}
  </div>`;
}
