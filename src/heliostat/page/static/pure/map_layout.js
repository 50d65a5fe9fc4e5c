// Where clusters and links stand in the picture.

/** @typedef {{name: string, source: string, target: string}} Edge */
/** @typedef {{x: number, y: number, width: number, height: number}} Box */
/** @typedef {{path: string, x: number, y: number}} Curve the line, and where its label stands */

const NODE = { width: 168, height: 64 };
const NARROW = 620;
const LABEL = 52;
/** Room between two columns, in which a label has its place. */
const BETWEEN = 280;

/**
 * Clusters in columns from sources to targets (rows where it is narrow), links as curves between them.
 * @param {Edge[]} links
 * @param {number} width
 */
export function mapLayout(links, width) {
  const columns = columnsOf(links);
  const upright = width < Math.max(NARROW, columns.length * NODE.width + (columns.length - 1) * BETWEEN);
  const deep = Math.max(...columns.map((names) => names.length), 1);
  const between = Math.max(1, ...[...pairsOf(links).values()].map((each) => each.length));
  const across = NODE.height + Math.max(36, between * 56);
  const height = upright ? columns.length * NODE.height + (columns.length - 1) * Math.max(120, between * LABEL + 64) + 24 : deep * across + 40;
  /** @type {Map<string, Box>} */
  const boxes = new Map();
  columns.forEach((names, column) => {
    names.forEach((name, row) => {
      const along = columns.length === 1 ? 0.5 : column / (columns.length - 1);
      const beside = (row + 0.5) / names.length;
      const nodeWidth = upright ? Math.min(NODE.width, width / names.length - 16) : NODE.width;
      boxes.set(name, {
        x: upright ? beside * width - nodeWidth / 2 : 8 + along * (width - NODE.width - 16),
        y: upright ? 12 + along * (height - NODE.height - 24) : beside * height - NODE.height / 2,
        width: nodeWidth,
        height: NODE.height,
      });
    });
  });
  return { boxes, curves: curvesOf(links, boxes, upright), width, height };
}

/** @param {Edge[]} links */
function columnsOf(links) {
  /** @type {Map<string, number>} */
  const column = new Map();
  for (const { source, target } of links) {
    if (!column.has(source)) column.set(source, (column.get(target) ?? 1) - 1);
    if (!column.has(target)) column.set(target, /** @type {number} */ (column.get(source)) + 1);
  }
  const first = Math.min(...column.values());
  /** @type {string[][]} */
  const columns = [];
  for (const [name, place] of column) (columns[place - first] ??= []).push(name);
  return columns.filter(Boolean);
}

/** Links by the pair of clusters between which they run. @param {Edge[]} links */
function pairsOf(links) {
  /** @type {Map<string, Edge[]>} */
  const pairs = new Map();
  for (const link of links) {
    const key = [link.source, link.target].sort().join("\n");
    pairs.set(key, [...(pairs.get(key) ?? []), link]);
  }
  return pairs;
}

/** @param {Edge[]} links @param {Map<string, Box>} boxes @param {boolean} upright */
function curvesOf(links, boxes, upright) {
  /** @type {Map<string, Curve>} */
  const curves = new Map();
  for (const pair of pairsOf(links).values()) {
    pair.forEach((link, place) => {
      const off = place - (pair.length - 1) / 2;
      curves.set(link.name, curve(/** @type {Box} */ (boxes.get(link.source)), /** @type {Box} */ (boxes.get(link.target)), off, upright));
    });
  }
  return curves;
}

/** @param {Box} from @param {Box} to @param {number} off @param {boolean} upright @returns {Curve} */
function curve(from, to, off, upright) {
  const centre = (/** @type {Box} */ box) => [box.x + box.width / 2, box.y + box.height / 2];
  const [fx, fy] = centre(from);
  const [tx, ty] = centre(to);
  const gap = 8;
  if (upright) {
    const down = Math.sign(ty - fy) || 1;
    const shift = off * 52;
    const [y1, y2] = [fy + down * (from.height / 2 + gap), ty - down * (to.height / 2 + gap)];
    const [x1, x2] = [fx + shift, tx + shift];
    const bend = off * 40;
    return { path: `M${x1} ${y1}C${x1 + bend} ${(y1 * 2 + y2) / 3} ${x2 + bend} ${(y1 + y2 * 2) / 3} ${x2} ${y2}`, x: (x1 + x2) / 2 + bend * 0.75, y: (y1 + y2) / 2 + off * LABEL };
  }
  const right = Math.sign(tx - fx) || 1;
  const shift = off * 22;
  const [x1, x2] = [fx + right * (from.width / 2 + gap), tx - right * (to.width / 2 + gap)];
  const [y1, y2] = [fy + shift, ty + shift];
  const bend = off * 84;
  return { path: `M${x1} ${y1}C${(x1 * 2 + x2) / 3} ${y1 + bend} ${(x1 + x2 * 2) / 3} ${y2 + bend} ${x2} ${y2}`, x: (x1 + x2) / 2, y: (y1 + y2) / 2 + bend * 0.75 };
}

/** Width of a line by what flows there. @param {number} bytesPerS */
export function lineWidth(bytesPerS) {
  return bytesPerS <= 0 ? 1.5 : Math.min(10, 1.5 + Math.log10(1 + bytesPerS / 1000) * 1.6);
}

/** @typedef {{name: string, source: string, target: string, ageS: number}} Beating a flow that only heartbeats tell of */

/**
 * Flows that heartbeats reveal and no link of ours is: those of MirrorMaker 2.
 * @param {{source: string, target: string, flows?: {source: string, target: string, age_s: number}[]}[]} links
 * @returns {Beating[]}
 */
export function beatingFlows(links) {
  const name = (/** @type {{source: string, target: string}} */ { source, target }) => `${source} → ${target}`;
  const ours = new Set(links.map(name));
  /** @type {Map<string, Beating>} */
  const flows = new Map();
  for (const flow of links.flatMap((link) => link.flows ?? [])) {
    const key = name(flow);
    const known = flows.get(key);
    if (ours.has(key) || flow.source === flow.target || (known && known.ageS <= flow.age_s)) continue;
    flows.set(key, { name: key, source: flow.source, target: flow.target, ageS: flow.age_s });
  }
  return [...flows.values()].sort((a, b) => (a.name < b.name ? -1 : 1)).slice(0, FLOWS_MAX);
}

const FLOWS_MAX = 12;
/** A flow whose heartbeats are older may be still. */
export const SILENT_AFTER_S = 30;
