"""`heliostat check`: whether a configuration would run; all problems at once, nothing is changed.

Everything is asked at the same time, and what hangs costs some seconds: it is one problem more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from heliostat.clusters.acl import Operation
from heliostat.clusters.admin import BrokerInfo, ClusterAdmin, NewTopic
from heliostat.clusters.keyed_topic import COMPACTED, STATE_REPLICAS, new_own_topic
from heliostat.config import ClusterConfig, Config, LinkConfig
from heliostat.errors import BrokerError, ConnectionLost, HeliostatError, code_of
from heliostat.gaps.ledger import gaps_topic
from heliostat.groups.published import groups_topic
from heliostat.names import Alias, LinkName, TopicName
from heliostat.operate.acls import ClusterGrants, home_grants, link_grants
from heliostat.operate.check_machine import machine_findings, spark_findings
from heliostat.operate.check_rights import all_rights, rights_asked, rights_findings
from heliostat.operate.check_target import try_target
from heliostat.operate.finding import (
    CheckReport,
    Finding,
    Standing,
    fine,
    note,
    problem,
    problem_of,
    report_of,
)
from heliostat.operate.plan import plan_link
from heliostat.ops.asked import NoAnswerYet, PendingAnswer, each_answer
from heliostat.schemas import HttpRegistry
from heliostat.schemas.registry import calls
from heliostat.schemas.registry.over_http import Timeouts
from heliostat.schemas.registry.retries import Retries
from heliostat.state.link_state import own_topics
from heliostat.state_topics import DEFINITIONS_TOPIC, wishes_topic
from heliostat.topics.topic_plan import TopicPlan

CLIENT_ID = "heliostat-check"
STEP_S = 3.0
CLUSTER_WITHIN_S = 8.0
"""A cluster that has said nothing within this hangs."""
LINK_WITHIN_S = 30.0
"""Thousands of topics are looked at within this, over a long line too."""
TRY_WITHIN_S = 90.0
"""A try that takes longer leaves its topic, which the next one removes."""
LINKS_AT_ONCE = 8
SKEW_S = 5.0
"""Clocks that differ by more make lag and starts by time wrong by that much."""
OLDEST = (2, 8)
NAMED = 3
HOME = "links by API, kept on "

T = TypeVar("T")
Service = Callable[[Config], Iterable[Finding]]


def check(
    config: Config,
    links: Sequence[LinkConfig],
    *,
    of_service: Service = lambda _: (),
    starts_spark: bool = False,
    tries: bool = False,
) -> CheckReport:
    """Return whether links of a configuration would run.

    Parameters
    ----------
    of_service
        Looks at the address, the tokens and the certificate of the service.
    starts_spark
        Whether to start Spark as `run` does.
    tries
        Whether to try on a topic of its own what a link does at its target.
    """
    aliases = sorted({alias for link in links for alias in (link.source, link.target)})
    home = config.service.home
    clusters = dict.fromkeys([*aliases, *([home] if home else [])])
    here = PendingAnswer(lambda: [*machine_findings(config), *of_service(config)], "this machine")
    looks: dict[str, Callable[[], list[Finding]]] = {
        f"cluster {alias}": partial(_of_cluster, config.clusters[alias]) for alias in clusters
    }
    looks |= {
        f"registry of {alias}": partial(_of_registry, config, alias)
        for alias in aliases
        if _needs_registry(config, alias, links)
    }
    sides = _all_within(looks, CLUSTER_WITHIN_S, len(looks))
    dead = {subject for subject, findings in sides.items() if _is_dead(findings)}
    asks = {
        f"link {link.name}": partial(_of_link, config, link, tries=tries)
        for link in links
        if not {f"cluster {link.source}", f"cluster {link.target}"} & dead
    }
    if f"cluster {home}" not in dead:
        asks |= {
            f"{HOME}{side.cluster}": partial(_of_home, config, side) for side in home_grants(config)
        }
    of_links = _all_within(asks, TRY_WITHIN_S if tries else LINK_WITHIN_S, LINKS_AT_ONCE)
    skipped = [
        note(
            *(f"link {link.name}", "NOT_CHECKED"),
            "it was not looked at: one of its clusters does not answer",
        )
        for link in links
        if f"link {link.name}" not in asks
    ]
    spark = spark_findings(config, starts=starts_spark)
    return report_of([here.answer(), list(spark), *sides.values(), *of_links.values(), skipped])


def _all_within(
    asks: Mapping[str, Callable[[], list[Finding]]], within_s: float, at_once: int
) -> dict[str, list[Finding]]:
    answers = each_answer(
        {subject: partial(_within, subject, ask, within_s) for subject, ask in asks.items()},
        max(1, at_once),
    )
    sound: dict[str, list[Finding]] = {}
    for subject, answer in answers.items():
        if isinstance(answer, BaseException):
            raise answer
        sound[subject] = answer
    return sound


def _within(subject: str, ask: Callable[[], list[Finding]], within_s: float) -> list[Finding]:
    try:
        return PendingAnswer(ask, f"checks {subject}").answer(within_s)
    except NoAnswerYet:
        hung = ConnectionLost(f"no answer within {within_s:g} s: it hangs")
        return [problem_of(subject, hung)]
    except HeliostatError as error:
        return [problem_of(subject, error)]


def _is_dead(findings: Sequence[Finding]) -> bool:
    """Whether only an error is known of a cluster."""
    return not any(finding.text.startswith("reached") for finding in findings)


def _of_cluster(cluster: ClusterConfig) -> list[Finding]:
    access = cluster.access()
    subject = f"cluster {access.alias}"
    findings: list[Finding] = []
    with ClusterAdmin(
        access, CLIENT_ID, connect_timeout_s=STEP_S, request_timeout_ms=int(STEP_S * 1000)
    ) as admin:
        release, brokers = admin.oldest_release(), admin.brokers()
        protocol = cluster.security.protocol
        text = f"reached over {protocol}: {len(brokers)} brokers, Kafka {release or '?'} or newer"
        findings.append(fine(subject, text))
        if tuple(map(int, (release or "0.0").split("."))) < OLDEST:
            older = f"its brokers are older than Kafka {'.'.join(map(str, OLDEST))}"
            findings.append(note(subject, "KAFKA_OLD", older, "such brokers are not tested"))
        findings += _silent(subject, admin, brokers)
        findings.append(_clock(subject, admin))
    if clear := cluster.security.sent_in_clear:
        text = f"{clear} cross the network unencrypted ({cluster.security.protocol})"
        findings.append(note(subject, "NOT_ENCRYPTED", text, "SASL_SSL encrypts them"))
    return findings


def _silent(subject: str, admin: ClusterAdmin, brokers: Sequence[BrokerInfo]) -> Iterator[Finding]:
    """Yield brokers that can't be reached at the address that the cluster names."""
    where = {broker.broker_id: f"{broker.host}:{broker.port}" for broker in brokers}
    for broker, answer in sorted(admin.each_broker(lambda _: True).items()):
        if isinstance(answer, HeliostatError):
            yield problem(
                *(subject, "BROKER_UNREACHABLE"),
                f"broker {broker} at {where.get(broker, '?')}: {answer.text}",
                "start it; if it runs, its advertised.listeners name an address that this machine "
                "can't reach",
            )


def _clock(subject: str, admin: ClusterAdmin) -> Finding:
    try:
        ahead_s = admin.clock_ahead_s()
    except BrokerError as error:
        text = f"its clock is not shown ({code_of(error)})"
        return note(subject, "CLOCK_NOT_SHOWN", text, "Describe on the cluster shows it")
    if abs(ahead_s) > SKEW_S:
        word = "ahead of" if ahead_s > 0 else "behind"
        text = f"its controller's clock is {abs(ahead_s):.0f} s {word} this machine's"
        return note(subject, "CLOCK_SKEW", text, "set both by NTP; lag would be shown wrong")
    return fine(subject, f"its controller's clock differs by {abs(ahead_s):.1f} s")


def _needs_registry(config: Config, alias: Alias, links: Iterable[LinkConfig]) -> bool:
    has_one = config.clusters[alias].schema_registry is not None
    return has_one and any(
        link.schemas.strategy != "off" and alias in (link.source, link.target) for link in links
    )


def _of_registry(config: Config, alias: Alias) -> list[Finding]:
    access = config.clusters[alias].registry_access()
    assert access is not None, "asked before"
    once = Retries(turns=1)
    with HttpRegistry(access, retries=once, timeouts=Timeouts(STEP_S, STEP_S, STEP_S)) as registry:
        subjects = registry.ask(calls.subjects())
    return [fine(f"registry of {alias}", f"answers, {len(subjects)} subjects")]


def _of_link(config: Config, link: LinkConfig, *, tries: bool) -> list[Finding]:
    subject = f"link {link.name}"
    findings: list[Finding] = []
    plan = TopicPlan()
    try:
        plan = plan_link(config, link)
        findings += _planned(subject, plan)
    except HeliostatError as error:
        findings.append(problem_of(subject, error, "what it would do can't be planned"))
    source, target = link_grants(config, link)
    parts: dict[str, Callable[[], Iterable[Finding]]] = {
        "rights at the source": partial(
            _rights,
            config,
            link.source,
            subject,
            source,
            [mirror.source for mirror in plan.mirrors],
        ),
        "rights at the target": partial(
            _rights,
            config,
            link.target,
            subject,
            target,
            [mirror.target for mirror in plan.mirrors],
        ),
        "what the target would refuse": partial(_dry_run, config, link, subject, plan),
    }
    if tries:
        parts["a try at the target"] = partial(try_target, config, link)
    for what, part in parts.items():
        try:
            findings += part()
        except HeliostatError as error:  # the other parts say more
            findings.append(problem_of(subject, error, what))
    return findings


def _rights(
    config: Config,
    alias: Alias,
    subject: str,
    side: ClusterGrants,
    topics: Collection[TopicName],
) -> Iterator[Finding]:
    asked = rights_asked(side.grants, topics)
    with ClusterAdmin(config.clusters[alias].access(), CLIENT_ID) as admin:
        answers = admin.may(all_rights([asked]))
    return rights_findings(subject, side, asked, answers)


def _of_home(config: Config, side: ClusterGrants) -> list[Finding]:
    """Return what lacks where links by API are kept; who only runs them may do with `Read`."""
    findings: list[Finding] = []
    subject = f"{HOME}{side.cluster}"
    for is_read in (True, False):
        grants = [
            grant for grant in side.grants if (grant.rule.operation is Operation.READ) == is_read
        ]
        part = replace(side, grants=tuple(grants))
        for finding in _rights(
            config, Alias(side.cluster), subject, part, [TopicName(DEFINITIONS_TOPIC)]
        ):
            lacks = finding.standing is Standing.PROBLEM and not is_read
            findings.append(replace(finding, standing=Standing.NOTE) if lacks else finding)
    return findings


def _planned(subject: str, plan: TopicPlan) -> Iterator[Finding]:
    """Yield what the plan says, see `heliostat plan`."""
    count = len(plan.mirrors)
    if count:
        yield fine(subject, f"{count} topics are mirrored, {len(plan.create)} to be created")
    elif not plan.refuse:
        text = "no topic of the source is selected"
        yield note(subject, "NO_TOPICS", text, "heliostat topics shows which entry decides")
    by_code: dict[str, list[TopicName]] = defaultdict(list)
    for name, refused in plan.refuse.items():
        by_code[refused.code].append(name)
    for code, names in by_code.items():
        first = plan.refuse[names[0]]
        which = ", ".join(names[:NAMED]) + (
            f" and {len(names) - NAMED} more" if names[NAMED:] else ""
        )
        yield problem(subject, code, f"refused: {which}: {first.reason}", first.hint)
    for line in plan.gone:
        yield note(subject, "GAP", line, "docs/gaps.md")
    for line in plan.notes:
        yield note(subject, "PLAN", line)


def _dry_run(config: Config, link: LinkConfig, subject: str, plan: TopicPlan) -> Iterator[Finding]:
    """Return what the target's policies would refuse, by requests that it only validates."""
    name = LinkName(link.name)
    books = [gaps_topic, wishes_topic, *([groups_topic] if link.groups.sync else [])]
    own = own_topics(name) | {TopicName(topic_of(name)): COMPACTED for topic_of in books}
    changes = {topic_configs.target: topic_configs.changes for topic_configs in plan.configure}
    with ClusterAdmin(config.clusters[link.target].access(), CLIENT_ID) as target:
        described = target.describe_topics(own)
        replicas = link.state.replication_factor or min(STATE_REPLICAS, len(target.brokers()))
        new = [
            new_own_topic(topic, settings, replicas)
            for topic, settings in own.items()
            if described[topic].is_missing
        ]
        new += [
            NewTopic(
                new_topic.target,
                new_topic.partitions,
                new_topic.replication_factor,
                new_topic.configs,
            )
            for new_topic in plan.create
        ]
        answers: dict[TopicName, object] = dict(target.create_topics(new, validate_only=True))
        answers |= target.alter_configs(changes, validate_only=True)
    return refused_findings(subject, answers)


def refused_findings(subject: str, answers: Mapping[TopicName, object]) -> Iterator[Finding]:
    """Yield one problem for all topics for which the target says the same."""
    by_words: dict[tuple[str, str], list[tuple[TopicName, BrokerError]]] = defaultdict(list)
    for topic, answer in answers.items():
        if isinstance(answer, BrokerError) and not answer.kafka_name.endswith(
            "AUTHORIZATION_FAILED"
        ):
            words = answer.text.rpartition(": ")[2].replace(topic, "it")
            by_words[answer.kafka_name, words].append((topic, answer))
    for (code, _), rows in by_words.items():
        more = f" (and {len(rows) - 1} more topics)" if rows[1:] else ""
        yield problem(
            *(subject, code, f"the target would refuse: {rows[0][1].text}{more}"),
            rows[0][1].hint
            or "ask its administrators; a setting may be left out by "
            "topics.config_exclude, or pinned by topics.config_set",
        )
