// Where the tiles of the field lie: squares as large as the place allows, in rows.

/**
 * @param {number} count
 * @param {number} width
 * @param {number} height
 * @param {number} largest
 * @returns {{size: number, columns: number, rows: number}}
 */
export function fieldLayout(count, width, height, largest = 26) {
  if (count === 0 || width <= 0 || height <= 0) return { size: largest, columns: 1, rows: 0 };
  let size = Math.min(largest, Math.sqrt((width * height) / count));
  while (size > 3 && Math.ceil(count / Math.floor(width / size)) * size > height) size -= 0.1;
  const columns = Math.max(1, Math.floor(width / size));
  const fitted = Math.min(largest, width / columns);
  return { size: fitted, columns, rows: Math.ceil(count / columns) };
}

/** The tile below a point; -1: none. @param {{size: number, columns: number}} layout @param {number} count @param {number} x @param {number} y */
export function tileAt({ size, columns }, count, x, y) {
  const column = Math.floor(x / size);
  const place = Math.floor(y / size) * columns + column;
  return x >= 0 && y >= 0 && column < columns && place < count ? place : -1;
}

/** The tile that a key moves to. @param {string} key @param {number} place @param {number} columns @param {number} count */
export function tileAfter(key, place, columns, count) {
  /** @type {Record<string, number>} */
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns };
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  if (!(key in steps)) return -1;
  const to = place + steps[key];
  return to >= 0 && to < count ? to : place;
}

/** How bright a tile is by its records a second, 0 to 1. @param {number} rate */
export function brightness(rate) {
  return rate <= 0 ? 0 : Math.min(1, 0.25 + 0.3 * Math.log10(1 + rate * 4));
}
