// A rolling switch: what is merged, the turn in place, who still writes, waiting for a topic, the finish, and how the last ones went.
import { useState } from "preact/hooks";
import { html } from "../html.js";
import * as pure from "../pure/rolling.js";
import { ofApi } from "../service.js";
import { Asked, Rows } from "./asked.js";
import { CourseHead, isRunning, Report, useCourse, useOnEnd, Way } from "./courses.js";
import { Moves } from "./moves.js";
import { Empty, NoneOrWhy, Time } from "./parts.js";

/**
 * @param {{name: string, source: string, target: string, rolling: pure.Rolling, again: () => void, begun: () => void, children?: any}} props `again` asks anew what is merged; `begun` is called once a finish is
 */
export function RollingWays({ name, source, target, rolling, again, begun, children }) {
  const turn = useCourse(ofApi(name, "/rolling/turn"), isRunning);
  const wait = useCourse(ofApi(name, "/rolling/wait"), isRunning);
  const [areWritersShown, setWritersShown] = useState(false);
  const moves = pure.rollingMoves(rolling);
  useOnEnd(turn.answer.data?.state === "running", again);
  return html`
    <div class="say"><p class="say-first"><span class="say-mark tone-${pure.rollingTone(rolling)}" aria-hidden="true"></span>${pure.rollingSentence(rolling)}</p><p class="dim">${pure.backSentence(rolling, source)} The planned switch, drill, failover, the tail and the way back are for mirrors that only a link writes.</p></div>
    <div class="ways">
      <${Way} title="First: merge in place" text="Mirrors become topics that both sites may write, without a new copy."><${Moves} moves=${[moves.turn]} link=${name} label="Merge the link’s mirrors in place" begun=${turn.quicken} ended=${again} /><//>
      <${Way} title="Who writes: producers" text="Those that have written at ${source} lately, as its brokers remember them."><button type="button" aria-expanded=${areWritersShown} onClick=${() => setWritersShown(!areWritersShown)}>${areWritersShown ? "Hide them" : "Look for them"}</button><//>
      <${Way} title="A producer moves: wait" text="It stops at ${source}, and goes on at ${target} in order once all of its topics has crossed."><${Moves} moves=${[moves.wait]} link=${name} label="Wait until topics have crossed" begun=${wait.quicken} /><//>
      <${Way} title="The end: finish" text="Once no producer and no group is left at ${source}: both links leave the topics to ${target}."><${Moves} moves=${[moves.finish]} link=${name} label="Finish the rolling switch" begun=${begun} ended=${again} /><//>
    </div>
    ${areWritersShown && html`<${Writers} link=${name} />`}
    <${LastTurn} answer=${turn.answer} word=${moves.turn.word} />
    <${LastWait} answer=${wait.answer} />
    ${children}`;
}

/** @param {{link: string}} props */
function Writers({ link }) {
  return html`<${Asked} title="Who writes at the source" path=${ofApi(link, "/rolling/writers")}>${(/** @type {{writers: pure.Writer[], refused: string[]}} */ answer) => html`
    <p class="answer">${pure.writersSentence(answer)}</p>
    ${answer.refused.map((text) => html`<p key=${text} class="tone-lag">Not known: ${text}</p>`)}
    <p class="dim">Who writes without idempotence has no id, and is never listed: only ends that move show it.</p>
    ${answer.writers.length === 0 ? html`<${Empty} title="No producer is listed." />` : html`<${Rows} label="Producers at the source" rows=${answer.writers} head=${html`<th scope="col">Producer</th><th scope="col">Last wrote</th><th scope="col">Topics</th>`}>${(/** @type {pure.Writer} */ row) => html`<${WriterRow} key=${row.producer_id} row=${row} />`}<//>`}`}<//>`;
}

/** @param {{row: pure.Writer}} props */
function WriterRow({ row }) {
  const { topics, open } = pure.writerPlaces(row);
  return html`<tr><td class="mono">${pure.writerWords(row)}</td><td>${row.last_ms < 0 ? html`<span class="dim">?</span>` : html`<${Time} ms=${row.last_ms} />`}</td><td class="reason fill"><span class="mono">${topics}</span>${open && html`<div class="tone-lag">${open}</div>`}</td></tr>`;
}

/** @param {{answer: import("../service.js").Answer, word: string}} props `word`: on the button that tells the cuts */
function LastTurn({ answer, word }) {
  const course = answer.data;
  const isShown = course && (!course.is_tried || pure.hasCuts(course));
  return html`<section class="card detail" aria-labelledby="last-turn-title"><h3 id="last-turn-title" class="second">The last merge in place</h3>
    ${!course ? html`<${NoneOrWhy} answer=${answer} none="This service has merged nothing since it began. “${word}” says where each mirror ends." />` : !isShown ? html`<p class="dim">It was only looked at.</p>` : html`
      <${CourseHead} course=${course} again="Merge again: it goes on where it was, and tells the same cuts." />
      ${pure.hasCuts(course) && html`<p>The link back begins at the cuts: save them as a file, and give it as <code>topics.start: {offsets: FILE}</code>.</p><${Report} title="The cuts" text=${course.text} />`}`}
  </section>`;
}

/** @param {{answer: import("../service.js").Answer}} props */
function LastWait({ answer }) {
  const course = answer.data;
  return html`<section class="card detail" aria-labelledby="last-wait-title"><h3 id="last-wait-title" class="second">What was waited for last</h3>
    ${!course ? html`<${NoneOrWhy} answer=${answer} none="This service has waited for no topic since it began." />` : html`
      <${CourseHead} course=${course} of=${pure.shownWait(course)} again="Wait again: it asks for new ends then." />
      ${isRunning(course) && html`<p class="dim">${course.told.at(-1) ?? "Asking where the topics end …"}</p>`}
      ${course.text.split("\n").map((/** @type {string} */ text) => html`<p key=${text} class=${course.result?.has_crossed ? "" : "tone-lag"}>${text}</p>`)}`}
  </section>`;
}
