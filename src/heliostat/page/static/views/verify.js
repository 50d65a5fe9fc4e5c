// Whether both sides have the same records: a comparison as a job of the service, begun, followed and cancelled here.
import { useEffect, useState } from "preact/hooks";
import { html } from "../html.js";
import { commandOf } from "../pure/choices.js";
import { counted, span, whole } from "../pure/format.js";
import { doneShare, isRunning, shownJob } from "../pure/jobs.js";
import { change, usePolled } from "../service.js";
import { Command, Empty, Mark, Time, Trouble, Waiting } from "./parts.js";

/** @typedef {import("../pure/jobs.js").Job} Job */
const EVERY_MS = 1_000;

/** @param {{link: string}} props */
export function Verify({ link }) {
  const answer = usePolled(`jobs?link=${encodeURIComponent(link)}`, EVERY_MS);
  const [problem, setProblem] = useState(/** @type {import("../service.js").Problem | null} */ (null));
  const [topic, setTopic] = useState("");
  useEffect(() => setProblem(null), [link]);
  /** @type {Job[]} */
  const jobs = answer.data?.items ?? [];
  const running = jobs.find(isRunning);
  const begin = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    setProblem(await change("POST", `links/${encodeURIComponent(link)}/verify`, { topics: topic.split(/[\s,]+/).filter(Boolean) }));
  };
  const cancel = async (/** @type {string} */ id) => setProblem(await change("DELETE", `jobs/${encodeURIComponent(id)}`));
  if (!answer.data) return html`<h2 class="hidden">Verify</h2><${Waiting} answer=${answer} what="comparisons" />`;
  return html`<section class="asked" aria-labelledby="verify-title">
    <h2 id="verify-title" class="second">Verify</h2>
    <p class="dim">Compares records of both sides by content while the link runs; it reads both clusters, as <code>heliostat verify</code> does.</p>
    <form class="ask" onSubmit=${begin}><label for="verify-topic" class="dim">Source topics; empty: all</label><p class="ask-row"><input id="verify-topic" data-filter class="mono" type="search" value=${topic} maxlength="2000" autocomplete="off" spellcheck=${false} onInput=${(/** @type {any} */ event) => setTopic(event.target.value)} /><button type="submit" class="main" disabled=${!!running}>Compare</button></p></form>
    ${problem && html`<${Trouble} problem=${problem} />`}
    ${jobs.length === 0 ? html`<${Empty} title="Nothing was compared yet.">Press “Compare”, or in a terminal: <${Command} text=${commandOf("verify", link)} /><//>` : jobs.map((job) => html`<${JobCard} key=${job.id} job=${job} cancel=${cancel} />`)}
  </section>`;
}

/** @param {{job: Job, cancel: (id: string) => void}} props */
function JobCard({ job, cancel }) {
  const { progress, result, problem, started_ms, ended_ms } = job;
  const share = Math.round(doneShare(job) * 100);
  const topics = job.options.topics ?? [];
  return html`<article class="card detail" aria-label="Comparison of ${new Date(started_ms).toISOString()}">
    <p class="detail-state"><${Mark} of=${shownJob(job)} /> <span class="dim">${topics.length ? topics.join(", ") : "all topics"} · begun by ${job.by} <${Time} ms=${started_ms} />${ended_ms !== null && html`, took ${span((ended_ms - started_ms) / 1000)}`}</span> ${isRunning(job) && job.is_here && html`<button type="button" onClick=${() => cancel(job.id)} disabled=${job.state === "cancelling"}>Cancel</button>`}</p>
    ${isRunning(job) && html`<progress max="100" value=${progress ? share : undefined} aria-label="Part that is compared">${share} %</progress>`}
    ${progress && html`<p class="num dim">${whole(progress.partitions_done)} of ${counted(progress.partitions, "partition")}, ${counted(progress.records, "record")} compared${progress.partitions_different ? html`, <span class="tone-bad">${whole(progress.partitions_different)} differ so far</span>` : ""}${progress.partitions_unread ? html`, <span class="tone-lag">${whole(progress.partitions_unread)} could not be read</span>` : ""}</p>`}
    ${!isRunning(job) && !problem && job.text && html`<p>${job.text}</p>`}
    ${problem && html`<p><span class="tone-bad">${problem.detail}</span> <code class="dim">${problem.code}</code></p>${problem.hint && html`<p><b>What helps:</b> ${problem.hint}</p>`}`}
    ${result && html`<details class="choices"><summary>The report</summary><pre class="report" tabindex="0" role="group" aria-label="The report">${JSON.stringify(result, null, 2)}</pre></details>`}
  </article>`;
}
