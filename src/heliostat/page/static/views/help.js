// The keys.
import { useEffect, useRef } from "preact/hooks";
import { html } from "../html.js";
import { isHelpShown } from "../navigation.js";

const KEYS = [
  ["/", "filter"],
  ["g m", "map"],
  ["g l", "link"],
  ["g t", "topics"],
  ["g e", "events"],
  ["g g", "groups"],
  ["g a", "gaps"],
  ["g d", "dead letters"],
  ["g s", "schemas"],
  ["g p", "plan"],
  ["g n", "lanes"],
  ["g v", "verify"],
  ["g c", "configuration"],
  ["g r", "rights"],
  ["g f", "fail over"],
  ["g w", "why?"],
  ["j  k", "next, previous row"],
  ["Enter", "open it"],
  ["Esc", "back; in the filter: clear it"],
  ["← ↑ ↓ →", "move in the field of partitions"],
  ["?", "these keys"],
];

export function Help() {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => dialog.current?.showModal(), []);
  const close = () => (isHelpShown.value = false);
  return html`<dialog ref=${dialog} onClose=${close} aria-labelledby="help-title" onClick=${(/** @type {Event} */ event) => event.target === dialog.current && dialog.current?.close()}>
    <h2 id="help-title">Keys</h2>
    <dl class="keys">${KEYS.map(([key, text]) => html`<div key=${key}><dt>${key.split(/ +/).map((part) => html`<kbd>${part}</kbd> `)}</dt><dd>${text}</dd></div>`)}</dl>
    <h2>Filter</h2>
    <p class="dim">Words that all have to be true, “-” before one turns it round:<br /><code>temperature</code> <code>/ESS|GIS/</code> <code>state:blocked</code> <code>lag>100</code> <code>lag>10s</code> <code>rate>5</code> <code>partitions>1</code> <code>is:mapped</code> <code>is:unknown</code></p>
    <form method="dialog" class="end"><button class="main">Close</button></form>
  </dialog>`;
}
