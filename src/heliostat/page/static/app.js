// The page: what stands around the views, and which of them is shown.
import { render } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { html } from "./html.js";
import { isHelpShown, listenToKeys, route } from "./navigation.js";
import { clock, counted, span } from "./pure/format.js";
import { ofLink } from "./pure/route.js";
import { giveToken, needsToken, now, service, startClock, usePolled } from "./service.js";
import { Theme } from "./theme_switch.js";
import { Configuration } from "./views/configuration.js";
import { Events } from "./views/events.js";
import { FailoverView } from "./views/failover.js";
import { Gaps } from "./views/gaps.js";
import { GroupDetails, Groups } from "./views/groups.js";
import { Help } from "./views/help.js";
import { Lanes } from "./views/lanes.js";
import { LetterDetails, Letters } from "./views/letters.js";
import { Link } from "./views/link.js";
import { LinkHead } from "./views/link_head.js";
import { MapView } from "./views/map.js";
import { Empty, useCurrentInSight } from "./views/parts.js";
import { Plan } from "./views/plan.js";
import { RightsView } from "./views/rights.js";
import { Schemas } from "./views/schemas.js";
import { TopicView } from "./views/topic.js";
import { Topics } from "./views/topics.js";
import { Verify } from "./views/verify.js";
import { WhyView } from "./views/why.js";

const GREY_AFTER_S = 10;
const SAID_AFTER_S = 3;
/** @type {string[]} */
let names = [];

function Page() {
  const at = route.value;
  const links = usePolled("links", 1_000);
  const items = links.data?.items ?? [];
  names = items.map((/** @type {{name: string}} */ link) => link.name);
  const link = at.link ? items.find((/** @type {{name: string}} */ each) => each.name === at.link) : undefined;
  useTitle(at, items);
  return html`
    <a class="skip" href="#main" onClick=${skip}>To the content</a>
    <${Head} links=${items} />
    <${Banner} />
    <${Main} isWide=${at.view === "topics"}>
      ${at.link && html`<${LinkHead} name=${at.link} summary=${link} />`}
      <${View} links=${links} target=${link?.target ?? "the target"} />
    <//>
    ${needsToken.value && html`<${TokenForm} />`}
    ${isHelpShown.value && html`<${Help} />`}
  `;
}

/** @param {{links: import("./service.js").Answer, target: string}} props */
function View({ links, target }) {
  const { view, link = "", topic = "", partition, group = "", offset = 0 } = route.value;
  switch (view) {
    case "map":
      return html`<${MapView} answer=${links} />`;
    case "link":
      return html`<${Link} key=${link} name=${link} />`;
    case "topics":
      return html`<${Topics} key=${link} link=${link} />`;
    case "topic":
      return html`<${TopicView} key=${link + "/" + topic} link=${link} topic=${topic} partition=${partition} />`;
    case "lanes":
      return html`<${Lanes} key=${link} link=${link} />`;
    case "why":
      return html`<${WhyView} key=${link} link=${link} />`;
    case "events":
      return html`<${Events} key=${link} link=${link} />`;
    case "groups":
      return html`<${Groups} key=${link} link=${link} target=${target} />`;
    case "group":
      return html`<${GroupDetails} key=${link + "/" + group} link=${link} group=${group} target=${target} />`;
    case "gaps":
      return html`<${Gaps} key=${link} link=${link} />`;
    case "dead-letters":
      return html`<${Letters} key=${link} link=${link} />`;
    case "letter":
      return html`<${LetterDetails} key=${[link, topic, partition, offset].join("/")} link=${link} topic=${topic} partition=${partition ?? 0} offset=${offset} />`;
    case "schemas":
      return html`<${Schemas} key=${link} link=${link} target=${target} />`;
    case "verify":
      return html`<${Verify} key=${link} link=${link} />`;
    case "failover":
      return html`<${FailoverView} key=${link} name=${link} links=${links.data?.items ?? []} />`;
    case "rights":
      return html`<${RightsView} key=${link} link=${link} target=${target} />`;
    case "configuration":
      return html`<${Configuration} key=${link} link=${link} />`;
    case "plan":
      return html`<${Plan} key=${link} link=${link} target=${target} />`;
    default:
      return html`<${Empty} title="There is nothing at this address."><a href="#/">To the map</a><//>`;
  }
}

/** @param {{isWide: boolean, children?: any}} props */
function Main({ isWide, children }) {
  const main = useRef(/** @type {HTMLElement | null} */ (null));
  const { view, link, topic, partition, group, offset, query } = route.value;
  const where = [view, link, topic, partition, group, offset].join("/");
  const first = useRef(where);
  useEffect(() => {
    if (first.current === where || query.focus) return;
    first.current = where;
    main.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [where]);
  const ageS = (now.value - service.value.okAt) / 1000;
  return html`<main id="main" tabindex="-1" ref=${main} class="${isWide ? "tall" : ""} ${ageS >= GREY_AFTER_S ? "stale" : ""}">${children}</main>`;
}

/** @param {{links: {name: string, state: string, stopped: number}[]}} props */
function Head({ links }) {
  const at = route.value;
  const current = (/** @type {boolean} */ is) => (is ? "page" : undefined);
  const nav = useCurrentInSight(at.view + "/" + (at.link ?? "") + "/" + links.length);
  return html`<header>
    <a class="brand" href="#/"><span class="sun" aria-hidden="true"></span>Heliostat</a>
    <nav ref=${nav} aria-label="Links">
      <a href="#/" aria-current=${current(at.view === "map")}>Map</a>
      ${links.map((link) => html`<a key=${link.name} href=${ofLink(link.name)} aria-current=${current(at.link === link.name)}>${link.name}${link.stopped > 0 && html`<span class="badge" title="${counted(link.stopped, "partition waits", "partitions wait")} for your decision">${link.stopped}</span>`}</a>`)}
      <a href="#/events" aria-current=${current(at.view === "events" && !at.link)}>Events</a>
    </nav>
    <div class="head-end">
      <${Freshness} />
      <${Theme} />
      <button type="button" class="plain" onClick=${() => (isHelpShown.value = true)} aria-label="Keys" title="Keys (?)"><kbd>?</kbd></button>
    </div>
  </header>`;
}

function Freshness() {
  const ageS = (now.value - service.value.okAt) / 1000;
  const text = ageS < SAID_AFTER_S ? clock(Date.now()) : `as of ${span(Math.max(0, ageS))} ago`;
  const zone = new Intl.DateTimeFormat("en", { timeZoneName: "short" }).formatToParts().find((part) => part.type === "timeZoneName")?.value;
  return html`<span class="num dim fresh ${ageS >= GREY_AFTER_S ? "tone-lag" : ""}" title="What you see is ${span(Math.max(0, ageS))} old">${text}${ageS < SAID_AFTER_S && html`<span class="zone"> ${zone}</span>`}</span>`;
}

function Banner() {
  const { failingSince, why, okAt } = service.value;
  const isLong = failingSince > 0 && now.value - okAt > SAID_AFTER_S * 1000;
  return html`<div role="status" class="banner-place">${isLong && html`<p class="banner"><b>The service does not answer</b> since ${clock(failingSince)}: ${why}. What you see is ${span((now.value - okAt) / 1000)} old. Copying does not depend on it: <code>heliostat status</code> tells how it goes.</p>`}</div>`;
}

function TokenForm() {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useEffect(() => dialog.current?.showModal(), []);
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const input = /** @type {HTMLInputElement} */ (dialog.current?.querySelector("input"));
    if (input.value) giveToken(input.value);
  };
  return html`<dialog ref=${dialog} aria-labelledby="token-title" onCancel=${(/** @type {Event} */ event) => event.preventDefault()}>
    <form onSubmit=${submit}>
      <h2 id="token-title">This service asks for a token</h2>
      <p class="dim">One of service.tokens_file, of any role. It is kept until this tab is closed.</p>
      <p><label>Token <input type="password" autocomplete="off" required /></label></p>
      <p class="end"><button type="submit" class="main">Go on</button></p>
    </form>
  </dialog>`;
}

/** @param {import("./pure/route.js").Route} at @param {{stopped: number}[]} links */
function useTitle(at, links) {
  const count = links.reduce((sum, link) => sum + link.stopped, 0);
  const place = [at.topic, at.group, at.link, at.view === "events" && !at.link ? "Events" : ""].filter(Boolean).join(" · ");
  const title = (count ? `(${count}) ` : "") + (place ? `${place} · Heliostat` : "Heliostat");
  useEffect(() => {
    document.title = title;
  }, [title]);
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

startClock();
listenToKeys(() => names);
const page = /** @type {HTMLElement} */ (document.getElementById("page"));
page.replaceChildren();
render(html`<${Page} />`, page);
