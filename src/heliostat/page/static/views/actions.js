// Buttons that change something. Each opens a dialog: what will change, for how many, whether it can be taken back, and why.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import * as pure from "../pure/actions.js";
import { counted, span } from "../pure/format.js";
import { newKey, now, post, service, usePolled } from "../service.js";
import { Mark, Time, Trouble } from "./parts.js";

/** @typedef {import("../pure/actions.js").Action} Action */
/** @typedef {import("../pure/actions.js").Place} Place */
/** @typedef {import("../pure/actions.js").Standing} Standing */
/** @typedef {import("../pure/actions.js").Link} Link */
/** @typedef {import("../pure/actions.js").Outcome} Outcome */
/** @typedef {import("../service.js").Problem} Problem */
const STALE_AFTER_S = 10;
const CALLER_EVERY_MS = 60_000;
const FIELDS_REST_MS = 400;
const WHY_CHARS_MAX = 1_000;

/**
 * What can be changed of a place now.
 * @param {{place: Place, standing: Standing | null, link: Link | null, label: string, isNamed?: boolean}} props `standing`: null where there is nothing to change; `label` says of what, for those who see no place, or for all
 */
export function Actions({ place, standing, link, label, isNamed = false }) {
  const [opened, setOpened] = useState(/** @type {{action: Action, place: Place} | null} */ (null));
  const id = useId();
  const reason = useWhyNot(link);
  const whyNot = standing && reason;
  return html`<div class="actions" role="group" aria-label="Change ${label}">
    ${isNamed && standing && html`<span class="dim">${label}:</span>`}
    ${(standing ? pure.offered(place.kind, standing) : []).map(({ action, key }) => html`<button key=${key} type="button" aria-haspopup="dialog" aria-disabled=${whyNot ? "true" : undefined} aria-describedby=${whyNot ? id : undefined} onClick=${() => whyNot || setOpened({ action, place })}>${action.word}<span class="hidden"> ${label}</span> …</button>`)}
    ${whyNot && html`<span id=${id} class="dim why-not">${whyNot}</span>`}
    ${opened && html`<${Change} ...${opened} standing=${place.kind === "topics" ? null : standing} link=${link} close=${() => setOpened(null)} />`}
  </div>`;
}

/** Why nothing of a link can be changed now; empty: it can. @param {Link | null} link */
export function useWhyNot(link) {
  const caller = usePolled("caller", CALLER_EVERY_MS);
  return pure.whyNot(caller, link, (now.value - service.value.okAt) / 1000 >= STALE_AFTER_S);
}

/** The same of what lies at no link’s target. */
export function useWhyNotChange() {
  const caller = usePolled("caller", CALLER_EVERY_MS);
  return pure.whyNotChange(caller, (now.value - service.value.okAt) / 1000 >= STALE_AFTER_S);
}

/** @typedef {"asking" | "ready" | "sending" | "sent"} Step */
/** @typedef {{step: Step, told: Outcome | null, problem: Problem | null}} Course `told` is of the dry run until it is sent */
/** @type {Course} */
const BEGUN = { step: "asking", told: null, problem: null };

/** @param {{action: Action, place: Place, standing: Standing | null, link: Link | null, close: () => void}} props */
export function Change({ action, place, standing, link, close }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const end = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const [course, setCourse] = useState(BEGUN);
  const [given, setGiven] = useState(/** @type {Record<string, string>} */ ({}));
  const [turn, setTurn] = useState(0);
  const keyed = useRef({ text: "", key: "" }); // pressed again after a lost answer it is the same order
  const fields = action.fields ?? [];
  const isWhole = fields.every(({ name }) => given[name]);
  const { step, told, problem } = course;
  const mayGo = step === "ready" && told !== null && !pure.isNothing(told) && isWhole;
  useEffect(() => dialog.current?.showModal(), []);
  useEffect(() => {
    if (!isWhole) return;
    const leaving = new AbortController();
    setCourse(BEGUN);
    const timer = setTimeout(async () => {
      const answer = await post(pure.pathOf(action, place) + "?dry_run=true", pure.bodyOf(action, place, "", given), leaving.signal);
      if (!leaving.signal.aborted) setCourse({ step: "ready", told: answer.data, problem: answer.problem });
    }, turn || !fields.length ? 0 : FIELDS_REST_MS);
    return () => {
      clearTimeout(timer);
      leaving.abort();
    };
  }, [turn, JSON.stringify(given)]);
  useEffect(() => {
    if (step === "sent") end.current?.focus();
  }, [step]);
  const go = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if (!mayGo) return;
    const why = /** @type {HTMLInputElement} */ (dialog.current?.querySelector("[data-why]")).value;
    setCourse({ step: "sending", told, problem: null });
    const body = pure.bodyOf(action, place, why, given);
    const text = JSON.stringify(body);
    if (keyed.current.text !== text) keyed.current = { text, key: newKey() };
    const answer = await post(pure.pathOf(action, place), body, undefined, keyed.current.key);
    if (answer.data) setCourse({ step: "sent", told: answer.data, problem: null });
    else setCourse({ step: "ready", told, problem: answer.problem });
  };
  const leave = () => {
    close();
    const instead = document.querySelector("[data-filter]") ?? document.querySelector("main");
    if (document.activeElement === document.body) /** @type {HTMLElement} */ (instead).focus(); // its button is gone
  };
  const isSent = step === "sent";
  return html`<dialog class="change" ref=${dialog} onClose=${leave} aria-labelledby="change-title" aria-describedby="change-does">
    <form onSubmit=${go}>
      <h2 id="change-title">${action.heading ?? action.word} <span class=${place.kind === "link" || place.kind === "topics" ? "" : "mono"}>${pure.placeWords(place)}</span></h2>
      <dl class="change-facts">
        <div><dt>What changes</dt><dd><span id="change-does">${pure.doesAt(action, place)}</span>${place.topics && html`<${Names} names=${place.topics} />`}</dd></div>
        <div><dt>For how much</dt><dd><div role="status" class="change-much" aria-busy=${step === "asking"}>${step === "asking" ? (isWhole ? "Asking the service …" : "It is told once the fields are filled.") : told ? html`<${Foretold} action=${action} place=${place} link=${link} told=${told} isSent=${isSent} />` : "Not known."}</div></dd></div>
        <div><dt>Can it be taken back?</dt><dd>${action.back}</dd></div>
      </dl>
      ${!isSent && fields.map((field, place) => html`<${FieldInput} key=${field.name} field=${field} isFirst=${place === 0} value=${given[field.name] ?? ""} onValue=${(/** @type {string} */ value) => setGiven((was) => ({ ...was, [field.name]: value }))} />`)}
      ${!isSent && html`<p><label><span>Why <span class="dim">shown to all wherever it matters</span></span><input data-why autofocus=${fields.length === 0} type="text" maxlength=${WHY_CHARS_MAX} autocomplete="off" readonly=${step === "sending"} /></label></p>`}
      <div role="status" class="change-course">${step === "sending" && html`<${Mark} of=${{ glyph: "◐", word: "It is written, and its owner asked …", tone: "wait" }} />`}${isSent && told && html`<${Mark} of=${pure.outcome(action, told, pure.isSeen(action, place, standing))} />`}</div>
      ${problem && html`<${Trouble} problem=${problem}>${!told && html`<button type="button" onClick=${() => setTurn((was) => was + 1)}>Ask again</button>`}<//>`}
      <p class="end"><button type="button" ref=${end} onClick=${() => dialog.current?.close()}>${isSent ? "Close" : "Cancel"}</button>${!isSent && html` <button type="submit" class="main" aria-disabled=${mayGo ? undefined : "true"}>${action.word}</button>`}</p>
    </form>
  </dialog>`;
}

/** @param {{action: Action, place: Place, link: Link | null, told: Outcome, isSent: boolean}} props */
function Foretold({ action, place, link, told, isSent }) {
  const lines = isSent ? [] : pure.remarks(action, place, link, told);
  return html`<b>${pure.foretold(told).join(" ")}</b>${lines.map((line) => html`<span key=${line}>${line}</span>`)}`;
}

/** @param {{names: string[]}} props */
function Names({ names }) {
  return html`<details class="choices"><summary>${counted(names.length, "topic")}</summary><ul class="mono change-names" tabindex="0" aria-label="Topics">${names.map((name) => html`<li key=${name}>${name}</li>`)}</ul></details>`;
}

/** @param {{field: import("../pure/actions.js").Field, isFirst: boolean, value: string, onValue: (value: string) => void}} props */
function FieldInput({ field, isFirst, value, onValue }) {
  const { label, hint, choices } = field;
  const take = (/** @type {any} */ event) => onValue(event.target.value.trim());
  return html`<p><label><span>${label} <span class="dim">${hint}</span></span>${choices ? html`<select autofocus=${isFirst} value=${value} onChange=${take}><option value=""></option>${choices.map((choice) => html`<option key=${choice}>${choice}</option>`)}</select>` : html`<input type="text" autofocus=${isFirst} value=${value} autocomplete="off" spellcheck=${false} onInput=${take} />`}</label></p>`;
}

/**
 * Who wishes something that stands, since when, and why.
 * @param {{wish: import("../pure/levels.js").Said & {state?: string}, of?: import("../pure/actions.js").Shown, what?: any, children?: any}} props `of`: what is wished; if not given, that it rests
 */
export function Rests({ wish, of = { glyph: "‖", word: wish.state ?? "", tone: "wait" }, what, children }) {
  now.value; // it grows older
  return html`<p class="rests"><${Mark} of=${of} />${what}<span>by <b>${wish.by}</b> <span class="dim">since <${Time} ms=${wish.at_ms} />, ${span(Math.max(0, (Date.now() - wish.at_ms) / 1000))} ago</span></span>${wish.why && html`<span class="rests-why">“${wish.why}”</span>`}${children}</p>`;
}
