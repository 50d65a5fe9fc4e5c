// Topics: thousands of rows of which those in sight are drawn, filtered as one types.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { replaceQuery, route } from "../navigation.js";
import { age, bytes, lag, rate, whole } from "../pure/format.js";
import { ofTopic } from "../pure/route.js";
import { inSight, rowsWindow } from "../pure/rows_window.js";
import { filterOf, sorted } from "../pure/topic_filter.js";
import { TOPICS_MAX, topicsStanding } from "../pure/actions.js";
import { ofApi, usePolled } from "../service.js";
import { Actions } from "./actions.js";
import { Command, Empty, States, Waiting } from "./parts.js";

/** @typedef {import("../pure/topic_filter.js").Topic} Topic */
const FIRST = "problems";
const ROW_PX = 34;
const NARROW_ROW_PX = 58;
const NARROW = "(max-width: 640px)";
const URL_AFTER_MS = 250;
/** Columns: key of the order, title, class, whether the largest come first. */
const COLUMNS = /** @type {const} */ ([
  ["name", "Topic", "name", false],
  ["partitions", "Partitions", "r", true],
  ["rate", "Records/s", "r", true],
  ["bytes", "Bytes/s", "r", true],
  ["lag", "Lag", "r", true],
  ["age", "Oldest missing", "r", true],
  ["state", "State", "", true],
]);

/** @param {{link: string}} props */
export function Topics({ link }) {
  const answer = usePolled(ofApi(link, "/topics?sort=name&limit=5000"), 2_000, true);
  const steered = usePolled(ofApi(link), 1_000).data;
  const { filter = "", sort = FIRST, focus = "" } = route.value.query;
  const [text, setText] = useState(filter);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  useEffect(() => {
    if (filter !== text && document.activeElement !== field.current) setText(filter);
  }, [filter]);
  useEffect(() => {
    if (focus) field.current?.focus();
  }, []);
  useEffect(() => {
    const timer = setTimeout(() => {
      const query = route.peek().query;
      if ((query.filter ?? "") !== text || query.focus) replaceQuery({ ...query, filter: text, focus: "" });
    }, URL_AFTER_MS);
    return () => clearTimeout(timer);
  }, [text]);
  /** @type {Topic[]} */
  const all = answer.data?.items ?? [];
  const ordered = useMemo(() => sorted(all, sort), [answer.data, sort]);
  const { test, problem } = useMemo(() => filterOf(text), [text]);
  const rows = useMemo(() => ordered.filter(test), [ordered, test]);
  const choose = (/** @type {string} */ key) => replaceQuery({ ...route.peek().query, sort: key === FIRST ? "" : key });
  const press = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") {
      event.preventDefault();
      if (text) setText("");
      else field.current?.blur();
    } else if (event.key === "Enter" || event.key === "ArrowDown") {
      event.preventDefault();
      document.querySelector("[data-steps]")?.dispatchEvent(new CustomEvent("step", { detail: 0 }));
    }
  };
  return html`<section class="topics" aria-label="Topics">
    <div class="bar">
      <input data-filter ref=${field} type="search" class="filter" value=${text} placeholder="Filter   temperature  /ESS|GIS/  state:blocked  lag>10s" aria-label="Filter topics" aria-invalid=${problem ? "true" : undefined} aria-describedby="filter-says" onInput=${(/** @type {any} */ event) => setText(event.target.value)} onKeyDown=${press} spellcheck=${false} autocomplete="off" />
      <button type="button" class="wide" aria-pressed=${sort === FIRST} onClick=${() => choose(FIRST)}>Problems first</button>
      <span id="filter-says" class="end-of-bar ${problem ? "tone-bad" : "dim"}" role="status">${problem || (text ? `${whole(rows.length)} of ${whole(all.length)}` : `${whole(all.length)} topics`)}</span>
      <${ShownTopics} rows=${text && !problem && rows.length <= TOPICS_MAX ? rows : NONE} name=${link} link=${steered} />
    </div>
    ${!answer.data ? html`<${Waiting} answer=${answer} what="topics" />` : all.length === 0 ? html`<${NoTopics} />` : rows.length === 0 ? html`<${Empty} title="No topic matches."><button type="button" onClick=${() => setText("")}>Clear the filter</button><//>` : html`<${Rows} rows=${rows} link=${link} sort=${sort} choose=${choose} />`}
  </section>`;
}

/** @type {Topic[]} */
const NONE = [];

/** What can be changed of all topics that the filter leaves; it stands there without any, too: its dialog outlasts them. @param {{rows: Topic[], name: string, link: any}} props */
function ShownTopics({ rows, name, link }) {
  const topics = rows.map((row) => row.source);
  const standing = useMemo(() => (link && rows.length > 0 ? topicsStanding(link, rows) : null), [link, rows]);
  const label = rows.length === 1 ? "this topic" : `these ${whole(rows.length)} topics`;
  return html`<${Actions} place=${{ kind: "topics", link: name, topics }} standing=${standing} link=${link} label=${label} isNamed=${true} />`;
}

function NoTopics() {
  return html`<${Empty} title="No topic is mirrored yet.">Which topics of the source are selected, and why not: <${Command} text="heliostat topics -c heliostat.yaml" /><//>`;
}

/** @param {{rows: Topic[], link: string, sort: string, choose: (key: string) => void}} props */
function Rows({ rows, link, sort, choose }) {
  const scroller = useRef(/** @type {HTMLElement | null} */ (null));
  const [seen, setSeen] = useState({ top: 0, height: 600 });
  const [active, setActive] = useState(-1);
  const isMoving = useRef(false);
  const isNarrow = useNarrow();
  const rowPx = isNarrow ? NARROW_ROW_PX : ROW_PX;
  const most = useMemo(() => rows.reduce((top, row) => Math.max(top, row.records_per_s), 1), [rows]);
  const look = () => {
    const { scrollTop = 0, clientHeight = 600 } = scroller.current ?? {};
    setSeen((was) => (was.top === scrollTop && was.height === clientHeight ? was : { top: scrollTop, height: clientHeight }));
  };
  useLayoutEffect(() => {
    look();
    const observer = new ResizeObserver(look);
    observer.observe(/** @type {HTMLElement} */ (scroller.current));
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const element = /** @type {HTMLElement} */ (scroller.current);
    const step = (/** @type {any} */ event) => {
      isMoving.current = true;
      setActive((was) => Math.min(rows.length - 1, Math.max(0, was + event.detail)));
    };
    element.addEventListener("step", step);
    return () => element.removeEventListener("step", step);
  }, [rows.length]);
  useLayoutEffect(() => {
    if (!isMoving.current || active < 0) return;
    const element = /** @type {HTMLElement} */ (scroller.current);
    element.scrollTop = inSight(active, rowPx, element.scrollTop, element.clientHeight);
    look();
  }, [active]);
  const { first, end } = rowsWindow(rows.length, rowPx, seen.top, seen.height);
  useEffect(() => {
    if (!isMoving.current) return;
    const row = /** @type {HTMLElement | null | undefined} */ (scroller.current?.querySelector(`[data-row="${active}"] a`));
    if (row) {
      isMoving.current = false;
      row.focus({ preventScroll: true });
    }
  });
  return html`<div class="topic-grid" role="grid" aria-label="Topics" aria-rowcount=${rows.length + 1} aria-colcount=${COLUMNS.length}>
    <div class="scroller" data-steps ref=${scroller} onScroll=${look} role="rowgroup" tabindex="-1">
      <div class="topic-row topic-head" role="row" aria-rowindex="1">${COLUMNS.map(([key, title, kind, isDown]) => html`<${HeadCell} key=${key} name=${key} title=${title} kind=${kind} isDown=${isDown} sort=${sort} choose=${choose} />`)}</div>
      <div class="rows" role="presentation" style=${{ height: `${rows.length * rowPx}px` }}>
        <div role="presentation" style=${{ transform: `translateY(${first * rowPx}px)` }}>
          ${rows.slice(first, end).map((row, place) => html`<${Row} key=${row.source} row=${row} place=${first + place} link=${link} most=${most} isActive=${active === first + place} onFocus=${setActive} />`)}
        </div>
      </div>
    </div>
  </div>`;
}

/** @param {{name: string, title: string, kind: string, isDown: boolean, sort: string, choose: (key: string) => void}} props */
function HeadCell({ name, title, kind, isDown, sort, choose }) {
  const down = sort === "-" + name;
  const up = sort === name;
  const next = down ? name : up ? (isDown ? FIRST : "-" + name) : isDown ? "-" + name : name;
  return html`<div role="columnheader" class="cell cell-${name} ${kind}" aria-sort=${down ? "descending" : up ? "ascending" : "none"}><button type="button" class="sort" onClick=${() => choose(next)}>${title}<span aria-hidden="true" class="arrow">${down ? "↓" : up ? "↑" : ""}</span></button></div>`;
}

/** @param {{row: Topic, place: number, link: string, most: number, isActive: boolean, onFocus: (place: number) => void}} props */
function Row({ row, place, link, most, isActive, onFocus }) {
  const share = Math.round((row.records_per_s / most) * 50);
  const isLate = row.lag_records === null || row.lag_records > 0;
  return html`<div class="topic-row ${isActive ? "active" : ""}" role="row" aria-rowindex=${place + 2} data-row=${place} onClick=${(/** @type {any} */ event) => event.target.closest("a") || (location.hash = ofTopic(link, row.source))}>
    <div role="gridcell" class="cell cell-name name mono"><a href=${ofTopic(link, row.source)} title=${row.source} onFocus=${() => onFocus(place)}>${row.source}</a>${row.target !== row.source && html`<span class="dim"> → ${row.target}</span>`}</div>
    <div role="gridcell" class="cell cell-partitions r num">${row.partitions}</div>
    <div role="gridcell" class="cell cell-rate r num"><span class="rate-bar" aria-hidden="true" style=${{ width: `${share}%` }}></span><span class=${row.records_per_s > 0 ? "" : "dim"}>${rate(row.records_per_s)}</span></div>
    <div role="gridcell" class="cell cell-bytes r num ${row.bytes_per_s > 0 ? "" : "dim"}">${bytes(row.bytes_per_s)}</div>
    <div role="gridcell" class="cell cell-lag r num ${isLate ? "" : "dim"}">${lag(row.lag_records, row.unknown)}</div>
    <div role="gridcell" class="cell cell-age r num ${isLate ? "" : "dim"}">${age(row.lag_s, row.lag_records, row.unknown)}</div>
    <div role="gridcell" class="cell cell-state"><${States} states=${row.states} /></div>
  </div>`;
}

function useNarrow() {
  const [is, set] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const query = matchMedia(NARROW);
    const change = () => set(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  return is;
}

