// Buttons for what needs an admin. Each opens a dialog: the dry run's answer, then the link's name typed, then how it goes.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import * as pure from "../pure/moves.js";
import { get, now, post, service, usePolled } from "../service.js";
import { Mark, Trouble } from "./parts.js";

/** @typedef {import("../pure/moves.js").Move} Move */
/** @typedef {import("../pure/moves.js").Field} Field */
/** @typedef {import("../pure/moves.js").Given} Given */
/** @typedef {import("../service.js").Problem} Problem */
const STALE_AFTER_S = 10;
const CALLER_EVERY_MS = 60_000;
const FIELDS_REST_MS = 500;
const FOLLOWED_EVERY_MS = 1_000;

/**
 * @param {{moves: Move[], link: string, label: string, begun?: () => void, ended?: () => void}} props `label` says of what, for those who see no place; `ended` is called once a dialog is closed that has sent something
 */
export function Moves({ moves, link, label, begun = () => {}, ended = () => {} }) {
  const caller = usePolled("caller", CALLER_EVERY_MS);
  const [opened, setOpened] = useState(/** @type {Move | null} */ (null));
  const id = useId();
  const isStale = (now.value - service.value.okAt) / 1000 >= STALE_AFTER_S;
  const whyNot = pure.whyNotAdmin(caller, isStale, moves.every(({ isFree }) => isFree) ? "operate" : "admin");
  const isSent = useRef(false);
  const close = () => {
    setOpened(null);
    if (isSent.current) ended();
    isSent.current = false;
    if (document.activeElement === document.body) /** @type {HTMLElement} */ (document.querySelector("main")).focus(); // its button is gone
  };
  const noted = () => {
    isSent.current = true;
    begun();
  };
  return html`<div class="actions" role="group" aria-label=${label}>
    ${moves.map((move) => html`<button key=${move.verb} type="button" aria-haspopup="dialog" aria-disabled=${whyNot ? "true" : undefined} aria-describedby=${whyNot ? id : undefined} onClick=${() => whyNot || setOpened(move)}>${move.word} …</button>`)}
    ${whyNot && html`<span id=${id} class="dim why-not">${whyNot}</span>`}
    ${opened && html`<${MoveDialog} move=${opened} link=${link} begun=${noted} close=${close} />`}
  </div>`;
}

/** @typedef {{data: any, problem: Problem | null}} Answer */

/**
 * Asks it, and follows it to its end; `tell` is called with what it waits for.
 * @param {Move} move @param {string} path @param {object} body @param {(text: string) => void} tell @param {AbortSignal} leaving @param {string} key
 * @returns {Promise<Answer>}
 */
async function carriedOut(move, path, body, tell, leaving, key) {
  const begin = () => post(path, body, key ? undefined : leaving, key);
  let answer = await begin();
  while (answer.data && !leaving.aborted) {
    const { state, told, problem, result, is_done } = answer.data;
    if (move.isLong && state === "running") {
      tell(told.at(-1) ?? "");
      await rest(leaving);
      answer = await get(path.split("?")[0], leaving);
    } else if (move.isLong && state === "failed") {
      return { data: null, problem: { status: 0, title: "It has failed", detail: problem.detail, code: problem.code, hint: problem.hint ?? undefined } };
    } else if (move.isLong && state === "done") {
      return { data: result, problem: null };
    } else if (key && is_done === false && move.path.startsWith("tail/")) {
      tell(move.became(answer.data).text);
      answer = await begin();
    } else {
      return answer;
    }
  }
  return answer;
}

/** @param {AbortSignal} leaving @returns {Promise<void>} */
const rest = (leaving) => new Promise((go) => (setTimeout(go, FOLLOWED_EVERY_MS), leaving.addEventListener("abort", () => go())));

/** @typedef {"asking" | "ready" | "sending" | "sent"} Step */
/** @typedef {{step: Step, told: any, problem: Problem | null, waits: string}} Course `told` is of the dry run until it is sent */
/** @type {Course} */
const BEGUN = { step: "asking", told: null, problem: null, waits: "" };

/** @param {{move: Move, link: string, begun: () => void, close: () => void}} props */
function MoveDialog({ move, link, begun, close }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const end = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const leaving = useRef(new AbortController());
  const key = useRef(`${Date.now()}-${Math.random()}`);
  const [course, setCourse] = useState(BEGUN);
  const [given, setGiven] = useState(/** @type {Given} */ ({}));
  const [typed, setTyped] = useState("");
  const [turn, setTurn] = useState(0);
  const lacking = pure.lacks(move, given);
  const { step, told, problem, waits } = course;
  const foretold = told && step !== "sent" ? move.foretold(told) : null;
  const mayGo = step === "ready" && foretold?.mayGo && (move.isFree || typed === link) && !lacking;
  const tell = (/** @type {string} */ text) => setCourse((was) => ({ ...was, waits: text }));
  useEffect(() => {
    dialog.current?.showModal();
    return () => leaving.current.abort();
  }, []);
  const asked = JSON.stringify({ ...given, why: "" });
  useEffect(() => {
    if (lacking || (step !== "asking" && step !== "ready")) return;
    const left = new AbortController();
    setCourse((was) => ({ ...BEGUN, told: was.told }));
    const timer = setTimeout(async () => {
      const body = pure.bodyOf(move, given, "");
      const answer = move.isUntried ? { data: {}, problem: null } : await carriedOut(move, pure.pathOf(move, link, given, true), body, tell, left.signal, "");
      if (!left.signal.aborted) setCourse({ step: "ready", told: answer.data, problem: answer.problem, waits: "" });
    }, turn || Object.keys(given).length === 0 ? 0 : FIELDS_REST_MS);
    return () => {
      clearTimeout(timer);
      left.abort();
    };
  }, [turn, asked, lacking]);
  useEffect(() => {
    if (step === "sent") end.current?.focus();
  }, [step]);
  const go = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if (!mayGo) return;
    setCourse({ step: "sending", told, problem: null, waits: "" });
    const body = pure.bodyOf(move, given, typed, told);
    begun();
    const answer = await carriedOut(move, pure.pathOf(move, link, given, false), body, tell, leaving.current.signal, key.current);
    begun();
    key.current = `${Date.now()}-${Math.random()}`;
    if (answer.data) setCourse({ step: "sent", told: answer.data, problem: null, waits: "" });
    else setCourse({ step: "ready", told, problem: answer.problem, waits: "" });
  };
  const set = (/** @type {string} */ name) => (/** @type {string} */ value) => setGiven((was) => ({ ...was, [name]: value }));
  const isSent = step === "sent";
  const isSending = step === "sending";
  const became = isSent ? move.became(told) : null;
  return html`<dialog class="change" ref=${dialog} onClose=${close} aria-labelledby="move-title" aria-describedby="move-does">
    <form onSubmit=${go}>
      <h2 id="move-title">${move.word} <span class="mono">${link}</span></h2>
      <dl class="change-facts">
        <div><dt>What it does</dt><dd id="move-does">${move.does}</dd></div>
        <div><dt>Can it be taken back?</dt><dd>${move.back}</dd></div>
        ${!isSent && html`<div><dt>What would be done now</dt><dd><div role="status" class="change-much" aria-busy=${step === "asking" && !lacking}>${lacking ? lacking : step === "asking" ? waits || "Asking the service …" : foretold ? html`<${Lines} lines=${foretold.lines} />` : "Not known."}</div></dd></div>`}
      </dl>
      ${!isSent && move.fields.map((field, place) => html`<${FieldInput} key=${field.name} field=${field} isFirst=${place === 0} isFixed=${isSending} value=${given[field.name] ?? ""} onValue=${set(field.name)} />`)}
      ${!isSent && foretold?.accepts?.map(({ code, text }) => html`<${Accepted} key=${code} code=${code} text=${text} given=${given} onValue=${set("accept")} />`)}
      ${!isSent && !move.isFree && html`<p><label><span>Type the link’s name <span class="dim mono">${link}</span></span><input data-typed type="text" autofocus=${move.fields.length === 0} autocomplete="off" spellcheck=${false} value=${typed} readonly=${isSending} onInput=${(/** @type {any} */ event) => setTyped(event.target.value.trim())} /></label></p>`}
      <div role="status" class="change-course">${isSending && html`<${Mark} of=${{ glyph: "◐", word: waits || "It is carried out …", tone: "wait" }} />`}${became && html`<${Mark} of=${{ glyph: became.tone === "ok" ? "●" : became.tone === "wait" ? "◐" : "▲", word: became.text, tone: became.tone ?? "text" }} />${became.detail && html`<p class="dim">${became.detail}</p>`}`}</div>
      ${problem && html`<${Trouble} problem=${problem}>${!told && html`<button type="button" onClick=${() => setTurn((was) => was + 1)}>Ask again</button>`}<//>`}
      <p class="end"><button type="button" ref=${end} onClick=${() => dialog.current?.close()}>${isSent || isSending ? "Close" : "Cancel"}</button>${!isSent && html` <button type="submit" class="main" aria-disabled=${mayGo ? undefined : "true"}>${move.word}</button>`}</p>
    </form>
  </dialog>`;
}

/** @param {{lines: import("../pure/moves.js").Line[]}} props */
export function Lines({ lines }) {
  if (lines.length === 0) return "Nothing would be changed.";
  return html`<ul class="move-lines" tabindex="0" aria-label="What would be done">${lines.map(({ text, detail, tone }, place) => html`<li key=${place} class=${place === 0 ? "first" : ""}><span class=${tone ? `tone-${tone}` : ""}>${text}</span>${detail && html`<span class="dim">${detail}</span>`}</li>`)}</ul>`;
}

/** @param {{field: Field, isFirst: boolean, isFixed: boolean, value: string, onValue: (value: string) => void}} props */
function FieldInput({ field, isFirst, isFixed, value, onValue }) {
  const { label, hint, kind, choices = [] } = field;
  const says = html`<span>${label} <span class="dim">${hint}</span></span>`;
  const take = (/** @type {any} */ event) => onValue(event.target.value.trim());
  if (kind === "check") return html`<p><label class="check"><input type="checkbox" autofocus=${isFirst} checked=${!!value} disabled=${isFixed} onChange=${(/** @type {any} */ event) => onValue(event.target.checked ? "1" : "")} />${says}</label></p>`;
  if (kind === "choice") return html`<p><label>${says}<select autofocus=${isFirst} value=${value} disabled=${isFixed} onChange=${take}><option value=""></option>${choices.map((choice) => html`<option key=${choice}>${choice}</option>`)}</select></label></p>`;
  return html`<p><label>${says}<input type="text" class=${kind === "topics" ? "mono" : ""} inputmode=${kind === "seconds" ? "decimal" : kind === "number" ? "numeric" : undefined} autofocus=${isFirst} value=${value} readonly=${isFixed} autocomplete="off" spellcheck=${false} onInput=${(/** @type {any} */ event) => onValue(kind === "topics" ? event.target.value : event.target.value.trim())} /></label></p>`;
}

/** @param {{code: string, text: string, given: Given, onValue: (value: string) => void}} props */
function Accepted({ code, text, given, onValue }) {
  const codes = new Set((given.accept ?? "").split(" ").filter(Boolean));
  const take = (/** @type {any} */ event) => {
    if (event.target.checked) codes.add(code);
    else codes.delete(code);
    onValue([...codes].sort().join(" "));
  };
  return html`<p><label class="check"><input type="checkbox" checked=${codes.has(code)} onChange=${take} /><span>Accept: ${text} <code class="dim">${code}</code></span></label></p>`;
}
