// Answers in pages: the service gives a cursor, `next`, until all is told.

export const ROWS_MAX = 100_000;

/**
 * An answer with the rows of all its pages. What is left keeps its cursor in `next`: a page that could not be had
 * (null), or more rows than a page can show.
 * @template {{items?: any[], next?: string | null}} T
 * @param {T} first
 * @param {(after: string) => Promise<any>} ask for the page after a cursor
 * @returns {Promise<T>}
 */
export async function whole(first, ask) {
  if (!first.next || !first.items) return first;
  const items = [...first.items];
  const names = new Set(items.map(nameOf));
  /** @type {string | null} */
  let next = first.next;
  while (next && items.length < ROWS_MAX) {
    const page = await ask(next);
    if (page === null) break;
    const fresh = page.items.filter((/** @type {any} */ row) => !names.has(nameOf(row))); // a cursor whose row is gone begins anew
    for (const row of fresh) names.add(nameOf(row)) && items.push(row);
    next = fresh.length || !page.next ? page.next : null;
  }
  return { ...first, items, next };
}

/** What a row is about, whatever its figures are by now. @param {any} row @returns {string} */
const nameOf = (row) => row.source ?? row.group ?? JSON.stringify(row);
