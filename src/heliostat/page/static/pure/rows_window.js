// Which rows of a long list are drawn: those in sight and some around.

export const AROUND = 10;

/**
 * @param {number} count of all rows
 * @param {number} rowHeight
 * @param {number} top how far it is scrolled
 * @param {number} height of what is in sight
 * @returns {{first: number, end: number}}
 */
export function rowsWindow(count, rowHeight, top, height) {
  const first = Math.max(0, Math.floor(top / rowHeight) - AROUND);
  const end = Math.min(count, Math.ceil((top + height) / rowHeight) + AROUND);
  return { first: Math.min(first, Math.max(0, end - 1)), end };
}

/** Where to scroll so that a row is in sight. @param {number} row @param {number} rowHeight @param {number} top @param {number} height */
export function inSight(row, rowHeight, top, height) {
  if (row * rowHeight < top) return row * rowHeight;
  return Math.max(top, (row + 1) * rowHeight - height);
}
