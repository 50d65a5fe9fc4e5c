// How a link is defined, and buttons that make, change and delete links of the home.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import * as pure from "../pure/definitions.js";
import { ofPart } from "../pure/route.js";
import { useAsked, ofApi, usePolled, write } from "../service.js";
import { useWhyNotChange } from "./actions.js";
import { Lines } from "./moves.js";
import { Mark, Time, Trouble } from "./parts.js";

/** @typedef {import("../pure/definitions.js").Verb} Verb */
/** @typedef {import("../pure/definitions.js").Definition} DefinitionRow */
/** @typedef {import("../service.js").Problem} Problem */
const FIELDS_REST_MS = 500;
const { create: CREATE, change: CHANGE, delete: DELETE } = pure.VERBS;

/** Where a link is defined, by whom; with buttons if it lies on the home. @param {{name: string}} props */
export function Definition({ name }) {
  const { data, problem, again } = useAsked(ofApi(name, "/definition"));
  const { data: link } = usePolled(ofApi(name), 1_000);
  const ended = (/** @type {Verb | null} */ verb) => {
    if (verb === DELETE) location.hash = "#/";
    else again();
  };
  if (problem) return html`<${Trouble} problem=${problem} />`;
  if (!data) return null;
  const fixed = pure.whyFixed(data);
  return html`<section class="card definition" aria-labelledby="definition-title"><h2 id="definition-title">Definition <span class="dim">${data.origin === "home" ? "on the home" : data.origin === "file" ? "in the file" : "of a connector"}${data.generation !== null && `, generation ${data.generation}`}</span></h2>
    ${data.at_ms !== null && html`<p>by <b>${data.by}</b> <span class="dim">at <${Time} ms=${data.at_ms} /></span>${data.why && ` “${data.why}”`}</p>`}
    ${data.waits.map((/** @type {string} */ text) => html`<p key=${text} class="tone-lag">It waits: ${text}</p>`)}
    ${fixed ? html`<p class="dim">${fixed}</p>` : html`<${Buttons} verbs=${[CHANGE, DELETE]} definition=${data} partitions=${link ? link.partitions : null} ended=${ended} />`}
  </section>`;
}

/** A button that makes a link, or why there can be none. */
export function NewLink() {
  const { data } = useAsked("definitions");
  return html`<${Buttons} verbs=${[CREATE]} definition=${null} partitions=${null} lacks=${pure.whyNoNew(data)} ended=${() => {}} />`;
}

/** @param {{verbs: Verb[], definition: DefinitionRow | null, partitions: number | null, lacks?: string, ended: (verb: Verb | null) => void}} props `lacks`: why nobody may; `ended`: with what was done; null: nothing */
function Buttons({ verbs, definition, partitions, lacks = "", ended }) {
  const mayNot = useWhyNotChange();
  const whyNot = mayNot || lacks;
  const id = useId();
  const [opened, setOpened] = useState(/** @type {Verb | null} */ (null));
  const close = (/** @type {boolean} */ isSent) => {
    setOpened(null);
    ended(isSent ? opened : null);
    if (document.activeElement === document.body) /** @type {HTMLElement} */ (document.querySelector("main")).focus(); // its button is gone
  };
  return html`<div class="actions" role="group" aria-label="Define links">
    ${verbs.map((verb) => html`<button key=${verb.verb} type="button" aria-haspopup="dialog" aria-disabled=${whyNot ? "true" : undefined} aria-describedby=${whyNot ? id : undefined} onClick=${() => whyNot || setOpened(verb)}>${verb.word}${verb === CREATE ? "" : html`<span class="hidden"> the definition</span>`} …</button>`)}
    ${whyNot && html`<span id=${id} class="dim why-not">${whyNot}</span>`}
    ${opened && html`<${DefinitionDialog} verb=${opened} definition=${definition} partitions=${partitions} close=${close} />`}
  </div>`;
}

/** @typedef {{step: "asking" | "ready" | "sending" | "sent", told: any, problem: Problem | null}} Course `told` is of the dry run until it is sent */
/** @type {Course} */
const BEGUN = { step: "asking", told: null, problem: null };

/** @param {{verb: Verb, definition: DefinitionRow | null, partitions: number | null, close: (isSent: boolean) => void}} props */
function DefinitionDialog({ verb, definition, partitions, close }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const end = useRef(/** @type {HTMLButtonElement | null} */ (null));
  const [meant] = useState(definition); // as it was seen, whatever becomes of it meanwhile
  const key = useRef("");
  const [course, setCourse] = useState(BEGUN);
  const [given, setGiven] = useState(() => pure.given(definition));
  const [turn, setTurn] = useState(0);
  const { step, told, problem } = course;
  const lacking = pure.lacks(verb, given);
  const isSent = step === "sent";
  const foretold = told && !isSent ? pure.foretold(verb, given, told, partitions) : null;
  const mayGo = step === "ready" && foretold?.mayGo && !lacking && (verb !== DELETE || given.typed === given.name);
  useEffect(() => dialog.current?.showModal(), []);
  const asked = JSON.stringify([given.name, given.content, given.state, given.mirrors]);
  useEffect(() => {
    key.current = `${Date.now()}-${Math.random()}`;
    setCourse(BEGUN);
    if (lacking) return;
    const leaving = new AbortController();
    const timer = setTimeout(async () => {
      const answer = await write(pure.requestOf(verb, { ...given, why: "" }, meant, true), leaving.signal);
      if (!leaving.signal.aborted) setCourse({ step: "ready", told: answer.data, problem: answer.problem });
    }, FIELDS_REST_MS);
    return () => {
      clearTimeout(timer);
      leaving.abort();
    };
  }, [turn, asked]);
  useEffect(() => {
    if (isSent) end.current?.focus();
  }, [isSent]);
  const go = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    if (!mayGo) return;
    setCourse({ step: "sending", told, problem: null });
    const answer = await write(pure.requestOf(verb, given, meant, false), undefined, verb === CREATE ? key.current : "");
    if (answer.data) setCourse({ step: "sent", told: answer.data, problem: null });
    else setCourse({ step: "ready", told, problem: answer.problem });
  };
  const isFixed = step === "sending";
  const set = (/** @type {string} */ name) => (/** @type {any} */ event) => setGiven((was) => ({ ...was, [name]: event.target.type === "checkbox" ? event.target.checked : event.target.value }));
  const became = isSent ? pure.became(verb, told) : null;
  return html`<dialog class="change" ref=${dialog} onClose=${() => close(isSent)} aria-labelledby="define-title" aria-describedby="define-does">
    <form onSubmit=${go}>
      <h2 id="define-title">${verb.word} <span class="mono">${definition?.name ?? ""}</span></h2>
      <dl class="change-facts">
        <div><dt>What changes</dt><dd id="define-does">${verb.does}</dd></div>
        <div><dt>Can it be taken back?</dt><dd>${verb.back}</dd></div>
        ${!isSent && html`<div><dt>What would be done now</dt><dd><div role="status" class="change-much" aria-busy=${step === "asking" && !lacking}>${lacking || (step === "asking" ? "Asking the service …" : foretold ? html`<${Lines} lines=${foretold.lines} />` : "Not known.")}</div></dd></div>`}
      </dl>
      ${!isSent && html`<${Fields} verb=${verb} given=${given} isFixed=${isFixed} set=${set} />`}
      <div role="status" class="change-course">${isFixed && html`<${Mark} of=${{ glyph: "◐", word: "It is carried out …", tone: "wait" }} />`}${became && html`<${Mark} of=${{ glyph: "●", word: became.text, tone: "ok" }} />${became.detail && html`<p class="tone-lag">${became.detail}</p>`}${verb === CREATE && html`<p><a class="under" href=${ofPart(given.name, "configuration")}>To the link</a></p>`}`}</div>
      ${problem && html`<${Trouble} problem=${problem}>${!told && html`<button type="button" onClick=${() => setTurn((was) => was + 1)}>Ask again</button>`}<//>`}
      <p class="end"><button type="button" ref=${end} onClick=${() => dialog.current?.close()}>${isSent || isFixed ? "Close" : "Cancel"}</button>${!isSent && html` <button type="submit" class="main" aria-disabled=${mayGo ? undefined : "true"}>${verb === CREATE ? "Make it" : verb.word}</button>`}</p>
    </form>
  </dialog>`;
}

/** @param {{verb: Verb, given: import("../pure/definitions.js").Given, isFixed: boolean, set: (name: string) => (event: any) => void}} props */
function Fields({ verb, given, isFixed, set }) {
  const why = html`<p><label><span>Why <span class="dim">kept, and shown to all</span></span><input data-why type="text" maxlength="1000" autocomplete="off" value=${given.why} readonly=${isFixed} onInput=${set("why")} /></label></p>`;
  if (verb === DELETE) {
    return html`<p><label class="check"><input data-state type="checkbox" checked=${given.state} disabled=${isFixed} onChange=${set("state")} /><span>Also its own topics <span class="dim">state, dead letters: heliostat.${given.name}.*</span></span></label></p>
      <p><label class="check"><input data-mirrors type="checkbox" checked=${given.mirrors} disabled=${isFixed} onChange=${set("mirrors")} /><span>Also its mirrors <span class="dim">with all their records at the target</span></span></label></p>
      ${why}
      <p><label><span>Type the link’s name <span class="dim mono">${given.name}</span></span><input data-typed type="text" autocomplete="off" spellcheck=${false} value=${given.typed} readonly=${isFixed} onInput=${set("typed")} /></label></p>`;
  }
  return html`${verb === CREATE && html`<p><label><span>Name <span class="dim">letters, digits and -</span></span><input data-name type="text" autofocus autocomplete="off" spellcheck=${false} maxlength="100" value=${given.name} readonly=${isFixed} onInput=${set("name")} /></label></p>`}
    <p><label><span>Definition <span class="dim">as links: of the file has it, in JSON; clusters by their names in the file</span></span><textarea data-content class="mono" rows="10" autofocus=${verb !== CREATE} spellcheck=${false} value=${given.content} readonly=${isFixed} onInput=${set("content")}></textarea></label></p>
    ${why}`;
}
