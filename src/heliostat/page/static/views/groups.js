// Consumer groups: whether each would resume at the target where it stands at the source.
import { html } from "../html.js";
import { replaceQuery, route } from "../navigation.js";
import { groupHelp, groupsInOrder, groupsSentence, resumeSentence, SETTLED, shownGroup } from "../pure/cluster_answers.js";
import { aclsCommand, commandOf } from "../pure/choices.js";
import { rereadDetails, rereadFigure, rereadSentence } from "../pure/exposure.js";
import { counted, UNKNOWN, whole } from "../pure/format.js";
import { ofGroup, ofPart, ofTopic, ofWhy } from "../pure/route.js";
import { ofApi, useAsked } from "../service.js";
import { Asked, Find, Rows } from "./asked.js";
import { Command, Empty, Mark } from "./parts.js";

/** @typedef {import("../pure/cluster_answers.js").Group} Group */
/** @typedef {{source_topic: string, partition: number, target_topic: string | null, source_offset: number | null, target_offset: number | null, wanted_offset: number | null, reread_records: number | null, reason: string, why: string}} GroupPartition */

/** @param {number | null} value @param {string} [none] */
const offset = (value, none = UNKNOWN) => (value === null ? none : whole(value));

/** Its name, and the one at the target if that is another. @param {Group} group */
const shownName = (group) => (group.target_group === group.group ? group.group : `${group.group} → ${group.target_group}`);

/** @param {{link: string, target: string}} props */
export function Groups({ link, target }) {
  return html`<${Asked} title="Consumer groups" path=${ofApi(link, "/groups?limit=5000")}>${(/** @type {any} */ data) => html`<${GroupList} link=${link} target=${target} data=${data} />`}<//>`;
}

/** @typedef {import("../pure/exposure.js").GroupReread} GroupReread */

/** What would be read again if the source were gone now, by group. @param {string} link */
function useExposure(link) {
  const { data, problem } = useAsked(ofApi(link, "/exposure"));
  /** @type {Map<string, GroupReread>} */
  const groups = new Map((data?.groups ?? []).map((/** @type {GroupReread} */ each) => [each.group, each]));
  return { data, problem, groups };
}

/** @param {string} text */
const lower = (text) => text.charAt(0).toLowerCase() + text.slice(1);

/** @param {{answer: {data: any, problem: import("../service.js").Problem | null}}} props */
function Exposed({ answer: { data, problem } }) {
  if (problem) return html`<p class="tone-lag">What groups would read again if the source were gone now is not known: ${problem.detail || problem.title}.</p>`;
  if (!data) return html`<p class="dim">Asking what groups would read again if the source were gone now …</p>`;
  const why = data.groups_why ? ` Clusters do not tell it now (${data.groups_why}): it is as the driver reported last.` : "";
  return html`<p class="dim">If the source were gone now: ${data.rereads ? lower(rereadSentence(data.rereads)) : "what groups would read again is not known."}${why}</p>`;
}

/** @param {{link: string, target: string, data: {sync: boolean, items: Group[]}}} props */
function GroupList({ link, target, data }) {
  const exposure = useExposure(link);
  const { text = "", open = "" } = route.value.query;
  const set = (/** @type {Record<string, string>} */ changed) => replaceQuery({ text, open, ...changed });
  if (data.items.length === 0) {
    return html`<${Empty} title="The source has no consumer group that we may see.">A group appears once it has committed an offset. Which permissions it takes to see it: <${Command} text=${aclsCommand(link)} /><//>`;
  }
  const part = text.toLowerCase();
  const rows = groupsInOrder(data.items).filter((group) => shownName(group).toLowerCase().includes(part) && (!open || (group.selected && !group.in_sync)));
  /** @param {Group} group */
  const again = (group) => {
    const told = exposure.groups.get(group.group);
    return told ? { text: rereadFigure(told), title: rereadDetails(told), isNone: told.records === 0 } : { text: whole(group.reread_records), title: "", isNone: group.reread_records === 0 };
  };
  return html`<p class="answer">${groupsSentence(data.items, data.sync, target)}</p>
    <${Exposed} answer=${exposure} />
    <${Find} label="Filter groups" text=${text} onText=${(/** @type {string} */ value) => set({ text: value })} says="${whole(rows.length)} of ${counted(data.items.length, "group")}"><label class="check"><input type="checkbox" checked=${!!open} onChange=${(/** @type {any} */ event) => set({ open: event.target.checked ? "1" : "" })} /> not in sync only</label><//>
    ${rows.length === 0 ? html`<${Empty} title="No group matches."><button type="button" onClick=${() => replaceQuery({})}>Clear the filter</button><//>` : html`<${Rows} label="Consumer groups" rows=${rows} head=${html`<th scope="col">Group</th><th scope="col">State</th><th scope="col" class="r" title="if the source were gone now">Reads again</th><th scope="col" class="r wide">Partitions</th><th scope="col" class="wide">At the source</th><th scope="col" class="wide">At the target</th>`}>${(/** @type {Group} */ group) => html`<tr key=${group.group}>
      <td class="mono name"><a data-step href=${ofGroup(link, group.group)} title=${shownName(group)}>${shownName(group)}</a></td>
      <td title=${group.problem ?? group.why}><${Mark} of=${shownGroup(group)} /></td>
      <td class="r num ${again(group).isNone ? "dim" : ""}" title=${again(group).title}>${group.selected || exposure.groups.has(group.group) ? again(group).text : "–"}</td>
      <td class="r num wide">${group.selected ? whole(group.partitions) : "–"}</td>
      <td class="wide dim">${group.source_state ?? "–"}</td><td class="wide dim">${group.target_state ?? "–"}</td>
    </tr>`}<//>`}`;
}

/** @param {{link: string, group: string, target: string}} props */
export function GroupDetails({ link, group, target }) {
  const title = html`<span class="mono">${group}</span> <a class="why-link" href=${ofWhy(link, `group ${group}`)}>Why?</a>`;
  return html`<p class="path"><a href=${ofPart(link, "groups")}>Groups</a> <span class="dim" aria-hidden="true">/</span></p>
    <${Asked} title=${title} path=${ofApi(link, `/groups/${encodeURIComponent(group)}`)}>${(/** @type {any} */ data) => html`<${GroupAnswer} link=${link} target=${target} data=${data} />`}<//>`;
}

/** @param {{link: string, target: string, data: Group & {sync: boolean, items: GroupPartition[], target_members: {client_id: string, host: string}[]}}} props */
function GroupAnswer({ link, target, data }) {
  const exposed = useExposure(link).groups.get(data.group);
  const helps = [...new Set(data.items.map((row) => groupHelp(row.reason)).filter(Boolean))];
  const details = exposed ? rereadDetails(exposed) : "";
  return html`<p class="answer">${resumeSentence(data, target)}</p>
    ${exposed && html`<p class="dim">If the source were gone now, it would read again: <b>${rereadFigure(exposed)}</b>${details && ` (${details})`}.</p>`}
    <p class="topic-figures"><${Mark} of=${shownGroup(data)} /><span class="dim">${data.why}</span>${data.source_state && html`<span class="dim">at the source ${data.source_state}</span>`}${data.target_state && html`<span class="dim">at the target ${data.target_state}</span>`}${data.target_group !== data.group && html`<span class="dim">called <span class="mono">${data.target_group}</span> there</span>`}${data.sync ? "" : html`<span class="tone-lag">groups.sync is off: nothing is published</span>`}</p>
    ${helps.map((text) => html`<p key=${text}><b>What helps:</b> ${text}</p>`)}
    ${data.target_members.length > 0 && html`<p>Its members at ${target}: ${data.target_members.map((each) => `${each.client_id} on ${each.host}`).join(", ")}.</p>`}
    ${data.items.length === 0 ? html`<${Empty} title="It has no offset in a mirrored topic.">${data.selected ? "Once it commits one, it is listed here." : html`Which groups are selected is set by groups.include and groups.exclude of the link. Then look again: <${Command} text=${commandOf("groups", link)} />`}<//>` : html`<${Rows} label="Partitions of the group" rows=${data.items} head=${html`<th scope="col">Partition</th><th scope="col" class="r wide">At the source</th><th scope="col" class="r">Would resume at</th><th scope="col" class="r wide">Should be</th><th scope="col" class="r">Reads again</th><th scope="col">Why</th>`}>${(/** @type {GroupPartition} */ row) => html`<tr key=${row.source_topic + "/" + row.partition}>
      <td class="mono"><a data-step href=${ofTopic(link, row.source_topic, row.partition)}>${row.source_topic}-${row.partition}</a></td>
      <td class="r num wide">${offset(row.source_offset)}</td><td class="r num">${offset(row.target_offset, "none")}</td><td class="r num wide">${offset(row.wanted_offset, "–")}</td><td class="r num">${offset(row.reread_records)}</td>
      <td class="reason"><span class=${SETTLED.has(row.reason) ? "dim" : "tone-lag"}>${row.why}</span> <code class="dim wide">${row.reason}</code></td>
    </tr>`}<//>`}`;
}
