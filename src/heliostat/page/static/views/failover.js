// Moving to the target and back: what it would cost now, switch, failover, the tail, the way back, and how the last ones went.
import { useState } from "preact/hooks";
import { html } from "../html.js";
import { bytesText } from "../pure/cluster_answers.js";
import { exposureSentences, exposureTone } from "../pure/exposure.js";
import { bytes, clock, counted, whole } from "../pure/format.js";
import * as pure from "../pure/moves.js";
import { ofPart, ofTopic } from "../pure/route.js";
import { FINISH } from "../pure/rolling.js";
import { now, ofApi, useAsked, usePolled } from "../service.js";
import { Asked, Rows } from "./asked.js";
import { CourseHead, isRunning, Report, useCourse, useOnEnd, Way } from "./courses.js";
import { LastDrill } from "./drill.js";
import { Moves } from "./moves.js";
import { Command, Empty, Mark, NoneOrWhy, Time, Trouble, Waiting } from "./parts.js";
import { RollingWays } from "./rolling.js";

const { MOVES } = pure;
/** @param {{name: string, links: {name: string, source: string, target: string}[]}} props */
export function FailoverView({ name, links }) {
  const link = usePolled(ofApi(name), 1_000);
  const run = useCourse(ofApi(name, "/run"), pure.isUnderWay);
  const failover = useCourse(ofApi(name, "/failover"), isRunning);
  const drill = useCourse(ofApi(name, "/drill"), ({ is_over }) => !is_over);
  const rolling = useAsked(ofApi(name, "/rolling"));
  useOnEnd(pure.isUnderWay(run.answer.data), rolling.again);
  if (!link.data) return html`<h2 class="hidden">Fail over</h2><${Waiting} answer=${link} what="the link" />`;
  const { source, target } = link.data;
  const lastRun = html`<${LastRun} link=${name} answer=${run.answer} begun=${run.quicken} />`;
  if (rolling.data?.merges) {
    return html`<section class="asked" aria-labelledby="failover-title"><h2 id="failover-title" class="hidden">Fail over</h2>
      <${RollingWays} name=${name} source=${source} target=${target} rolling=${rolling.data} again=${rolling.again} begun=${run.quicken}>${lastRun}<//>
    </section>`;
  }
  const begun = () => {
    run.quicken();
    failover.quicken();
  };
  return html`<section class="asked" aria-labelledby="failover-title">
    <h2 id="failover-title" class="hidden">Fail over</h2>
    ${rolling.problem && html`<${Trouble} problem=${rolling.problem}><p>Whether its topics are merged is not known: if they are, it is refused what is offered here.</p><//>`}
    <div class="say"><p class="say-first"><span class="say-mark tone-${exposureTone(link.data)}" aria-hidden="true"></span>${exposureSentences(link.data, link.data.at_ms)[0] ?? "What would be lost is not told by this service."}</p><p class="dim">${[...exposureSentences(link.data, link.data.at_ms).slice(1), pure.fenceSentence(link.data.failover_fence)].join(" ")} <a class="under" href=${ofPart(name, "groups")}>By group</a></p></div>
    <${MirrorWays} name=${name} source=${source} target=${target} links=${links} begun=${begun} drilled=${drill.quicken} />
    ${lastRun}
    <${LastFailover} answer=${failover.answer} />
    <${LastDrill} answer=${drill.answer} />
  </section>`;
}

/** @param {{name: string, source: string, target: string, links: {name: string, source: string, target: string}[], begun: () => void, drilled: () => void}} props */
function MirrorWays({ name, source, target, links, begun, drilled }) {
  const [isTailShown, setTailShown] = useState(false);
  const backs = links.filter((each) => each.source === target && each.target === source).map((each) => each.name);
  const reverse = { ...MOVES.reverse, fields: MOVES.reverse.fields.map((field) => (field.name === "back" ? { ...field, choices: backs } : field)) };
  return html`
    <div class="ways">
      <${Way} title="Before the day: drill" text="Rehearses it on both clusters, with topics and groups that are made up; the link’s own are only read."><${Moves} moves=${[MOVES.drill]} link=${name} label="Rehearse a switch of the link" begun=${drilled} /><//>
      <${Way} title="Planned: switch" text="Both clusters live, and nothing is to be lost, doubled or read again."><${Moves} moves=${[MOVES.switch]} link=${name} label="Switch the link" begun=${begun} /><//>
      <${Way} title="The source is gone: fail over" text="${source} does not come back in time: go on at ${target} with what is there."><${Moves} moves=${[MOVES.failover]} link=${name} label="Fail the link over" begun=${begun} /><//>
      <${Way} title="What never crossed: the tail" text="Once ${source} is there again: records that it had, and its mirrors never got."><button type="button" aria-expanded=${isTailShown} onClick=${() => setTailShown(!isTailShown)}>${isTailShown ? "Hide it" : "Look for it"}</button><//>
      <${Way} title="The way back: reverse" text="${source} gets what came to ${target} since, without a full copy.">${backs.length ? html`<${Moves} moves=${[reverse]} link=${name} label="Reverse the link" begun=${begun} />` : html`<p class="dim">There is no link from ${target} to ${source} yet. Add one to the file; it may run: it rests while it is reversed.</p>`}<//>
    </div>
    ${isTailShown && html`<${Tail} link=${name} />`}`;
}

/** @param {{link: string, answer: import("../service.js").Answer, begun: () => void}} props */
function LastRun({ link, answer, begun }) {
  now.value; // what is under way takes longer
  /** @type {pure.Run | null} */
  const run = answer.data;
  const isFinish = run?.kind === "finish";
  const [on, back] = isFinish ? [FINISH.on, FINISH.back] : [MOVES.switchOn, MOVES.switchBack];
  return html`<section class="card detail" aria-labelledby="run-title"><h3 id="run-title" class="second">The last ${isFinish ? "finish of a rolling switch" : "switch"}</h3>
    ${!run ? html`<${NoneOrWhy} answer=${answer} none="It was never switched." />` : html`
      <p class="detail-state" role="status"><${Mark} of=${pure.shownRun(run)} /> <span class="dim">${counted(run.topics.length, "topic")}, begun by ${run.by} at <${Time} ms=${run.began_ms} /></span></p>
      ${pure.isUnderWay(run) && html`<p>${pure.runAdvice(run)}</p>`}
      ${pure.isUnderWay(run) && !run.is_carried_out && html`<${Moves} moves=${run.may_go_back ? [on, back] : [on]} link=${link} label="What becomes of the run" begun=${begun} />`}
      <div class="over" tabindex="0" role="group" aria-label="Steps"><table class="table"><thead><tr><th scope="col">Step</th><th scope="col">State</th><th scope="col" class="r">Took</th><th scope="col">What it came to</th></tr></thead><tbody>
        ${run.steps.map((step) => html`<tr key=${step.name}><td>${step.name}</td><td><${Mark} of=${pure.shownStep(step.state)} /></td><td class="r num">${pure.tookText(step, Date.now())}</td><td class="reason fill">${step.text}</td></tr>`)}
      </tbody></table></div>
      <${Report} text=${run.text} />`}
  </section>`;
}

/** @param {{answer: import("../service.js").Answer}} props */
function LastFailover({ answer }) {
  const course = answer.data;
  return html`<section class="card detail" aria-labelledby="last-failover-title"><h3 id="last-failover-title" class="second">The last failover</h3>
    ${!course ? html`<${NoneOrWhy} answer=${answer} none="It was never failed over." />` : html`
      <${CourseHead} course=${course} again="Fail over again: it goes on where it was, and tells the same." />
      ${course.told.map((/** @type {string} */ text, /** @type {number} */ place) => html`<p key=${place} class="dim">Waited: ${text}</p>`)}
      ${course.result && html`<p>${pure.missingSentence(course.result)} ${pure.movedGroups(course.result).join(" ")}</p>${pure.openingLines(course.result).map(({ text, tone }) => html`<p key=${text} class=${tone ? `tone-${tone}` : "dim"}>${text}</p>`)}${!course.result.is_source_fenced && html`<p class="tone-lag">The source is not fenced: if it still runs, or comes back, producers may still write there.</p>`}<${Report} text=${course.text} />`}`}
  </section>`;
}

/** @typedef {{offset: number, timestamp_ms: number, key: string | null, value: string | null}} Sample */
/** @typedef {{topic: string, partition: number, target: string, records: number, bytes: number, first: number | null, last: number | null, first_ms: number | null, last_ms: number | null, deleted: number, lost_at_source: number, appended: number, refused: number, dropped: number, is_open: boolean, sample: Sample[]}} TailRow */

/** @param {{link: string}} props */
function Tail({ link }) {
  return html`<${Asked} title="The tail" path=${ofApi(link, "/tail")}>${(/** @type {any} */ tail, /** @type {() => void} */ again) => html`
    <p class="answer">${pure.tailSentence(tail)}</p>
    ${tail.open_transactions.length > 0 && html`<p class="tone-lag">${counted(tail.open_transactions.length, "transaction is", "transactions are")} open at the source: wait until they have ended.</p>`}
    ${Object.entries(/** @type {Record<string, string>} */ (tail.why_not)).map(([topic, why]) => html`<p key=${topic}><span class="mono">${topic}</span>: <span class="tone-lag">${why}</span></p>`)}
    ${tail.records > 0 && html`<${Moves} moves=${[MOVES.append, MOVES.export, MOVES.drop]} link=${link} label="What becomes of the tail" ended=${again} />`}
    ${tail.rows.length === 0 ? html`<${Empty} title="No partition has a tail.">In a terminal, with records: <${Command} text=${`heliostat tail show ${link} -c heliostat.yaml`} /><//>` : html`<${Rows} label="Partitions with a tail" rows=${tail.rows} head=${html`<th scope="col">Partition</th><th scope="col" class="r">Records</th><th scope="col" class="r wide">Bytes</th><th scope="col" class="r wide">Source offsets</th><th scope="col" class="wide">Written</th><th scope="col">Dealt with</th><th scope="col" class="wide">The first</th>`}>${(/** @type {TailRow} */ row) => html`<tr key=${row.topic + "/" + row.partition}>
      <td class="mono"><a data-step href=${ofTopic(link, row.topic, row.partition)}>${row.topic}-${row.partition}</a></td>
      <td class="r num">${whole(row.records)}</td><td class="r num wide">${bytes(row.bytes)}</td>
      <td class="r num wide">${row.first === null ? "–" : `${whole(row.first)} – ${whole(row.last ?? row.first)}`}</td>
      <td class="wide">${row.first_ms === null ? "–" : clock(row.first_ms)}</td>
      <td class="reason">${dealtWith(row)}</td>
      <td class="mono wide short">${row.sample.length ? bytesText(row.sample[0].value).text : ""}</td>
    </tr>`}<//>`}`}<//>`;
}

/** @param {TailRow} row */
function dealtWith({ appended, refused, dropped, deleted, lost_at_source, is_open }) {
  const parts = [[appended, "appended"], [refused, "exported instead"], [dropped, "dropped"], [deleted, "deleted at the source"], [lost_at_source, "lost at the source"]].filter(([count]) => count);
  return parts.map(([count, word]) => `${whole(Number(count))} ${word}`).join(", ") + (is_open ? " (appending was cut short: append again)" : "") || "–";
}

