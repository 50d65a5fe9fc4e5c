// What views of moves to the target share: ways as cards, an answer that is asked for often while something goes on, reports.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "../html.js";
import { shownStep } from "../pure/moves.js";
import { usePolled } from "../service.js";
import { Mark, Time } from "./parts.js";

const UNDER_WAY_MS = 1_000;
const IDLE_MS = 60_000;

/** An answer that is asked for often only while something is under way. @param {string} path @param {(data: any) => boolean} isUnderWay */
export function useCourse(path, isUnderWay) {
  const [isQuick, setQuick] = useState(false);
  const answer = usePolled(path, isQuick ? UNDER_WAY_MS : IDLE_MS);
  const goes = answer.data !== null && isUnderWay(answer.data);
  useEffect(() => setQuick(goes), [goes]);
  return { answer, quicken: () => setQuick(true) };
}

/** Calls something once what was under way has ended. @param {boolean} isUnderWay @param {() => void} call */
export function useOnEnd(isUnderWay, call) {
  const was = useRef(false);
  useEffect(() => {
    if (was.current && !isUnderWay) call();
    was.current = isUnderWay;
  }, [isUnderWay]);
}

/** Whether a verb that takes long still goes on. @param {{state: string}} course */
export const isRunning = ({ state }) => state === "running";

/** @param {{title: string, text: string, children?: any}} props */
export function Way({ title, text, children }) {
  return html`<section class="card way"><h3>${title}</h3><p class="dim">${text}</p>${children}</section>`;
}

/** How far a verb that takes long is, and why it has failed. @param {{course: any, again: string, of?: {glyph: string, word: string, tone: string}}} props `again`: what helps, if nothing else does; `of`: how it is, if its state does not say it all */
export function CourseHead({ course, again, of = shownStep(course.state) }) {
  return html`
    <p class="detail-state" role="status"><${Mark} of=${of} /> <span class="dim">by ${course.by}, begun at <${Time} ms=${course.started_ms} /></span></p>
    ${course.problem && html`<p><span class="tone-bad">${course.problem.detail}</span> <code class="dim">${course.problem.code}</code></p><p><b>What helps:</b> ${course.problem.hint ?? again}</p>`}`;
}

/** @param {{text: string, title?: string}} props */
export function Report({ text, title = "The report" }) {
  return html`<details class="choices"><summary>${title}</summary><pre class="report" tabindex="0" role="group" aria-label=${title}>${text}</pre></details>`;
}
