// The field: every partition is a mirror, bright where records cross, coloured where they don't.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { brightness, fieldLayout, tileAfter, tileAt } from "../pure/field_layout.js";
import { age, lag, rate, whole } from "../pure/format.js";
import { ofTopic } from "../pure/route.js";
import { tileTone } from "../pure/states.js";
import { colour, colours } from "../theme_switch.js";
import { State, useWidth } from "./parts.js";

/** @typedef {[number, number, number, number, number | null, number | null, number]} Row topic, partition, state, records/s, lag, lag in s, position */
/** @typedef {{states: string[], topics: string[], rows: Row[], as_of_ms: number}} Field */
/** @typedef {{tone: import("../pure/states.js").Tone, level: number}} Tile */

const LEGEND = /** @type {const} */ ([
  ["quiet", "quiet, level"],
  ["ok", "records cross"],
  ["lag", "behind by more than 10 s"],
  ["wait", "waits, retries, is paused"],
  ["unknown", "not known"],
  ["bad", "stopped"],
]);
const HEIGHT = 318;

/** @param {{field: Field, link: string}} props */
export function FieldView({ field, link }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const canvas = useRef(/** @type {HTMLCanvasElement | null} */ (null));
  const width = useWidth(place);
  const [pointed, setPointed] = useState(-1);
  const count = field.rows.length;
  const layout = useMemo(() => fieldLayout(count, width, HEIGHT), [count, width]);
  const tiles = useMemo(() => field.rows.map((row) => tileOf(field, row)), [field]);
  const turn = colours.value;
  const palette = useMemo(paletteNow, [turn]);
  useEffect(() => {
    if (canvas.current && width > 0) draw(canvas.current, tiles, layout, width, palette, pointed);
  }, [tiles, layout, width, palette, pointed]);
  const open = (/** @type {number} */ tile) => {
    const row = field.rows[tile];
    if (row) location.hash = ofTopic(link, field.topics[row[0]], row[1]);
  };
  const tileOfEvent = (/** @type {MouseEvent} */ event) => {
    const box = /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect();
    return tileAt(layout, count, event.clientX - box.left, event.clientY - box.top);
  };
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && pointed >= 0) return open(pointed);
    const to = tileAfter(event.key, Math.max(0, pointed), layout.columns, count);
    if (to < 0) return;
    event.preventDefault();
    setPointed(pointed < 0 ? 0 : to);
  };
  const height = Math.ceil(layout.rows * layout.size);
  return html`<div class="field">
    <div class="tiles" ref=${place} style=${{ height: `${height}px` }}>
      <canvas ref=${canvas} tabindex="0" role="application" aria-label="Field of partitions: ${spoken(tiles)}. Arrow keys move, Enter opens." aria-describedby="field-tile" style=${{ width: `${width}px`, height: `${height}px`, cursor: pointed >= 0 ? "pointer" : "default" }}
        onMouseMove=${(/** @type {MouseEvent} */ event) => setPointed(tileOfEvent(event))} onMouseLeave=${() => setPointed(-1)} onClick=${(/** @type {MouseEvent} */ event) => open(tileOfEvent(event))} onKeyDown=${press} onBlur=${() => setPointed(-1)}></canvas>
      ${pointed >= 0 && field.rows[pointed] && html`<${Tip} field=${field} row=${field.rows[pointed]} tile=${pointed} layout=${layout} width=${width} />`}
    </div>
    <${Legend} tiles=${tiles} />
  </div>`;
}

/** @param {{tiles: Tile[]}} props */
function Legend({ tiles }) {
  const counts = countsOf(tiles);
  return html`<ul class="legend">${LEGEND.filter(([tone]) => counts[tone] || tone === "quiet" || tone === "ok").map(([tone, word]) => html`<li key=${tone}><i class="swatch swatch-${tone}" aria-hidden="true"></i>${word} <span class="num">${whole(counts[tone] ?? 0)}</span></li>`)}</ul>`;
}

/** @param {{field: Field, row: Row, tile: number, layout: {size: number, columns: number}, width: number}} props */
function Tip({ field, row, tile, layout, width }) {
  const [topic, partition, state, perS, missing, s] = row;
  const x = (tile % layout.columns) * layout.size;
  const y = Math.floor(tile / layout.columns) * layout.size;
  const isRight = x > width / 2;
  const style = { top: `${y + layout.size + 6}px`, [isRight ? "right" : "left"]: `${isRight ? Math.max(0, width - x - layout.size) : x}px` };
  return html`<div class="tip" id="field-tile" role="status" style=${style}><b class="mono">${field.topics[topic]}<span class="dim">-${partition}</span></b><span><${State} state=${field.states[state]} /> · ${rate(perS)} rec/s · lag ${lag(missing)}${missing ? ` · ${age(s, missing)}` : ""}</span></div>`;
}

/** @param {Field} field @param {Row} row @returns {Tile} */
function tileOf(field, [, , state, perS, missing, s]) {
  return { tone: tileTone(field.states[state], missing, s, perS), level: brightness(perS) };
}

/** @param {Tile[]} tiles */
function countsOf(tiles) {
  /** @type {Record<string, number>} */
  const counts = {};
  for (const { tone } of tiles) counts[tone] = (counts[tone] ?? 0) + 1;
  return counts;
}

/** @param {Tile[]} tiles */
function spoken(tiles) {
  const counts = countsOf(tiles);
  return LEGEND.filter(([tone]) => counts[tone]).map(([tone, word]) => `${whole(counts[tone])} ${word}`).join(", ");
}

/** @typedef {{fixed: Record<string, string>, glow: string[], mark: string, edge: string}} Palette */
const STEPS = 16;

/** @returns {Palette} */
function paletteNow() {
  const [quiet, sun] = ["--tile", "--tile-sun"].map((name) => (colour(name).match(/[\d.]+/g) ?? []).slice(0, 3).map(Number));
  const glow = Array.from({ length: STEPS + 1 }, (_, step) => `rgb(${quiet.map((from, part) => Math.round(from + ((sun[part] - from) * step) / STEPS)).join(",")})`);
  const fixed = { lag: colour("--tile-lag"), bad: colour("--bad"), wait: colour("--wait"), unknown: colour("--dim") };
  return { fixed, glow, mark: colour("--panel"), edge: colour("--text") };
}

/** @param {HTMLCanvasElement} canvas @param {Tile[]} tiles @param {{size: number, columns: number, rows: number}} layout @param {number} width @param {Palette} palette @param {number} pointed */
function draw(canvas, tiles, { size, columns, rows }, width, palette, pointed) {
  const density = devicePixelRatio || 1;
  const height = Math.ceil(rows * size);
  if (canvas.width !== Math.round(width * density) || canvas.height !== Math.round(height * density)) {
    canvas.width = Math.round(width * density);
    canvas.height = Math.round(height * density);
  }
  const context = canvas.getContext("2d");
  if (!context) return;
  context.setTransform(density, 0, 0, density, 0, 0);
  context.clearRect(0, 0, width, height);
  const gap = size > 5 ? Math.max(1, size * 0.14) : 0.5;
  const side = size - gap;
  tiles.forEach(({ tone, level }, place) => {
    const [x, y] = [(place % columns) * size, Math.floor(place / columns) * size];
    context.fillStyle = palette.fixed[tone] ?? palette.glow[Math.round(level * STEPS)];
    context.beginPath();
    context.roundRect(x, y, side, side, Math.min(3, side * 0.22));
    context.fill();
    if (tone === "bad" || tone === "unknown") mark(context, tone, x, y, side, palette);
  });
  if (pointed < 0) return;
  context.strokeStyle = palette.edge;
  context.lineWidth = 1.5;
  context.strokeRect((pointed % columns) * size - gap / 2, Math.floor(pointed / columns) * size - gap / 2, size, size);
}

/** What is not told by colour alone: a cross where it is stopped, hollow where it is not known. @param {CanvasRenderingContext2D} context @param {"bad" | "unknown"} tone @param {number} x @param {number} y @param {number} side @param {Palette} palette */
function mark(context, tone, x, y, side, palette) {
  if (tone === "unknown") {
    context.fillStyle = palette.mark;
    const edge = Math.max(1, side * 0.16);
    context.fillRect(x + edge, y + edge, side - 2 * edge, side - 2 * edge);
    return;
  }
  context.strokeStyle = palette.mark;
  context.lineWidth = Math.max(1, side * 0.14);
  context.beginPath();
  for (const [from, to] of [[0.28, 0.72], [0.72, 0.28]]) {
    context.moveTo(x + side * from, y + side * 0.28);
    context.lineTo(x + side * to, y + side * 0.72);
  }
  context.stroke();
}

