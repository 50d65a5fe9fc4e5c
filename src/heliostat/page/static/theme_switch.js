// Dark, light, or as the system is; views that draw by themselves listen to `theme`.
import { signal } from "@preact/signals";
import { html } from "./html.js";

const root = document.documentElement;
const NEXT = /** @type {const} */ ({ auto: "light", light: "dark", dark: "auto" });
const GLYPH = { auto: "◐", light: "○", dark: "●" };

/** @type {import("@preact/signals").Signal<"auto" | "light" | "dark">} */
export const theme = signal(/** @type {"light"} */ (root.dataset.theme ?? "auto"));
/** Changes whenever colours may have changed. */
export const colours = signal(0);

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (colours.value += 1));

function turn() {
  const next = NEXT[theme.value];
  if (next === "auto") delete root.dataset.theme;
  else root.dataset.theme = next;
  try {
    localStorage.setItem("heliostat.theme", next);
  } catch {
    // storage is forbidden: it holds until the page is left
  }
  theme.value = next;
  colours.value += 1;
}

export function Theme() {
  const name = theme.value;
  return html`<button type="button" class="plain" onClick=${turn} aria-label="Colours: ${name}" title="Colours: ${name}"><span aria-hidden="true">${GLYPH[name]}</span></button>`;
}

/** A colour of the style sheet as canvases take it. @param {string} name */
export function colour(name) {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}
