// How the last drill of this service went: its verdict, steps, what was counted, and what a real switch would take.
import { html } from "../html.js";
import * as pure from "../pure/drill.js";
import { counted, span } from "../pure/format.js";
import { Mark, NoneOrWhy } from "./parts.js";

/** @param {{answer: import("../service.js").Answer}} props */
export function LastDrill({ answer }) {
  /** @type {pure.Drill | null} */
  const drill = answer.data;
  const report = drill?.report;
  return html`<section class="card detail" aria-labelledby="last-drill-title"><h3 id="last-drill-title" class="second">The last drill</h3>
    ${!drill ? html`<${NoneOrWhy} answer=${answer} none="This service has carried out no drill." />` : html`
      <p class="detail-state" role="status"><${Mark} of=${pure.shownDrill(drill)} /> <span class="dim">by ${drill.by}${drill.cleaned.length > 0 && `, ${counted(drill.cleaned.length, "drill")} cleaned before`}</span></p>
      ${drill.error && html`<p class="tone-bad">${drill.error}</p>`}
      ${report && html`<p>${report.verdict_text}.</p>${report.left && html`<p class="tone-bad">Left behind: ${report.left}</p>`}`}
      ${report?.missing_rights.map((right, place) => html`<p key=${place} class="tone-lag">${pure.rightSentence(right)}</p>`)}
      ${report?.notes.map((text, place) => html`<p key=${place} class="dim">Note: ${text}.</p>`)}
      ${drill.steps.length > 0 && html`<div class="over" tabindex="0" role="group" aria-label="Steps of the drill"><table class="table"><thead><tr><th scope="col">Step</th><th scope="col">State</th><th scope="col" class="r">Took</th><th scope="col">What it came to</th></tr></thead><tbody>
        ${drill.steps.map((step) => html`<tr key=${step.name}><td>${step.name}</td><td><${Mark} of=${pure.shownRehearsal(step)} /></td><td class="r num">${span(step.took_s)}</td><td class="reason fill">${pure.rehearsalText(step)}</td></tr>`)}
      </tbody></table></div>`}
      ${!!report?.scaled.steps.length && html`<details class="choices"><summary>What a real switch would take</summary><div class="over" tabindex="0" role="group" aria-label="Times of a real switch"><table class="table"><thead><tr><th scope="col">Step</th><th scope="col" class="r">In the drill</th><th scope="col" class="r">At least</th><th scope="col" class="r">At most</th><th scope="col">How</th></tr></thead><tbody>
        ${report.scaled.steps.map((step) => html`<tr key=${step.name}><td>${step.name}</td><td class="r num">${span(step.took_s)}</td><td class="r num">${span(step.least_s)}</td><td class="r num">${span(step.most_s)}</td><td class="reason fill">${step.how}</td></tr>`)}
      </tbody></table></div></details>`}`}
  </section>`;
}
