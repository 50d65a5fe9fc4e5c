// Where mirrors differ from what is wanted.

/** @typedef {{target: string, kind: string, setting: string, wants: string | null, has: string | null, why: string, hint: string}} Item */

/**
 * A line for each difference, with the mirrors that have it.
 * @param {{items: Item[]}} drift
 */
export function driftLines(drift) {
  /** @type {Map<string, {names: string[], what: string, why: string}>} */
  const lines = new Map();
  for (const { target, kind, setting, wants, has, why, hint } of drift.items) {
    const what = `${setting || kind.replaceAll("_", " ")} is ${has ?? "not set"}, wanted ${wants ?? "unset"}.`;
    const key = JSON.stringify([what, why, hint]);
    const line = lines.get(key) ?? { names: [], what, why: `${why}; ${hint}` };
    line.names.push(target);
    lines.set(key, line);
  }
  return [...lines.values()].map(({ names, what, why }) => ({ names: names.join(", "), what, why }));
}
