// The lanes of a link: its tasks, each with its part of the partitions.
import { html } from "../html.js";
import { bytes, span, whole } from "../pure/format.js";
import { ofApi, usePolled } from "../service.js";
import { Empty, Waiting } from "./parts.js";

/** @typedef {{lane: number, generation: number, round: number, partitions: number, records_in_round: number, bytes_per_s: number, heard_s_ago: number}} Lane */
const SILENT_AFTER_S = 10;

/** @param {{link: string}} props */
export function Lanes({ link }) {
  const answer = usePolled(ofApi(link), 1_000);
  if (!answer.data) return html`<${Waiting} answer=${answer} what="lanes" />`;
  /** @type {Lane[]} */
  const lanes = answer.data.lanes;
  if (lanes.length === 0) return html`<${Empty} title="No lane copies.">${answer.data.state === "running" ? "The first one reports some seconds after the link's start." : "Lanes are there while the link runs; what they last reported stands in its topics."}<//>`;
  return html`<section class="card" aria-label="Lanes"><table class="table">
    <thead><tr><th scope="col">Lane</th><th scope="col" class="r">Partitions</th><th scope="col" class="r">Bytes/s</th><th scope="col" class="r wide">Records in this round</th><th scope="col" class="r wide">Round</th><th scope="col" class="r wide">Plan</th><th scope="col" class="r">Last report</th></tr></thead>
    <tbody>${lanes.map((lane) => html`<tr key=${lane.lane}><td>${lane.lane}</td><td class="r num">${whole(lane.partitions)}</td><td class="r num">${bytes(lane.bytes_per_s)}</td><td class="r num wide">${whole(lane.records_in_round)}</td><td class="r num wide">${lane.round}</td><td class="r num wide">${lane.generation}</td><td class="r num ${lane.heard_s_ago > SILENT_AFTER_S ? "tone-bad" : ""}">${span(lane.heard_s_ago)} ago</td></tr>`)}</tbody>
  </table></section>`;
}
