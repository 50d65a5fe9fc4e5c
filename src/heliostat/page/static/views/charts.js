// Four charts with one cursor over all.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { html } from "../html.js";
import { replaceQuery, route } from "../navigation.js";
import { bytes, bytesParts, clock, latencyParts, rate, span, UNKNOWN, whole } from "../pure/format.js";
import { ofApi, usePolled } from "../service.js";
import { colour, colours } from "../theme_switch.js";
import { useWidth } from "./parts.js";

/** @typedef {{step_s: number, at_ms: number[], records_per_s: number[], bytes_per_s: number[], lag_records: (number | null)[], lag_s: (number | null)[], latency_p50_ms: (number | null)[], latency_p99_ms: (number | null)[], state: string[], topic?: string}} History */

const RANGES = /** @type {const} */ ([
  ["15m", "15 min", 900, 5],
  ["6h", "6 h", 21_600, 60],
  ["24h", "24 h", 86_400, 60],
]);
const TOPIC_RANGES = /** @type {const} */ ([
  ["6h", "6 h", 21_600],
  ["24h", "24 h", 86_400],
]);
const HEIGHT = 112;
const NARROW_PX = 240;
const SYNC = "link";
/** Place of the point below the cursor; -1: none. */
const cursor = signal(-1);

/** @param {{name: string, link: any}} props */
export function Charts({ name, link }) {
  const chosen = RANGES.find(([key]) => key === route.value.query.range) ?? RANGES[0];
  const [range, , seconds, step] = chosen;
  const answer = usePolled(ofApi(name, `/history?step=${step}`), step === 5 ? 2_500 : 15_000);
  /** @type {History | null} */
  const history = answer.data ? within(answer.data, seconds) : null;
  const at = history && cursor.value >= 0 && cursor.value < history.at_ms.length ? cursor.value : -1;
  const shown = at >= 0 && history ? pointOf(history, at) : link;
  const [size, unit] = bytesParts(shown.bytes_per_s);
  const [slow, slowUnit] = latencyParts(shown.latency_p99_ms);
  const [usual, usualUnit] = latencyParts(shown.latency_p50_ms);
  const lag = shown.lag_records === 0 ? "0" : shown.lag_s === null ? UNKNOWN : (shown.unknown ? "≥ " : "") + span(shown.lag_s);
  const frame = { history, seconds, range };
  const missing = shown.lag_records === null ? "not known" : `${shown.unknown ? "≥ " : ""}${whole(shown.lag_records)} rec`;
  return html`<section aria-label="Charts">
    <div class="bar chart-bar">
      <div class="choice" role="group" aria-label="Time shown">${RANGES.map(([key, word]) => html`<button key=${key} type="button" aria-pressed=${key === range} onClick=${() => replaceQuery({ ...route.peek().query, range: key === "15m" ? "" : key })}>${word}</button>`)}</div>
      <span class="dim num" role="presentation">${at >= 0 && history ? clock(history.at_ms[at]) : "now"}</span>
      ${answer.problem && html`<span class="dim">There is no history yet.</span>`}
    </div>
    <div class="grid charts">
      <${Chart} title="Records a second" ...${frame} series=${[["records_per_s", "--line-1"]]} format=${rate}><span class="big">${rate(shown.records_per_s)} <small>/s</small></span><//>
      <${Chart} title="Bytes a second" ...${frame} series=${[["bytes_per_s", "--line-1"]]} format=${bytes}><span class="big">${size} <small>${unit}/s</small></span><//>
      <${Chart} title="Oldest missing at ${link.target}" ...${frame} series=${[["lag_s", "--line-2"]]} format=${span}><span class="big">${lag} <small>${missing}</small></span><//>
      <${Chart} title="Latency, p99 and p50" ...${frame} series=${[["latency_p99_ms", "--line-4"], ["latency_p50_ms", "--line-3"]]} format=${(/** @type {number} */ ms) => latencyParts(ms).join(" ")}><span class="big">${slow} <small>${slowUnit} · p50 ${usual} ${usualUnit}</small></span><//>
    </div>
  </section>`;
}

/** What a topic was like: each minute while it was busy or late, else each ten. @param {{link: string, topic: string, of: string}} props `of`: what they are of, where that is not plain */
export function TopicCharts({ link, topic, of }) {
  const chosen = TOPIC_RANGES.find(([key]) => key === route.value.query.range) ?? TOPIC_RANGES[0];
  const [range, , seconds] = chosen;
  const answer = usePolled(ofApi(link, `/topics/${encodeURIComponent(topic)}/history?since_s=${seconds}`), 60_000);
  /** @type {History | null} */
  const history = answer.data ?? null;
  const frame = { history, seconds, range };
  return html`<section aria-label="Charts">
    <div class="bar chart-bar">
      <div class="choice" role="group" aria-label="Time shown">${TOPIC_RANGES.map(([key, word]) => html`<button key=${key} type="button" aria-pressed=${key === range} onClick=${() => replaceQuery({ ...route.peek().query, range: key === TOPIC_RANGES[0][0] ? "" : key })}>${word}</button>`)}</div>
      ${of && html`<span class="dim">${of}</span>`}
      ${(answer.problem || history?.at_ms.length === 0) && html`<span class="dim">There is no history yet.</span>`}
    </div>
    <div class="grid charts">
      <${Chart} title="Records a second" ...${frame} series=${[["records_per_s", "--line-1"]]} format=${rate} />
      <${Chart} title="Bytes a second" ...${frame} series=${[["bytes_per_s", "--line-1"]]} format=${bytes} />
      <${Chart} title="Oldest missing record" ...${frame} series=${[["lag_s", "--line-2"]]} format=${span} />
      <${Chart} title="Latency, p99 and p50" ...${frame} series=${[["latency_p99_ms", "--line-4"], ["latency_p50_ms", "--line-3"]]} format=${(/** @type {number} */ ms) => latencyParts(ms).join(" ")} />
    </div>
  </section>`;
}

/** @param {History} history @param {number} seconds @returns {History} */
function within(history, seconds) {
  const ended = history.at_ms[history.at_ms.length - 1] ?? 0;
  const first = history.at_ms.findIndex((ms) => ms >= ended - seconds * 1000);
  if (first <= 0) return history;
  return /** @type {any} */ (Object.fromEntries(Object.entries(history).map(([key, column]) => [key, Array.isArray(column) ? column.slice(first) : column])));
}

/** @param {History} history @param {number} at */
function pointOf(history, at) {
  return /** @type {any} */ (Object.fromEntries(Object.entries(history).filter(([, column]) => Array.isArray(column)).map(([key, column]) => [key, /** @type {any[]} */ (column)[at]])));
}

/**
 * @param {{title: string, history: History | null, seconds: number, range: string, series: [keyof History, string][], format: (value: number) => string, children?: any}} props
 */
function Chart({ title, history, seconds, range, series, format, children }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const plot = useRef(/** @type {any} */ (null));
  const width = useWidth(place);
  const turn = colours.value;
  const last = useRef(history);
  last.current = history;
  useEffect(() => {
    if (width < 60 || !place.current) return;
    const made = new uPlot(optionsOf(width, series, format, () => last.current), columnsOf(last.current, series), place.current);
    plot.current = made;
    return () => {
      made.destroy();
      plot.current = null;
    };
  }, [width, turn, range]);
  useEffect(() => {
    const made = plot.current;
    if (!made || !history) return;
    made.batch(() => {
      made.setData(columnsOf(history, series), false);
      const end = (history.at_ms[history.at_ms.length - 1] ?? Date.now()) / 1000;
      made.setScale("x", { min: end - seconds, max: end });
    });
  }, [history, width, turn, range]);
  const label = history ? `${title}: the last ${span(seconds)}` : `${title}: no history yet`;
  return html`<div class="card chart"><h2>${title}</h2>${children}<div class="plot" role="img" aria-label=${label} ref=${place}></div></div>`;
}

/** @param {History | null} history @param {[keyof History, string][]} series */
function columnsOf(history, series) {
  if (!history) return [[], ...series.map(() => [])];
  return [history.at_ms.map((ms) => ms / 1000), ...series.map(([key]) => history[key])];
}

/** @param {number} width @param {[keyof History, string][]} series @param {(value: number) => string} format @param {() => History | null} historyNow */
function optionsOf(width, series, format, historyNow) {
  const grid = { stroke: colour("--line"), width: 1 };
  const isNarrow = width < NARROW_PX;
  const axis = { stroke: colour("--dim"), grid, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  return {
    width,
    height: isNarrow ? HEIGHT * 0.75 : HEIGHT,
    legend: { show: false },
    padding: [8, 16, 0, 0],
    cursor: { sync: { key: SYNC }, drag: { x: false, y: false }, points: { size: 6 }, y: false },
    scales: { x: { time: true }, y: { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ most) => [0, (most || 1) * 1.12] } },
    axes: [
      { ...axis, size: 22, gap: 2, space: isNarrow ? 44 : 64, grid: { show: false }, values: timesOf },
      { ...axis, size: isNarrow ? 46 : 54, gap: 4, space: 30, values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map((value) => (value === 0 ? "0" : format(value))) },
    ],
    series: [{}, ...series.map(([key, name], place) => ({ label: key, stroke: colour(name), width: 1.6, fill: place === 0 ? faded(colour(name)) : undefined, points: { show: false }, spanGaps: false }))],
    hooks: {
      setCursor: [(/** @type {any} */ plot) => (cursor.value = plot.cursor.idx ?? -1)],
      drawClear: [(/** @type {any} */ plot) => drawStops(plot, historyNow())],
    },
  };
}

/** Times below a chart; none that would touch the axis at its left. @param {any} plot @param {number[]} at */
function timesOf(plot, at) {
  const { min, max } = plot.scales.x;
  return at.map((s) => (s - min < (max - min) * 0.08 ? "" : clock(s * 1000, s * 1000).slice(0, 5)));
}

/** @param {string} rgb */
const faded = (rgb) => rgb.replace(/^rgb\((.*)\)$/, "rgba($1, 0.13)");

/** @param {string} state */
const isNotRunning = (state) => state !== "running";
/** @param {string} state */
const isUnknown = (state) => state === "unknown";

/** Shades the time in which the link did not run. @param {any} plot @param {History | null} history */
function drawStops(plot, history) {
  if (!history) return;
  const isBad = history.topic ? isUnknown : isNotRunning;
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.fillStyle = faded(colour("--bad"));
  const half = (history.step_s ?? 5) / 2;
  history.state.forEach((state, place) => {
    if (!isBad(state)) return;
    const s = history.at_ms[place] / 1000;
    const from = Math.max(bbox.left, plot.valToPos(s - half, "x", true));
    const to = Math.min(bbox.left + bbox.width, plot.valToPos(s + half, "x", true));
    if (to > from) ctx.fillRect(from, bbox.top, to - from, bbox.height);
  });
  ctx.restore();
}
