// What needs a person: what is stopped, why, since when, and what each choice would do.
import { html } from "../html.js";
import { CHOICES, resolveCommand } from "../pure/choices.js";
import { clock, counted, span, utc } from "../pure/format.js";
import { question } from "../pure/explanation.js";
import { ofTopic, ofTopics, ofWhy } from "../pure/route.js";
import { shown, STOPPED } from "../pure/states.js";
import { Command, State } from "./parts.js";

/** @typedef {{source: string, partition: number, state: string, code: string, reason: string, since_ms: number, position: number}} Problem */
const SHOWN = 6;
const HELD_AFTER_S = 10;

/** @param {{link: any}} props */
export function Needs({ link }) {
  /** @type {Problem[]} */
  const problems = [...link.problems].sort((a, b) => shown(a.state).rank - shown(b.state).rank || b.since_ms - a.since_ms);
  const stopped = problems.filter((problem) => STOPPED.has(problem.state));
  const passing = problems.filter((problem) => !STOPPED.has(problem.state));
  const refused = Object.entries(/** @type {Record<string, string>} */ (link.refused));
  const held = link.held_back.filter((/** @type {any} */ each) => each.age_s > HELD_AFTER_S);
  const count = stopped.length + refused.length + link.troubles.length + held.length;
  return html`<section class="card needs" aria-labelledby="needs-title">
    <h2 id="needs-title">Needs you${count > 0 && html` <span class="badge">${count}</span>`}</h2>
    ${count === 0 && html`<p class="calm"><span class="tone-ok" aria-hidden="true">●</span> Nothing. What is late goes on by itself.</p>`}
    ${link.troubles.map((/** @type {string} */ text) => html`<div class="issue tone-edge-bad" key=${text}><p class="issue-head">${text}</p></div>`)}
    ${stopped.slice(0, SHOWN).map((problem) => html`<${Stop} key=${problem.source + problem.partition} link=${link} problem=${problem} />`)}
    ${stopped.length > SHOWN && html`<p><a href=${ofTopics(link.name, { filter: `state:${stopped[SHOWN].state}` })}>and ${stopped.length - SHOWN} more</a></p>`}
    ${refused.slice(0, SHOWN).map(([topic, why]) => html`<${Refused} key=${topic} link=${link.name} topic=${topic} why=${why} />`)}
    ${refused.length > SHOWN && html`<p class="dim">and ${counted(refused.length - SHOWN, "more topic is", "more topics are")} refused</p>`}
    ${held.slice(0, SHOWN).map((/** @type {any} */ each) => html`<div class="issue tone-edge-lag" key=${each.source + each.partition + each.first}><p class="issue-head"><b class="mono">${each.source}-${each.partition}</b> waits for a transaction</p><p class="dim">Producer ${each.producer_id}${each.transactional_id && ` (${each.transactional_id})`} has it open for ${span(each.age_s)}, since offset ${each.first}; it holds back ${counted(each.records, "record")}. End it at ${link.source}, or let it time out.</p></div>`)}
    ${passing.length > 0 && html`<${Passing} link=${link.name} problems=${passing} />`}
  </section>`;
}

/** @param {{link: any, problem: Problem}} props */
function Stop({ link, problem }) {
  const { source, partition, state, reason, since_ms } = problem;
  return html`<article class="issue tone-edge-bad">
    <p class="issue-head"><a class="mono" data-step href=${ofTopic(link.name, source, partition)}>${source}<span class="dim">-${partition}</span></a> <${State} state=${state} /> <a class="why-link" href=${ofWhy(link.name, question(source, partition))}>Why?</a></p>
    <p>${sentence(reason || problem.code)} <${Since} ms=${since_ms} now=${link.at_ms} /></p>
    <${Choices} link=${link.name} problem=${problem} />
  </article>`;
}

/** @param {{ms: number, now: number}} props */
function Since({ ms, now }) {
  return ms > 0 ? html`<span class="dim" title=${utc(ms)}>Since ${clock(ms)}, ${span(Math.max(0, (now - ms) / 1000))} ago.</span>` : null;
}

/** What can be done, each with its command. @param {{link: string, problem: {source: string, partition: number | null, code: string}, isOpen?: boolean}} props */
export function Choices({ link, problem, isOpen = false }) {
  const choices = CHOICES[problem.code] ?? [];
  const { source, partition } = problem;
  return html`<details class="choices" open=${isOpen}>
    <summary>What you can do</summary>
    <p class="dim">In numbers, without changing anything:</p>
    <${Command} text=${resolveCommand(link, source, partition)} />
    <dl>${choices.map(({ choice, does }) => html`<div key=${choice}><dt>${choice.replace("_", " ")}</dt><dd>${does}<${Command} text=${resolveCommand(link, source, partition, choice)} /></dd></div>`)}</dl>
  </details>`;
}

/** @param {{link: string, topic: string, why: string}} props */
function Refused({ link, topic, why }) {
  return html`<article class="issue tone-edge-bad"><p class="issue-head"><b class="mono">${topic}</b> <span class="state tone-bad"><span class="glyph" aria-hidden="true">✕</span>refused</span> <a class="why-link" href=${ofWhy(link, topic)}>Why?</a></p><p>${sentence(why)}</p><${Command} text=${resolveCommand(link, topic, null)} /></article>`;
}

/** @param {{link: string, problems: Problem[]}} props */
function Passing({ link, problems }) {
  return html`<details class="choices passing"><summary>${counted(problems.length, "partition waits or retries", "partitions wait or retry")}: no need to act</summary>
    <ul class="passing-list">${problems.slice(0, 20).map((problem) => html`<li key=${problem.source + problem.partition}><a class="mono" href=${ofTopic(link, problem.source, problem.partition)}>${problem.source}-${problem.partition}</a> <${State} state=${problem.state} /> <span class="dim">${problem.reason}</span></li>`)}</ul>
  </details>`;
}

/** @param {string} text */
export function sentence(text) {
  const begun = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(begun) ? begun : begun + ".";
}
