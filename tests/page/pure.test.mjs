// The page's logic without a browser: node --test tests/page
import assert from "node:assert/strict";
import { test } from "node:test";

const from = new URL("../../src/heliostat/page/static/pure/", import.meta.url);
const read = (name) => import(new URL(name, from));
const format = await read("format.js");
const states = await read("states.js");
const routes = await read("route.js");
const filter = await read("topic_filter.js");
const rows = await read("rows_window.js");
const field = await read("field_layout.js");
const says = await read("sentence.js");
const choices = await read("choices.js");
const map = await read("map_layout.js");
const explanation = await read("explanation.js");
const pages = await read("pages.js");
const stream = await read("event_stream.js");
const jobs = await read("jobs.js");
const clusters = await read("cluster_answers.js");
const exposure = await read("exposure.js");
const actions = await read("actions.js");
const drift = await read("drift.js");
const levels = await read("levels.js");
const definitions = await read("definitions.js");

const TOPIC = { source: "ESS.temperature", target: "summit.ESS.temperature", partitions: 1, records_per_s: 2, bytes_per_s: 20, lag_records: 0, lag_s: null, states: { copying: 1 }, mapped: 0, unknown: 0 };
const topic = (changes) => ({ ...TOPIC, ...changes });
const LINK = { name: "l", source: "summit", target: "usdf", state: "running", in_sync: true, lag_records: 0, lag_s: null, unknown: 0, problems: 0, stopped: 0, refused: 0 };
const link = (changes) => ({ ...LINK, ...changes });
const plain = (text) => text.replaceAll("\u202f", " ");

test("what is not known is never 0", () => {
  assert.equal(format.lag(null), "?");
  assert.equal(format.lag(undefined), "?");
  assert.equal(format.lag(0), "0");
  assert.equal(plain(format.lag(0, 1)), "≥ 0");
  assert.equal(plain(format.lag(1204, 2)), "≥ 1,204");
  assert.equal(format.age(null, 3), "?");
  assert.equal(format.age(null, null), "?");
  assert.equal(format.age(null, 0), "–");
  assert.equal(format.age(null, 0, 1), "?");
  assert.equal(plain(format.age(8.1, 3, 1)), "≥ 8.1 s");
});

test("figures as text", () => {
  const cases = [[0, "0"], [0.01, "<0.1"], [0.94, "0.9"], [9.96, "10.0"], [2214.4, "2,214"]];
  for (const [value, text] of cases) assert.equal(format.rate(value), text);
  for (const [s, text] of [[0.42, "0.4 s"], [45, "45 s"], [240, "4 min"], [7500, "2 h 5 min"], [90_000, "25 h"], [200_000, "2 d 7 h"]]) assert.equal(plain(format.span(s)), text);
  for (const [value, text] of [[0, "0 B"], [999, "999 B"], [3_400_000, "3.4 MB"], [999_900, "1.0 MB"], [5e15, "5000 TB"]]) assert.equal(plain(format.bytes(value)), text);
  assert.deepEqual(format.latencyParts(null), ["–", ""]);
  assert.deepEqual(format.latencyParts(46.2), ["46", "ms"]);
  assert.deepEqual(format.latencyParts(12_300), ["12.3", "s"]);
  assert.equal(format.counted(1, "partition"), "1 partition");
  assert.equal(format.counted(2000, "partition"), "2,000 partitions");
});

test("a time of another day names the day", () => {
  const now = new Date(2026, 10, 28, 14, 3, 19).getTime();
  assert.equal(format.clock(now, now), "14:03:19");
  assert.equal(format.clock(now - 86_400_000, now), "27 Nov 14:03");
});

test("addresses are read as they are written", () => {
  const name = "a/b ?#%-é";
  for (const [address, route] of [
    ["#/", { view: "map" }],
    ["", { view: "map" }],
    [routes.ofLink(name), { view: "link", link: name }],
    [routes.ofTopics("l", { filter: "lag>10s /a|b/", sort: "" }), { view: "topics", link: "l", query: { filter: "lag>10s /a|b/" } }],
    [routes.ofTopic("l", name, 3), { view: "topic", link: "l", topic: name, partition: 3 }],
    [routes.ofTopic("l", name), { view: "topic", link: "l", topic: name }],
    ["#/links/l/lanes", { view: "lanes", link: "l" }],
    ["#/events", { view: "events" }],
    [routes.ofPart("l", "dead-letters", { text: "a b" }), { view: "dead-letters", link: "l", query: { text: "a b" } }],
    [routes.ofGroup("l", name), { view: "group", link: "l", group: name }],
    [routes.ofLetter("l", name, 0, 7), { view: "letter", link: "l", topic: name, partition: 0, offset: 7 }],
  ]) assert.deepEqual(routes.parse(address), { query: {}, ...route });
  for (const nowhere of ["#/x", "#/links", "#/links/l/x", "#/links/l/topics/t/p", "#/links/l/topics/t/1/2", "#/events/x", "#/links/l/plan/x", "#/links/l/groups/g/x", "#/links/l/dead-letters/t/0", "#/links/l/dead-letters/t/0/x"]) assert.equal(routes.parse(nowhere).view, "nowhere");
  assert.equal(routes.parse("#/links/%zz").link, "%zz");
});

test("filter: words that all have to be true", () => {
  const late = topic({ source: "GIS.state", target: "GIS.state", lag_records: 120, lag_s: 30, states: { blocked: 1, copying: 3 }, partitions: 4, records_per_s: 0 });
  const unknown = topic({ source: "X", target: "X", lag_records: null, lag_s: null, unknown: 1 });
  const all = [TOPIC, late, unknown];
  for (const [text, expected] of [
    ["", [0, 1, 2]],
    ["ess", [0]],
    ["TEMP ess", [0]],
    ["summit.", [0]],
    ["/^(ess|gis)/", [0, 1]],
    ["/ess temp/", []],
    ["state:blocked", [1]],
    ["state:b", [1]],
    ["-state:blocked", [0, 2]],
    ["lag>100", [1, 2]],
    ["lag>10s", [1, 2]],
    ["lag<1", [0]],
    ["lag>=2min", [2]],
    ["rate>1", [0, 2]],
    ["partitions>=4", [1]],
    ["is:unknown", [2]],
    ["is:mapped", []],
    ["-/state/ -X", [0]],
    ["-", []],
  ]) {
    const made = filter.filterOf(text);
    assert.deepEqual(all.map((row, place) => (made.test(row) ? place : -1)).filter((place) => place >= 0), expected, text);
    assert.equal(made.problem, "", text);
  }
  for (const wrong of ["/(/", "lag>x", "rate>5s", "is:x"]) assert.notEqual(filter.filterOf(wrong).problem, "", wrong);
  assert.ok(filter.filterOf("/(/ ess").test(TOPIC), "what is wrong hides nothing");
});

test("order: problems first, then what lags, then the busiest; each column both ways", () => {
  const made = [
    topic({ source: "a", records_per_s: 1 }),
    topic({ source: "b", records_per_s: 9 }),
    topic({ source: "c", lag_records: 5 }),
    topic({ source: "d", states: { copying: 1, gap: 1 } }),
    topic({ source: "e", lag_records: null }),
    topic({ source: "f", states: { blocked: 1 } }),
  ];
  const names = (sort) => filter.sorted(made, sort).map((row) => row.source).join("");
  assert.equal(names("problems"), "fdecba");
  assert.equal(names("name"), "abcdef");
  assert.equal(names("-name"), "fedcba");
  assert.equal(names("-lag"), "ecabdf");
  assert.equal(names("-rate")[0], "b");
  assert.equal(names("no such column"), "abcdef");
  for (const sort of filter.SORTS) assert.equal(names(sort).length, made.length);
});

test("5,000 rows are filtered and sorted within a frame", () => {
  const made = Array.from({ length: 5000 }, (_, n) => topic({ source: `lsst.sal.T${(n * 7919) % 5000}`, lag_records: n % 13 }));
  const run = () => filter.sorted(made, "problems").filter(filter.filterOf("/t1/ lag>3").test);
  run();
  const began = performance.now();
  assert.ok(run().length > 0);
  assert.ok(performance.now() - began < 100);
});

test("rows in sight and some around", () => {
  assert.deepEqual(rows.rowsWindow(5000, 34, 0, 680), { first: 0, end: 30 });
  assert.deepEqual(rows.rowsWindow(5000, 34, 34_000, 680), { first: 990, end: 1030 });
  assert.deepEqual(rows.rowsWindow(3, 34, 9999, 680), { first: 2, end: 3 });
  assert.deepEqual(rows.rowsWindow(0, 34, 0, 680), { first: 0, end: 0 });
  assert.equal(rows.inSight(0, 34, 100, 340), 0);
  assert.equal(rows.inSight(5, 34, 100, 340), 100);
  assert.equal(rows.inSight(20, 34, 100, 340), 21 * 34 - 340);
});

test("every tile of the field has a place, and a point finds it", () => {
  for (const [count, width, height] of [[1, 300, 300], [60, 800, 318], [5000, 841, 318], [5000, 358, 318], [30_000, 841, 318]]) {
    const layout = field.fieldLayout(count, width, height);
    assert.ok(layout.columns * layout.rows >= count);
    assert.ok(layout.columns * layout.size <= width + 1e-6);
    for (const place of [0, count >> 1, count - 1]) {
      const x = ((place % layout.columns) + 0.5) * layout.size;
      const y = (Math.floor(place / layout.columns) + 0.5) * layout.size;
      assert.equal(field.tileAt(layout, count, x, y), place);
    }
    assert.equal(field.tileAt(layout, count, -1, 0), -1);
    assert.equal(field.tileAt(layout, count, width + 99, 0), -1);
  }
  assert.equal(field.fieldLayout(0, 300, 300).rows, 0);
  assert.deepEqual(["ArrowRight", "ArrowDown", "ArrowLeft", "End", "a"].map((key) => field.tileAfter(key, 0, 10, 25)), [1, 10, 0, 24, -1]);
  assert.equal(field.brightness(0), 0);
  assert.ok(field.brightness(0.1) < field.brightness(10) && field.brightness(1e9) === 1);
});

test("tiles: not known is not quiet, stopped is bad whatever its lag", () => {
  assert.equal(states.tileTone("copying", 0, null, 0), "quiet");
  assert.equal(states.tileTone("copying", 3, 0.5, 2), "ok");
  assert.equal(states.tileTone("copying", 3, 11, 2), "lag");
  assert.equal(states.tileTone("copying", 3, null, 2), "lag");
  assert.equal(states.tileTone("copying", null, null, 2), "unknown");
  assert.equal(states.tileTone("gap", 0, null, 0), "bad");
  assert.equal(states.tileTone("a later state", 0, null, 0), "unknown");
  assert.deepEqual(states.worstFirst({ copying: 1, retrying: 1, gap: 2 }).map(([name]) => name), ["gap", "retrying", "copying"]);
});

test("a link's state as a sentence", () => {
  const at = new Date(2026, 10, 28, 14, 3, 27).getTime();
  const text = (changes, moving) => plain(says.linkSentence(link(changes), at, moving ?? null).text);
  assert.equal(text({}), "usdf has everything that summit has.");
  assert.equal(text({ lag_records: 1204, lag_s: 8 }), "usdf has everything up to 14:03:19, 8.0 s ago.");
  assert.equal(text({ problems: [{ state: "gap" }, { state: "retrying" }] }, { lag: 5, lagS: 2, unknown: 0, stopped: 1 }), "usdf has everything up to 14:03:25, 2.0 s ago, but for 1 partition that is stopped.");
  assert.equal(text({ stopped: 1, problems: [{ state: "gap" }, { state: "retrying" }] }), "usdf has everything that summit has, but for 1 partition that is stopped.");
  assert.equal(text({ lag_records: null, unknown: 3 }), "It is not known how far usdf is behind summit.");
  assert.equal(text({ lag_records: 4, lag_s: null }), "It is not known how far usdf is behind summit.");
  assert.match(text({ state: "unreachable" }), /usdf does not answer/);
  assert.match(text({ state: "no_owner" }), /No driver runs it/);
  const again = says.linkSentence(link({ restarts: { reason: "[PROTOCOL] a foreign record", text: "", count: 2 } }), at, null);
  assert.deepEqual(again.more.map(plain), ["It has begun again 2 times lately, after [PROTOCOL] a foreign record"]);
  const restarts = { count: 2, reason: "[PROTOCOL] a foreign record", text: "it begins again in 2 min (restart 2 of 7)" };
  assert.equal(text({ state: "halted", restarts }), "It has halted: [PROTOCOL] a foreign record");
  assert.deepEqual(says.linkSentence(link({ state: "halted", restarts }), at, null).more.map(plain), ["It begins again in 2 min (restart 2 of 7)."]);
  assert.match(text({ state: "paused", wish: { state: "paused", by: "ops", at_ms: 1, why: "the disk is full" } }), /Nothing is copied .* the link is paused/);
  const stopped = says.linkSentence(link({ state: "no_owner", would_be_lost: { records: 7, age_s: 60, truth: "bound" } }), at, null);
  assert.match(plain(stopped.more[0]), /at least 7 records would be lost, the oldest 60 s old/);
  assert.equal(text({ unknown: 2 }), "As far as is known, usdf has everything that summit has.");
  assert.equal(says.linkSentence(link({ unknown: 2 }), at, null).more.length, 1, "what is not known is said");
});

test("a wish that waits says why", () => {
  const why = "the link has no owner now";
  assert.equal(says.wishWaits({ wish: { state: "paused" }, wish_waits: why }), "It waits: the link has no owner now.");
  assert.equal(says.wishWaits({ wish: null, wish_waits: why }), "What is wished waits: the link has no owner now.");
  assert.equal(says.wishWaits({ wish: null, wish_waits: "" }), "");
});

test("what would be lost is never better than the truth", () => {
  const loss = (records, truth, age_s = null) => ({ records, age_s, truth });
  const text = (changes, atMs) => exposure.exposureSentences(link(changes), atMs).map(plain);
  const cases = [
    [loss(0, "exact", 0), "If summit were lost now, nothing would be lost with it."],
    [loss(0, "bound", 0), "If summit were lost now, at least 0 records would be lost."],
    [loss(1, "exact", 7), "If summit were lost now, 1 record would be lost, the oldest 7.0 s old."],
    [loss(1204, "bound", 130), "If summit were lost now, at least 1,204 records would be lost, the oldest 2 min old."],
    [loss(3, "exact"), "If summit were lost now, 3 records would be lost."],
    [loss(null, "not_known"), "What would be lost with summit now is not known."],
  ];
  for (const [would_be_lost, expected] of cases) assert.deepEqual(text({ would_be_lost }), [expected]);
  assert.deepEqual(text({}), [], "an older service does not tell it");
  assert.equal(text({ would_be_lost: loss(0, "bound"), without_mirror: 2 })[1], "So would all of 2 topics that have no mirror.");
  const unfenced = { count: 2, by: "ann", at_ms: 1, topics: ["a", "b"] };
  assert.equal(
    text({ would_be_lost: loss(0, "exact", 0), unfenced })[0],
    "2 topics were failed over by ann: until summit is fenced it may still be written, and that is not copied.",
  );
  assert.equal(exposure.lossFigure(loss(null, "not_known")), "?");
  for (const [of, tone] of [[loss(0, "exact"), "ok"], [loss(0, "bound"), "lag"], [loss(2, "exact"), "lag"], [loss(null, "not_known"), "unknown"], [undefined, "unknown"]]) assert.equal(exposure.exposureTone(link({ would_be_lost: of })), tone);
  assert.equal(exposure.exposureTone(link({ would_be_lost: loss(0, "exact"), unfenced })), "lag");
  assert.equal(exposure.lossFigure(undefined), "?");
  assert.equal(plain(exposure.lossFigure(loss(4, "bound"))), "≥ 4");
  assert.equal(exposure.lossFigure(loss(0, "exact", 0)), "0");
  assert.equal(exposure.lossAge(loss(0, "exact", 0)), "–");
  assert.equal(exposure.lossAge(loss(4, "exact")), "?");
  assert.equal(exposure.lossAge(undefined), "?");
});

test("what groups would read again, and when that was seen", () => {
  const rereads = (records, truth, changes) => ({ records, truth, groups: 2, unknown: 0, at_ms: 1_000, is_synced: true, ...changes });
  const text = (told, atMs) => plain(exposure.exposureSentences(link({ would_be_lost: { records: 0, age_s: 0, truth: "exact" }, rereads: told }), atMs)[1]);
  assert.equal(text(rereads(0, "exact"), 4_000), "Consumer groups would read nothing again (looked at 3.0 s ago).");
  assert.equal(text(rereads(0, "bound")), "Consumer groups would read nothing again but what they have read since the last look.");
  assert.equal(text(rereads(40, "exact")), "2 consumer groups would read again 40 records.");
  assert.equal(text(rereads(1, "bound", { groups: 1 }), 500), "1 consumer group would read again at least 1 record (looked at 0.0 s ago).");
  assert.equal(text(rereads(40, "exact", { is_synced: false })), "2 consumer groups would read again 40 records: their offsets are not published.");
  assert.equal(text(rereads(null, "not_known")), "What consumer groups would read again is not known.");
  assert.equal(exposure.exposureSentences(link({ would_be_lost: { records: 0, age_s: 0, truth: "exact" }, rereads: null })).length, 1);
});

test("what is missing in partitions that are not stopped", () => {
  const made = { states: ["copying", "gap"], rows: [[0, 0, 0, 1, 5, 2, 9], [0, 1, 1, 0, 900, 600, 9], [0, 2, 0, 0, null, null, 9], [0, 3, 0, 0, 0, null, 9]] };
  assert.deepEqual(says.movingOf(made), { lag: 5, lagS: 2, unknown: 1, stopped: 1 });
  made.rows.push([0, 4, 0, 1, 5, null, 9]);
  assert.equal(says.movingOf(made).lagS, null);
});

test("time until level: only where it falls steadily", () => {
  const samples = (f) => Array.from({ length: 15 }, (_, n) => [n * 2000, f(n)]);
  assert.ok(Math.abs(says.untilLevel(samples((n) => 3000 - 100 * n)) - 32) < 1);
  assert.equal(says.untilLevel(samples(() => 3000)), null);
  assert.equal(says.untilLevel(samples((n) => 3000 + 50 * n)), null);
  assert.equal(says.untilLevel(samples((n) => 3000 + (n % 2) * 100)), null, "it only wavers");
  assert.equal(says.untilLevel(samples(() => 5)), null, "level");
  assert.equal(says.untilLevel([]), null);
});

test("the map's sentence", () => {
  const text = (links) => plain(says.mapSentence(links).text);
  assert.equal(text([]), "There are no links.");
  assert.equal(text([link({})]), "l is in sync; nothing is missing.");
  assert.equal(text([link({ lag_records: 3, lag_s: 0.4 }), link({ name: "m" })]), "All 2 links are in sync; the oldest missing record is 0.4 s old.");
  assert.equal(text([link({ in_sync: false, problems: 3, stopped: 2 }), link({ name: "m" })]), "2 partitions wait for your decision.");
  assert.equal(text([link({ in_sync: false, problems: 3 }), link({ name: "m" })]), "3 partitions are retried.");
  assert.equal(text([link({ in_sync: false, problems: 1, stopped: 1, refused: 2 }), link({ name: "m", state: "unreachable", in_sync: false })]), "1 partition waits for your decision, 2 topics are refused and m is not reachable.");
  assert.equal(text([link({ in_sync: false })]), "l is not level yet.");
  assert.notEqual(says.mapSentence([link({ in_sync: false })]).tone, "ok");
});

test("commands can be pasted as they are", () => {
  assert.equal(choices.resolveCommand("l", "a.b-c_d", 3, "continue"), "heliostat resolve a.b-c_d 3 --link l --choose continue");
  assert.equal(choices.resolveCommand("l'x", "t", null), "heliostat resolve t --link 'l'\\''x'");
});

test("clusters do not overlap and stay inside, wide and narrow", () => {
  const edges = [["a", "b"], ["b", "a"], ["c", "b"], ["b", "d"], ["e", "b"]].map(([source, target]) => ({ name: source + target, source, target }));
  for (const width of [358, 760, 1000]) {
    for (const count of [1, 2, 3, 5]) {
      const { boxes, curves, height } = map.mapLayout(edges.slice(0, count), width);
      const all = [...boxes.values()];
      assert.equal(curves.size, count);
      all.forEach((box, place) => {
        assert.ok(box.x >= 0 && box.x + box.width <= width && box.y >= 0 && box.y + box.height <= height, `${width} ${count}`);
        for (const other of all.slice(place + 1)) {
          assert.ok(box.x + box.width <= other.x || other.x + other.width <= box.x || box.y + box.height <= other.y || other.y + other.height <= box.y);
        }
      });
    }
  }
  assert.ok(map.lineWidth(0) < map.lineWidth(1e6) && map.lineWidth(1e12) <= 12);
});

test("what is asked why has an address, and each kind of answer a word and a tone", () => {
  const asked = explanation.question("a/b-0", 3, 70);
  assert.equal(asked, "a/b-0-3@70");
  assert.equal(explanation.question("t"), "t");
  assert.deepEqual(routes.parse(routes.ofWhy("l", asked)), { view: "why", link: "l", query: { what: asked } });
  assert.deepEqual(routes.parse(routes.ofWhy("l", "")), { view: "why", link: "l", query: {} });
  for (const kind of ["copied", "late", "waiting", "stopped", "paused", "not_mirrored", "lost", "no_record", "unknown"]) {
    const { glyph, word, tone } = explanation.shownKind(kind);
    assert.ok(glyph && word && tone, kind);
  }
  assert.equal(explanation.shownKind("later").tone, "unknown");
  const choice = { choice: "restart", does: "", why_not: "", command: "c" };
  assert.equal(explanation.effectText("SOURCE_OVERTOOK", { ...choice, does: "5 records" }), "5 records");
  assert.match(explanation.effectText("SOURCE_OVERTOOK", choice), /^Deletes the records/);
  assert.equal(explanation.effectText("X", { ...choice, why_not: "shared" }), "not possible: shared");
  assert.equal(explanation.ended("lsst.sal.ESS is late"), "lsst.sal.ESS is late.");
});

test("all pages of an answer, each row once", async () => {
  const all = Array.from({ length: 25 }, (_, n) => ({ source: `t${n}` }));
  const page = (begin) => ({ items: all.slice(begin, begin + 10), next: begin + 10 < all.length ? String(begin + 10) : null });
  const asked = [];
  const whole = await pages.whole({ ...page(0), as_of_ms: 7 }, async (after) => asked.push(after) && page(Number(after)));
  assert.deepEqual([whole.items, whole.next, whole.as_of_ms, asked], [all, null, 7, ["10", "20"]]);
  const none = { items: [], next: null };
  assert.equal(await pages.whole(none, assert.fail), none);
  const anew = await pages.whole(page(0), async () => page(0)); // the cursor's row is gone
  assert.deepEqual([anew.items.length, anew.next], [10, null]);
  const cut = await pages.whole(page(0), async () => null);
  assert.deepEqual([cut.items.length, cut.next], [10, "10"]);
});

const GROUP = { group: "g", target_group: "g", selected: true, why: "include .*", in_sync: true, problem: null, partitions: 3, open_partitions: 0, reread_records: 0, source_state: null, target_state: null };

test("groups: where each would resume", () => {
  const open = { ...GROUP, group: "a", in_sync: false, open_partitions: 2, reread_records: 120 };
  const failed = { ...GROUP, group: "z", in_sync: false, problem: "not authorized" };
  const off = { ...GROUP, group: "b", selected: false, why: "excluded" };
  assert.deepEqual(clusters.groupsInOrder([off, GROUP, open, failed]).map((group) => group.group), ["z", "a", "g", "b"]);
  assert.deepEqual([off, GROUP, open, failed].map((group) => clusters.shownGroup(group).word), ["not selected", "in sync", "2 of 3 open", "not synced"]);
  assert.equal(clusters.groupsSentence([off], true, "usdf"), "No group of the source is selected.");
  assert.match(clusters.groupsSentence([off, GROUP], true, "usdf"), /^All of 1 group would resume/);
  assert.equal(clusters.groupsSentence([GROUP, open], true, "usdf"), "1 of 2 groups is not in sync.");
  assert.match(clusters.groupsSentence([open], false, "usdf"), /groups.sync is off/);
  assert.equal(clusters.resumeSentence(open, "usdf"), "If it went on at usdf now, it would read 120 records again.");
  assert.match(clusters.resumeSentence({ ...open, reread_records: 0 }, "usdf"), /^2 partitions are not in sync/);
  assert.match(clusters.resumeSentence(failed, "usdf"), /not authorized/);
});

test("gaps and plans in a sentence", () => {
  assert.equal(clusters.lostSentence([{ count: 3 }, { count: null }]), "2 gaps: at least 3 records that the mirror will never have.");
  assert.deepEqual([[5, 9], [5, 5], [5, 4], [5, null]].map(([first, last]) => clusters.gapOffsets({ first, last })), ["5 – 9", "5", "at 5", "5 – ?"]);
  const plan = (kinds, mirrors = 3, is_empty = false) => clusters.planSentence({ kinds, mirrors, is_empty }, "usdf");
  assert.equal(plan({}, 3, true), "Nothing to do at usdf: 3 topics are mirrored as configured.");
  assert.equal(plan({}, 0, true), "Nothing to do at usdf: no topic is selected.");
  assert.equal(plan({ create: 1, grow: 1, refuse: 1, note: 4 }), "2 things to do at usdf, 1 refused; 3 topics are mirrored.");
  for (const [kind, text, shown] of [["create", "create t: 4 partitions", "t: 4 partitions"], ["leave_out", "leave out t: mirror", "t: mirror"], ["start", "begin t by group g", "t by group g"], ["follow", "follow deletions in t: listed", "deletions in t: listed"], ["note", "note: x", "x"], ["new", "new thing", "thing"], ["pipeline", "p fails", "p fails"]]) assert.equal(clusters.planText({ kind, text }), shown);
});

test("schemas: what is not there first", () => {
  const row = (subject, state, version = 1) => ({ subject, state, version });
  const rows = [row("a", "mirrored"), row("b", "refused"), row("a", "missing", 10), row("a", "missing", 9), row("c", "newer")];
  assert.deepEqual(clusters.schemasInOrder(rows).map((each) => `${each.state} ${each.version}`), ["newer 1", "refused 1", "missing 9", "missing 10", "mirrored 1"]);
});

test("bytes of dead letters: text where they are, and never more than can be read", () => {
  const shown = (bytes) => clusters.bytesText(Buffer.from(bytes).toString("base64"));
  assert.equal(clusters.bytesText(null).kind, "null");
  assert.deepEqual(shown("12.4 °C"), { text: "12.4 °C", size: 8, kind: "text", isCut: false });
  assert.deepEqual(shown([0, 255]), { text: "00 ff", size: 2, kind: "bytes", isCut: false });
  const long = shown("°".repeat(3_000).slice(0, 2_049)); // cut in the middle of a letter
  assert.deepEqual([long.kind, long.size, long.isCut, long.text.length], ["text", 4_098, true, 2_048]);
  assert.equal(shown("x" + "°".repeat(3_000)).kind, "text");
});

test("a stream of events in pieces", () => {
  const text = 'retry: 3000\n\nid: 7\ndata: {"id":7}\n\n: still here\n\nid: 8\ndata: {"id"';
  const { messages, rest } = stream.messagesOf(text);
  assert.deepEqual(messages, [{ id: "7", data: '{"id":7}' }]);
  const next = stream.messagesOf(rest + ":8}\r\n\r\n");
  assert.deepEqual(next, { messages: [{ id: "8", data: '{"id":8}' }], rest: "" });
});

test("flows of MirrorMaker 2 that heartbeats reveal", () => {
  const beat = (source, target, age_s) => ({ source, target, age_s });
  const links = [
    { source: "summit", target: "usdf", flows: [beat("base", "summit", 4), beat("summit", "usdf", 0.1), beat("x", "x", 1)] },
    { source: "usdf", target: "summit", flows: [beat("base", "summit", 1), beat("usdf", "tape", 90)] },
    { source: "usdf", target: "lab" },
  ];
  assert.deepEqual(map.beatingFlows(links), [
    { name: "base → summit", source: "base", target: "summit", ageS: 1 },
    { name: "usdf → tape", source: "usdf", target: "tape", ageS: 90 },
  ]);
});

test("a cluster further upstream stands further left", () => {
  const edges = [{ name: "l", source: "summit", target: "usdf" }, { name: "b", source: "usdf", target: "summit" }, { name: "m", source: "base", target: "summit" }];
  const { boxes } = map.mapLayout(edges, 1320);
  assert.ok(boxes.get("base").x < boxes.get("summit").x && boxes.get("summit").x < boxes.get("usdf").x);
  const narrow = map.mapLayout(edges, 980).boxes;
  assert.ok(narrow.get("base").y < narrow.get("summit").y, "one above the other where labels have no room");
});

test("a job in words", () => {
  const job = (changes) => ({ id: "j", state: "running", options: {}, verdict: "open", progress: null, started_ms: 0, ended_ms: null, by: "ann", host: "h", is_here: true, text: "", result: null, problem: null, ...changes });
  const progress = { phase: "comparing", topics: 3, topics_done: 1, partitions: 8, partitions_done: 2, offsets: 1000, offsets_done: 250, records: 240, partitions_different: 0, partitions_unread: 0, verdict: "equal" };
  assert.equal(jobs.shownJob(job({})).word, "starting");
  assert.deepEqual([jobs.shownJob(job({ progress })).word, jobs.doneShare(job({ progress }))], ["comparing", 0.25]);
  assert.equal(jobs.doneShare(job({})), 0);
  assert.equal(jobs.doneShare(job({ progress: { ...progress, offsets: 0 } })), 0);
  assert.deepEqual([["done", "equal"], ["done", "different"], ["done", "open"], ["failed", "open"], ["cancelled", "equal"], ["cut_short", "open"]].map(([state, verdict]) => jobs.shownJob(job({ state, verdict })).word), ["equal", "different", "not compared", "failed", "cancelled", "cut short"]);
  assert.equal(jobs.shownJob(job({ is_here: false })).word, "runs by the service at h");
  assert.equal(jobs.shownJob(job({ state: "newer" })).word, "newer");
});

const STEERED = { state: "running", target: "usdf", wish: null, paused: [], paused_count: 0 };
const steered = (changes) => ({ ...STEERED, ...changes });
const action = (verb) => actions.ACTIONS.find((each) => each.verb === verb);
const verbs = (kind, standing) => actions.offered(kind, standing).map(({ action: each }) => each.verb);
const pauseOf = (place) => ({ place, state: "paused", by: "ops", at_ms: 1, why: "" });

test("what is offered in which state", () => {
  assert.deepEqual(["running", "paused", "stopped", "open"].map((standing) => verbs("link", standing)), [["pause", "stop", "restart", "limit"], ["resume", "stop", "limit"], ["start"], ["pause", "resume", "stop", "restart", "limit"]]);
  assert.deepEqual(["running", "paused", "some", "open"].map((standing) => verbs("topic", standing)), [["pause", "restart", "limit", "prefer"], ["resume", "limit", "prefer"], ["pause", "resume", "restart", "limit", "prefer"], ["pause", "resume", "restart", "limit", "prefer"]]);
  assert.deepEqual(["running", "paused", "open"].map((standing) => verbs("partition", standing)), [["pause", "restart"], ["resume"], ["pause", "resume", "restart"]]);
  for (const [state, standing] of [["running", "running"], ["paused", "paused"], ["stopped", "stopped"], ["no_owner", "open"], ["silent", "open"], ["unknown", "open"], ["newer", "open"]]) assert.equal(actions.linkStanding(steered({ state })), standing);
});

test("a button that takes another's place keeps its key, and no two are the same", () => {
  const keys = (kind, standing) => actions.offered(kind, standing).map(({ key }) => key);
  assert.deepEqual(["running", "paused", "stopped"].map((standing) => keys("link", standing)), [["pause", "stop", "restart", "limit"], ["pause", "stop", "limit"], ["stop"]]);
  assert.deepEqual(keys("link", "open"), ["pause", "resume", "stop", "restart", "limit"]);
});

test("how a topic stands on its own", () => {
  const own = (link, states, pauses = []) => actions.ownStanding(steered(link), states, pauses);
  assert.equal(own({}, { copying: 3 }), "running");
  assert.equal(own({}, {}), "running");
  assert.equal(own({}, { paused: 3 }), "paused");
  assert.equal(own({}, { paused: 1, copying: 2 }), "some");
  assert.equal(own({}, { copying: 2 }, [pauseOf("t")]), "some", "told, and not carried out yet");
  assert.equal(own({}, { copying: 1 }, [pauseOf("t")]), "running", "a partition that was resumed after its topic was paused");
  assert.equal(own({ state: "paused" }, { paused: 3 }), "running", "it rests because of its link");
  assert.equal(own({ state: "paused" }, { paused: 3 }, [pauseOf("t")]), "open");
  assert.equal(own({ state: "stopped", paused_count: 21, paused: [] }, { stopped: 3 }), "open", "not all pauses are told");
  const link = steered({ paused: [pauseOf("a.b-1"), pauseOf("a.b"), pauseOf("axb-1"), pauseOf("a.b-12"), pauseOf("a.b-x")], paused_count: 5 });
  assert.deepEqual(actions.pausesOf(link, "a.b").map(({ place }) => place), ["a.b", "a.b-1", "a.b-12"]);
  assert.deepEqual(actions.pausesOf(link, "a.b", 1).map(({ place }) => place), ["a.b", "a.b-1"]);
  const row = (source, states) => ({ source, states });
  assert.equal(actions.topicsStanding(steered({}), [row("a", { paused: 1 }), row("b", { paused: 2 })]), "paused");
  assert.equal(actions.topicsStanding(steered({}), [row("a", { paused: 1 }), row("b", { copying: 2 })]), "some");
});

test("why nothing can be changed", () => {
  const told = (changes) => ({ data: { name: "anne", role: "operate", may_change: true, ...changes }, problem: null });
  const why = (caller, link, isStale = false) => actions.whyNot(caller, link, isStale);
  assert.equal(why(told({}), steered({})), "");
  assert.equal(why(told({}), steered({ state: "no_owner" })), "", "a wish is kept where there is no driver");
  assert.match(why(told({ role: "view", may_change: false }), steered({})), /token of anne may only look/);
  assert.match(why({ data: null, problem: null }, steered({})), /not known yet/);
  assert.match(why({ data: null, problem: {} }, steered({})), /can’t be read/);
  assert.match(why(told({}), null), /state is not known/);
  assert.match(why(told({}), steered({ state: "unreachable" })), /usdf does not answer/);
  assert.match(why(told({}), steered({}), true), /service does not answer/);
});

test("what is sent, and where", () => {
  const link = { kind: "link", link: "l" };
  const topic = { kind: "topic", link: "l", topic: "a/b ?" };
  const partition = { kind: "partition", link: "l", topic: "t", partition: 0 };
  const topics = { kind: "topics", link: "l", topics: ["a", "b"] };
  assert.deepEqual([link, topic, partition, topics].map((place) => actions.pathOf(action("pause"), place)), ["links/l/pause", "links/l/topics/a%2Fb%20%3F/pause", "links/l/topics/t/partitions/0/pause", "links/l/pause"]);
  assert.deepEqual(actions.bodyOf(action("pause"), link, "  so "), { why: "so" });
  assert.deepEqual(actions.bodyOf(action("pause"), topics, "so", { rate: "20MB/s" }), { why: "so", rate: "20MB/s", topics: ["a", "b"] });
  assert.throws(() => actions.bodyOf(action("pause"), { ...topics, topics: [] }, ""), /0 topics/, "no topic would mean the whole link");
  assert.throws(() => actions.bodyOf(action("pause"), { ...topics, topics: Array(5_001).fill("t") }, ""), /5001/);
  assert.deepEqual([link, partition, topics, { ...topics, topics: ["a"] }].map(actions.placeWords), ["the link l", "t-0", "2 topics", "a"]);
});

test("limits and priorities that stand", () => {
  const said = { by: "api", at_ms: 1, why: "" };
  const limit = (topic, changes) => ({ ...said, topic, bytes_per_second: 20_000_000, used_bytes_per_second: 0, throttled_s: 0, ...changes });
  const prefer = (topics, priority) => ({ ...said, topics, priority });
  const link = { name: "l", state: "running", limits: [limit(null, { used_bytes_per_second: 3_400_000, throttled_s: 75 }), limit("ESS.a")], preferences: [prefer("ESS.*", "high"), prefer("ESS.a", "normal"), prefer("EFD.*", "low")] };
  const rows = levels.levelsOf(link);
  assert.deepEqual(rows.map(({ name, word }) => [name, plain(word)]), [["", "20.0 MB/s at most"], ["ESS.a", "20.0 MB/s at most"], ["EFD.*", "low priority"], ["ESS.a", "normal priority"], ["ESS.*", "high priority"]], "the newest priority first: it counts");
  assert.deepEqual(rows.slice(0, 2).map(({ use }) => plain(use)), ["uses 3.4 MB/s, has held lanes back for 75 s in all", "uses 0 B/s"]);
  assert.equal(levels.levelsOf({ ...link, state: "silent" })[0].use, "what it uses is not known now");
  const back = rows.map(({ action, place }) => action && [actions.pathOf(action, place), actions.bodyOf(action, place, " so ")]);
  assert.deepEqual(back, [
    ["links/l/limit", { why: "so", limit: "none" }],
    ["links/l/topics/ESS.a/limit", { why: "so", limit: "none" }],
    ["links/l/prefer", { why: "so", priority: "normal", topics: ["EFD.*"] }],
    null,
    ["links/l/prefer", { why: "so", priority: "normal", topics: ["ESS.*"] }],
  ]);
  assert.deepEqual(levels.levelsOf(link, "ESS.a").map(({ name, isPattern }) => [name, isPattern]), [["ESS.a", false], ["ESS.a", false], ["ESS.*", true]]);
  assert.deepEqual(levels.levelsOf(link, "ESSxa"), []);
  assert.deepEqual(link.preferences.map(({ topics }) => topics), ["ESS.*", "ESS.a", "EFD.*"], "an answer is not changed");
  assert.deepEqual([["a.*", "axb"], ["*b", "a.b"], ["a*c", "a.b"], ["a", "ab"], ["(", "("]].map(([pattern, topic]) => levels.covers(pattern, topic)), [false, true, false, false, true]);
  assert.equal(levels.untold(link), "");
  assert.equal(levels.untold({ limits: Array(20), preferences: [] }), "Of limits 20 are told at most.");
});

test("links of the home: what is sent, what is foretold, and what became of it", () => {
  const { create, change, delete: remove } = definitions.VERBS;
  const meant = { name: "a/b", origin: "home", content: { source: "s" }, generation: 7, by: "anne", at_ms: 1, why: "", waits: [] };
  const given = (changes) => ({ ...definitions.given(meant), ...changes });
  assert.deepEqual(definitions.requestOf(create, { ...given({ name: "new", why: " so " }) }, null, true), { method: "POST", path: "links?dry_run=true", body: { name: "new", content: { source: "s" }, why: "so" }, tag: "" });
  assert.deepEqual(definitions.requestOf(change, given({}), meant, false), { method: "PUT", path: "links/a%2Fb/definition", body: { content: { source: "s" }, why: "" }, tag: '"7"' });
  assert.deepEqual(definitions.requestOf(remove, given({}), meant, false), { method: "DELETE", path: "links/a%2Fb/definition", body: undefined, tag: '"7"' }, "topics stay unless chosen");
  assert.equal(definitions.requestOf(remove, given({ state: true, mirrors: true, why: "a b" }), meant, true).path, "links/a%2Fb/definition?state=true&mirrors=true&why=a+b&dry_run=true");
  assert.deepEqual(["{", "[]", "null", "3"].map((text) => definitions.lacks(change, given({ content: text })) !== ""), [true, true, true, true]);
  assert.match(definitions.lacks(create, definitions.given(null)), /has a name/);
  assert.deepEqual([definitions.lacks(change, given({})), definitions.lacks(remove, given({ content: "{" }))], ["", ""]);
  const told = (changes) => ({ link: "l", did: "changed", generation: null, content: {}, differs: [], notes: [], topics: [], reach: null, ...changes });
  const says = (verb, changes, more = {}, partitions = 12) => definitions.foretold(verb, given(more), told(changes), partitions).lines.map(({ text }) => text);
  assert.deepEqual(says(change, { differs: ["topics.include"], notes: ["mind"] }), ["The link has 12 partitions now; those that the change does not concern are not disturbed.", "1 field differs: topics.include", "Mind."]);
  const none = { topics: 0, partitions: 0 };
  const reach = (changes) => ({ reach: { selected: { topics: 1_200, partitions: 4_800 }, begun: none, left: none, error: "", ...changes } });
  assert.deepEqual(says(create, reach({})), ["It selects 1,200 topics with 4,800 partitions now."]);
  assert.deepEqual(says(change, { differs: ["x"], ...reach({ begun: { topics: 1, partitions: 4 }, left: { topics: 2, partitions: 1 } }) }), ["It selects 1,200 topics with 4,800 partitions; those that the change does not concern are not disturbed.", "1 topic with 4 partitions would begin to be copied.", "2 topics with 1 partition would be copied no more; their mirrors stay.", "1 field differs: x"]);
  assert.match(says(create, reach({ error: "east does not answer" }))[0], /not known now: east does not answer/);
  assert.deepEqual(definitions.foretold(change, given({}), told({ did: "nothing" }), 1).mayGo, false);
  assert.deepEqual(says(remove, { did: "deleted" }, {}, 1), ["1 partition would be copied no more.", "No topic is deleted."]);
  assert.match(says(remove, { did: "deleted" }, {}, null)[0], /not known/);
  assert.match(says(remove, { did: "deleted" }, { state: true })[1], /no topic to delete/);
  assert.deepEqual(says(remove, { did: "deleted", topics: ["a", "b"] }, { mirrors: true }).slice(1), ["2 topics of the target would be deleted, with all records.", "a", "b"]);
  assert.match(definitions.became(remove, told({ topics: ["a"] })).text, /1 topic: a/);
  assert.deepEqual(definitions.became(change, told({ generation: 9, notes: ["a change by bob came in between"] })), { text: "Written, as generation 9. Runs take it over while they go on.", detail: "A change by bob came in between.", tone: "ok" });
  assert.deepEqual(["home", "file", "connector"].map((origin) => definitions.whyFixed({ origin }) !== ""), [false, true, true]);
  assert.match(definitions.whyNoNew({ home: null }), /service\.home/);
  assert.deepEqual([{ home: "usdf" }, null].map(definitions.whyNoNew), ["", ""], "what is not known yet is no reason");
});

test("what a dry run foretells", () => {
  const told = (changes) => ({ places: ["the link"], changed: ["the link"], partitions: 5_000, is_done: false, waits: "", still_paused: [], took_s: 0.1, ...changes });
  const says = (changes) => actions.foretold(told(changes));
  assert.deepEqual(says({}), ["5,000 partitions."]);
  assert.deepEqual(says({ partitions: 1 }), ["1 partition."]);
  assert.match(says({ partitions: 0 })[0], /none|No partition/);
  assert.deepEqual(says({ places: ["a", "b", "c"], changed: ["a"] })[0], "1 of 3 topics changes; of the others it is wished already.");
  assert.ok(actions.isNothing(told({ changed: [] })));
  assert.match(says({ changed: [] })[0], /already/);
  const order = action("restart");
  const answer = (changes) => ({ places: ["the link"], lanes: 2, stopped: 3, is_done: false, waits: "", took_s: 0, ...changes });
  assert.deepEqual(actions.foretold(answer({})), ["2 lanes.", "3 stopped partitions are tried again."]);
  assert.ok(!actions.isNothing(answer({ lanes: 0, stopped: 0 })), "a halted link has no lanes");
  assert.match(actions.foretold(answer({ places: ["t"], lanes: 0, stopped: 0 }))[0], /Nothing of it is stopped/);
  assert.match(actions.outcome(order, answer({ orders: [{ stage: "cut_short", text: "" }] }), null).word, /cut short/);
  assert.notEqual(actions.doesAt(order, { kind: "link" }), actions.doesAt(order, { kind: "topic" }));
  const [limit, prefer] = [action("limit"), action("prefer")];
  const topic = { kind: "topic", link: "l", topic: "t" };
  assert.deepEqual([limit, prefer].map((each) => actions.pathOf(each, topic)), ["links/l/topics/t/limit", "links/l/prefer"]);
  assert.deepEqual(actions.bodyOf(limit, topic, "", { limit: "20MB/s" }), { why: "", limit: "20MB/s" });
  assert.deepEqual(actions.bodyOf(prefer, topic, "", { priority: "high" }), { why: "", priority: "high", topics: ["t"] });
  assert.throws(() => actions.bodyOf(prefer, { kind: "link", link: "l" }, ""));
  assert.deepEqual(actions.foretold({ places: ["t"], changed: ["t"], topics: 1, partitions: 12, is_done: false, waits: "", took_s: 0 }), ["1 topic with 12 partitions."]);
});

test("what else is to be known, and what became of it", () => {
  const link = { kind: "link", link: "l" };
  const topic = { kind: "topic", link: "l", topic: "t" };
  const told = (changes) => ({ places: [], is_done: false, waits: "", took_s: 0.84, ...changes });
  const remarks = (verb, place, state, changes) => actions.remarks(action(verb), place, steered({ state }), told(changes)).join(" ");
  assert.equal(remarks("pause", link, "running"), "");
  assert.match(remarks("resume", link, "paused", { still_paused: ["a", "b", "c", "d", "e", "f", "g"] }), /stay: a, b, c, d, e and 2 more/);
  assert.match(remarks("resume", topic, "stopped"), /as a whole is stopped/);
  assert.match(remarks("pause", link, "no_owner"), /No driver/);
  assert.match(remarks("pause", link, "silent"), /not reported/);
  const became = (changes, seen = null) => actions.outcome(action("pause"), told(changes), seen);
  assert.deepEqual([became({ is_done: true }).word, became({ is_done: true }).tone], ["Done: it is paused (0.8 s).", "ok"]);
  assert.deepEqual([became({ waits: "the link has no owner now" }).word, became({}).tone], ["Written, and waits: the link has no owner now.", "wait"]);
  assert.equal(became({ waits: "x" }, true).word, "Done: it is paused.");
  assert.deepEqual([actions.isSeen(action("stop"), link, "stopped"), actions.isSeen(action("stop"), link, "running"), actions.isSeen(action("pause"), { kind: "topics" }, "paused"), actions.isSeen(action("pause"), topic, null)], [true, false, null, null]);
});

test("mirrors with the same difference are one line", () => {
  const item = { target: "a", kind: "replication_factor", setting: "", wants: "3", has: "1", why: "the source has it", hint: "more replicas" };
  const other = { ...item, kind: "config", setting: "retention.ms", wants: null, has: null };
  assert.deepEqual(drift.driftLines({ items: [item, { ...item, target: "b" }, other] }), [
    { names: "a, b", what: "replication factor is 1, wanted 3.", why: "the source has it; more replicas" },
    { names: "a", what: "retention.ms is not set, wanted unset.", why: "the source has it; more replicas" },
  ]);
});

const moves = await read("moves.js");
const { MOVES } = moves;
const PARTS = [{}, {}];
const REPORT = { topics: [{ source: "a", missing: 0 }, { source: "b", missing: 7 }], partitions: PARTS, missing: 7, partitions_not_known: 0, transactions: [], transactions_not_named: 0, groups: [], groups_sync: true, opening: [{ part: "rights", text: "2 rules would be granted", code: null, hint: null }], is_tried: true, is_target_open: false, forecast: { by: "owner", within_s: 5 } };
const words = (foretold) => foretold.lines.map(({ text }) => plain(text));

test("which fence will hold, in words", () => {
  assert.equal(plain(moves.fenceSentence({ by: "owner", within_s: 5 })), "A failover would take effect within 5.0 s: the link’s driver answers, and gives its mirrors up.");
  assert.match(plain(moves.fenceSentence({ by: "deny_rule", within_s: 5 })), /within 5.0 s.*brokers deny/);
  assert.match(plain(moves.fenceSentence({ by: "lease", within_s: 27 })), /after 27 s.*waited out/);
  for (const none of [null, undefined, { by: "lease", within_s: 0 }]) assert.match(moves.fenceSentence(none), /not known/);
});

test("only an admin is offered what can't be taken back", () => {
  const caller = (role) => ({ data: { name: "anne", role }, problem: null });
  assert.equal(moves.whyNotAdmin(caller("admin"), false), "");
  assert.match(moves.whyNotAdmin(caller("operate"), false), /role admin; the one of anne has operate/);
  assert.match(moves.whyNotAdmin(caller("admin"), true), /does not answer/);
  assert.match(moves.whyNotAdmin({ data: null, problem: null }, false), /not known yet/);
  assert.match(moves.whyNotAdmin({ data: null, problem: {} }, false), /can’t be read/);
});

test("what is sent of a move, and where", () => {
  const given = { topics: " a, b\n c", drain_s: "30", why: "fire" };
  assert.deepEqual(moves.bodyOf(MOVES.failover, given, "l"), { confirm: "l", topics: ["a", "b", "c"], why: "fire" });
  assert.deepEqual(moves.bodyOf(MOVES.failover, {}, ""), {}, "a dry run needs no name");
  assert.equal(moves.pathOf(MOVES.failover, "l/x", given, true), "links/l%2Fx/failover?drain_s=30&dry_run=true&wait_s=0");
  assert.equal(moves.pathOf(MOVES.switch, "l", {}, false), "links/l/switch");
  assert.deepEqual(moves.bodyOf(MOVES.switch, { accept: "a b" }, "l"), { confirm: "l", accept: ["a", "b"] });
  assert.deepEqual(moves.bodyOf(MOVES.switchBack, { resume: "1" }, "l"), { confirm: "l", back: true, resume: true });
  assert.deepEqual(moves.bodyOf(MOVES.switchOn, {}, "l"), { confirm: "l" });
  assert.equal(moves.pathOf(MOVES.apply, "l", { allow_delete: "1" }, true), "links/l/apply?allow_delete=true&dry_run=true");
  assert.match(moves.lacks(MOVES.export, {}), /To topic/);
  assert.equal(moves.lacks(MOVES.export, { to_topic: "t" }), "");
  assert.match(moves.lacks(MOVES.failover, { drain_s: "soon" }), /number of seconds/);
  assert.equal(moves.lacks(MOVES.failover, { drain_s: "2.5" }), "");
});

test("what a dry run of a move foretells", () => {
  const problem = (weight, code) => ({ code, text: code, hint: "h", weight });
  const plan = { topics: ["t"], problems: [problem("asks", "one_way"), problem("asks", "one_way"), problem("told", "g")], is_possible: false };
  const told = MOVES.switch.foretold(plan);
  assert.deepEqual(words(told), ["1 topic would be switched: t.", "To accept: one_way", "To accept: one_way", "g", "It would end at its first step, and change nothing."]);
  assert.deepEqual(told.accepts, [{ code: "one_way", text: "one_way" }]);
  assert.ok(!told.mayGo && MOVES.switch.foretold({ ...plan, is_possible: true }).mayGo);

  assert.deepEqual(words(MOVES.failover.foretold(REPORT)).slice(0, 3), ["2 mirrors (2 partitions) would be given away.", "At least 7 records are missing at the target.", "b: 7"]);
  assert.equal(moves.missingSentence({ ...REPORT, partitions_not_known: 2 }), "What is missing at the target is not known.", "never 0");
  assert.equal(moves.missingSentence({ ...REPORT, partitions_not_known: 1 }), "At least 7 records are missing at the target; of 1 partition nothing is known.");
  assert.match(moves.movedGroups({ groups: [], groups_sync: false })[0], /groups.sync is off/);
  assert.equal(moves.movedGroups({ groups: [{ group: "g", again: null, at_most: 9 }], groups_sync: true })[0], "1 group resumes where offsets were published last: g reads 9 at most.");
  assert.ok(words(MOVES.failover.foretold({ ...REPORT, transactions_not_named: 2 })).includes("0 transactions were open at the source when it was last seen, and others that are not named in 2 more partitions; one over several partitions may have arrived in part."));
  assert.ok(words(MOVES.failover.foretold(REPORT)).includes("Rights: 2 rules would be granted"));
  const closed = { ...REPORT, is_tried: false, opening: [{ part: "registry", text: "no address answers", code: "REGISTRY_UNREACHABLE", hint: "look" }] };
  assert.deepEqual(moves.openingLines(closed).map(({ text, tone }) => [text, tone]), [["Registry: not all is open (REGISTRY_UNREACHABLE): no address answers", "bad"], ["As far as is noted, the target is not wholly open to producers. Fail over again: it does what is left.", "bad"]]);
  assert.equal(MOVES.failover.became(closed).tone, "bad", "never better than the truth");
  assert.equal(MOVES.failover.became({ ...closed, opening: [], is_target_open: true }).text.slice(0, 31), "Done: 2 mirrors may be written.");
  assert.ok(!MOVES.failover.foretold({ ...REPORT, topics: [], partitions: [] }).mayGo);

  const topic = (state, tail = 0) => ({ topic: state, state, why: "w", tail });
  const back = MOVES.reverse.foretold({ topics: [topic("ready"), topic("refused", 3)], back: "b" });
  assert.deepEqual(words(back), ["1 topic can be copied back: ready", "1 topic can’t be copied back: refused", "Up to 3 records at the old source never crossed: rescue the tail first.", "Start link b afterwards, unless it runs: it copies what came since."]);
  assert.ok(back.mayGo && !MOVES.reverse.foretold({ topics: [topic("refused")], back: "b" }).mayGo);

  const change = (fate) => ({ what: "create t", why: "missing", fate, text: "" });
  const apply = MOVES.apply.foretold({ changes: [change("planned"), change("held_back")], refused: { u: "why" }, drift: ["d"] });
  assert.deepEqual(words(apply), ["1 change would be made, without copying a record.", "1 change deletes, and is left out unless you allow it.", "create t", "create t", "u is refused", "d"]);
  assert.ok(apply.mayGo && !MOVES.apply.foretold({ changes: [change("held_back")], refused: {}, drift: [] }).mayGo);
  assert.equal(MOVES.apply.became({ changes: [change("done"), change("failed")], waits: "", is_done: false }).text, "1 done, 1 failed.");

  const moved = { appended: 0, exported: 4, refused: { "a newer key": 4 }, is_tried: true };
  assert.deepEqual(words(MOVES.append.foretold(moved)), ["0 records would be appended.", "4 records would be exported.", "4 records can’t be appended: a newer key"]);
  assert.ok(!MOVES.export.foretold({ ...moved, exported: 0 }).mayGo);
  assert.ok(!MOVES.drop.foretold({ dropped: 0 }).mayGo);
});

const rolling = await read("rolling.js");
const MERGING = { link: "l", merges: true, backs: ["back"], topics: [{ topic: "a", stage: "mirror", partitions: 3 }, { topic: "b", stage: "merged", partitions: 2 }, { topic: "c", stage: "given_away", partitions: 1 }] };

test("a rolling switch in words: what is merged, and what still waits", () => {
  assert.equal(rolling.rollingSentence(MERGING), "1 topic (3 partitions) still is a mirror, of which nothing is copied until it is merged in place. 1 topic (2 partitions) is merged: both sites may be written. 1 topic (1 partition) was left to the target.");
  assert.match(rolling.rollingSentence({ ...MERGING, topics: [] }), /has copied none yet/);
  assert.equal(rolling.rollingSentence({ ...MERGING, topics: [{ topic: "c", stage: "given_away", partitions: null }] }), "1 topic was left to the target.", "what is not known is not 0");
  const done = { ...MERGING, topics: MERGING.topics.slice(1) };
  assert.deepEqual([MERGING, done].map(rolling.rollingTone), ["lag", "ok"]);
  assert.equal(rolling.backSentence(MERGING, "s"), "back brings the target’s records back to s.");
  assert.match(rolling.backSentence({ ...MERGING, backs: [] }, "s"), /add one that begins at the cuts/);
  assert.equal(rolling.backSentence({ ...MERGING, backs: [], topics: MERGING.topics.slice(2) }, "s"), "");
});

test("what a rolling switch asks, foretells and came to", () => {
  const { turn, wait, finish } = rolling.rollingMoves(MERGING);
  assert.equal(turn.word, "Merge in place");
  assert.equal(rolling.rollingMoves({ ...MERGING, topics: [] }).turn.word, "Tell the cuts");
  assert.equal(moves.pathOf(turn, "l", {}, true), "links/l/rolling/turn?dry_run=true&wait_s=0");
  const tried = { is_tried: true, topics: ["a"], partitions: 3, refused: {}, is_possible: true, cuts: {} };
  assert.deepEqual(words(turn.foretold(tried)), ["1 mirror (3 partitions) would become a merged topic: a."]);
  const lacking = turn.foretold({ ...tried, refused: { k: "k is compacted" }, is_possible: false });
  assert.deepEqual(words(lacking), ["1 mirror (3 partitions) could become a merged topic: a.", "In the way: k is compacted", "While one can’t be merged, none is: name the others under “Topics”."]);
  assert.ok(turn.foretold(tried).mayGo && !lacking.mayGo);
  assert.match(turn.foretold({ ...tried, topics: [], partitions: 0 }).lines[0].text, /cuts are told again/);
  assert.equal(turn.became({ ...tried, is_tried: false }).text, "Done: 1 mirror (3 partitions) is a merged topic.");
  assert.ok(rolling.hasCuts({ is_tried: false, result: tried }) && !rolling.hasCuts({ is_tried: true, result: tried }) && !rolling.hasCuts({ is_tried: false, result: null }), "those of a mirror that was only looked at don't hold");

  assert.deepEqual(moves.bodyOf(wait, { topics: "a b", within_s: "30" }, ""), { topics: ["a", "b"], within_s: 30 });
  assert.match(moves.lacks(wait, {}), /Topics/);
  assert.ok(wait.isFree && !turn.isFree && !finish.isFree);
  assert.equal(moves.whyNotAdmin({ data: { name: "anne", role: "operate" }, problem: null }, false, "operate"), "", "who may change may wait");
  assert.match(moves.whyNotAdmin({ data: { name: "bob", role: "view" }, problem: null }, false, "operate"), /role operate; the one of bob has view/);
  const crossed = { has_crossed: true, topics: { a: true }, problems: [], took_s: 1.2 };
  assert.equal(wait.became(crossed).text, "All that a had has crossed: who stopped before may go on at the target.");
  const stopped = wait.became({ ...crossed, has_crossed: false, problems: [{ text: "a-0 is at a gap", code: "GAP", hint: "decide" }] });
  assert.deepEqual([stopped.tone, stopped.detail], ["bad", "a-0 is at a gap (GAP). decide"]);

  assert.deepEqual([crossed, { ...crossed, has_crossed: false }, null].map((result) => rolling.shownWait({ state: result ? "done" : "running", result }).tone), ["ok", "bad", "wait"], "never better than the truth");

  assert.equal(words(finish.foretold({ topics: ["b"], problems: [], is_possible: true }))[0], "1 topic (2 partitions) would be left to the target: b.");
  assert.equal(moves.pathOf(finish, "l", {}, false), "links/l/rolling/finish");
  assert.deepEqual(moves.bodyOf(rolling.FINISH.back, { resume: "1" }, "l"), { confirm: "l", back: true, resume: true });
  assert.equal(moves.pathOf(rolling.FINISH.on, "l", {}, false), "links/l/rolling/finish");
});

test("who still writes at the source, and that somebody may be missing", () => {
  const writer = { producer_id: 7, transactional_id: "", last_ms: 1, partitions: [{ topic: "a", partition: 0, last_ms: 1, open_from: null }, { topic: "a", partition: 1, last_ms: 1, open_from: 5 }] };
  assert.deepEqual([writer, { ...writer, transactional_id: "pay" }].map(rolling.writerWords), ["producer 7", "pay"]);
  assert.deepEqual(rolling.writerPlaces(writer), { topics: "a", open: "A transaction is open in a-1." });
  assert.equal(rolling.writersSentence({ writers: [writer], refused: ["x"] }), "1 producer with an id wrote at the source lately, besides links. Somebody may be missing.");
  assert.match(rolling.writersSentence({ writers: [], refused: [] }), /No producer with an id is remembered/);
});

const drills = await read("drill.js");
const CHECK = { what: "records twice", wanted: 0, is_bound: false, actual: 0, is_met: true };

test("a drill in words: what it would make, and never better than it went", () => {
  const right = { cluster: "b", right: "Write on topics drill-*", left_out: "all" };
  const plan = { topics: { t: 10, u: 2 }, groups: ["g", "h"], steps: ["topics", "clean"], missing_rights: [], notes: [], left_behind: [], is_possible: true };
  assert.deepEqual(words(MOVES.drill.foretold(plan)), ["2 topics (12 partitions) and 2 groups would be made, and removed at the end.", "Steps: topics, clean."]);
  const lacking = MOVES.drill.foretold({ ...plan, missing_rights: [right], is_possible: false });
  assert.ok(MOVES.drill.foretold(plan).mayGo && !lacking.mayGo);
  assert.equal(words(lacking).at(-1), "Right missing at b: Write on topics drill-* (nothing can be rehearsed).");
  assert.ok(MOVES.drill.foretold({ ...plan, left_behind: ["x"], is_possible: false }).mayGo, "it can be cleaned");
  assert.deepEqual(moves.bodyOf(MOVES.drill, { partitions: "12", failover: "1" }, "l"), { confirm: "l", partitions: 12, failover: true });
  assert.match(moves.lacks(MOVES.drill, { partitions: "1.5" }), /whole number/);

  const step = (changes) => ({ name: "switch", state: "done", took_s: 1, text: "moved", checks: [CHECK], pause_s: null, ...changes });
  assert.equal(drills.shownRehearsal(step({})).tone, "ok");
  const wrong = step({ checks: [CHECK, { ...CHECK, actual: 3, is_met: false }], pause_s: 2 });
  assert.equal(drills.shownRehearsal(wrong).tone, "bad");
  assert.equal(plain(drills.rehearsalText(wrong)), "moved; 1 figure as they must be; records twice: 3, must be 0; producers paused 2.0 s");
  const drill = (changes) => ({ is_over: true, report: null, error: "", cleaned: [], ...changes });
  assert.equal(drills.shownDrill(drill({ is_over: false })).word, "under way");
  assert.equal(drills.shownDrill(drill({ error: "under way elsewhere" })).tone, "bad");
  assert.equal(drills.shownDrill(drill({ cleaned: ["x"] })).word, "cleaned: 1 drill");
  assert.deepEqual(["ready", "in_part", "not_ready", "new one"].map((verdict) => drills.shownDrill(drill({ report: { verdict } })).tone), ["ok", "lag", "bad", "unknown"]);
});

test("how far a run is, and what to do with it", () => {
  const run = (changes) => ({ state: "under_way", is_carried_out: false, may_go_back: true, ...changes });
  assert.equal(moves.runAdvice(run({ state: "done" })), "");
  assert.match(moves.runAdvice(run({})), /go on with it, or take it back/);
  assert.match(moves.runAdvice(run({ may_go_back: false })), /no way back/);
  assert.match(moves.runAdvice(run({ is_carried_out: true })), /This service carries it out/);
  assert.ok(moves.isUnderWay(run({ state: "going_back" })) && !moves.isUnderWay(null));
  assert.equal(plain(moves.tookText({ began_ms: 1_000, ended_ms: null }, 3_000)), "2.0 s");
  assert.equal(moves.tookText({ began_ms: null, ended_ms: null }, 1), "");
  assert.equal(moves.shownRun(run({ state: "new one" })).glyph, "?");
  assert.match(moves.tailSentence({ records: 0, partitions: 3, why_not: { t: "w" } }), /Of 1 topic it can’t be known/);
  assert.match(moves.tailSentence({ records: 4, partitions: 3, why_not: {} }), /^4 records of 3 partitions never crossed/);
});

test("what each group would read again is never better than the truth", () => {
  const group = (changes) => ({ group: "g", records: 5, truth: "exact", partitions_begun_anew: 0, partitions_not_known: 0, partitions_without_mirror: 0, why: "", ...changes });
  assert.equal(exposure.rereadFigure(undefined), "?");
  assert.equal(exposure.rereadFigure(group({ records: null, truth: "not_known" })), "?");
  assert.equal(plain(exposure.rereadFigure(group({ truth: "bound" }))), "≥ 5");
  assert.equal(exposure.rereadDetails(group({})), "");
  assert.match(exposure.rereadDetails(group({ partitions_begun_anew: 2, partitions_without_mirror: 1, why: "w" })), /2 partitions: read from the first.*; 1 partition has no mirror; w$/);
});

const rights = await read("rights.js");
const RIGHTS = { is_on: true, make: [], set: {}, keep_ready: [], kept_ready: 0, remove: [], asks: "", is_over: false, is_confirmed: false, somebody_elses: [], refused: {}, notes: [] };

test("rights in a sentence, and what waits for a person", () => {
  const says = (changes) => rights.rightsSentence({ ...RIGHTS, ...changes }, "usdf");
  assert.equal(says({}), "usdf has the source’s rights, as configured.");
  assert.equal(says({ make: ["a"], set: { b: 1 }, kept_ready: 1 }), "2 things to do at usdf. 1 rule is kept ready until mirrors are promoted.");
  assert.match(says({ is_on: false }), /nothing would be done at usdf now/);
  assert.match(says({ is_over: true, make: ["a"] }), /nothing is followed any more/);
  const asks = (changes) => rights.asksSentence({ ...RIGHTS, remove: ["a", "b"], ...changes });
  assert.equal(asks({}), "");
  assert.match(asks({ asks: "2 of 9 would go at once" }), /^Nothing is removed: 2 of 9/);
  assert.match(asks({ asks: "x", is_confirmed: true }), /removes 2 with its next comparison/);
  const rows = rights.rightsRows({ ...RIGHTS, make: ["m"], remove: ["r"], refused: { x: "why" }, set: { q: 5 }, somebody_elses: ["s"], notes: ["n"], keep_ready: ["k"] });
  assert.deepEqual(rows.map(({ text }) => text), ["x", "r", "m", "q", "k", "s", "n"]);
});

test("only the removals that were shown are confirmed", () => {
  const told = { remove: ["a"], asks: "1 of 2", confirmation: "c0" };
  assert.deepEqual(moves.bodyOf(MOVES.confirmRights, {}, "l", told), { confirm: "l", removals: "c0" });
  assert.deepEqual(moves.bodyOf(MOVES.confirmRights, {}, ""), {});
  assert.ok(MOVES.confirmRights.foretold(told).mayGo && !MOVES.confirmRights.foretold({ remove: [], asks: "", confirmation: "" }).mayGo);
});
