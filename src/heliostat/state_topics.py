"""Names of a link's state topics that several packages use."""

from __future__ import annotations

from heliostat.config import STATE_TOPIC_PREFIX
from heliostat.names import LinkName, TopicName


def state_topic(link: LinkName) -> str:
    """Name of the link's state topic."""
    return f"{STATE_TOPIC_PREFIX}{link}.state"


def link_of_state_topic(topic: TopicName) -> LinkName | None:
    """The link whose state topic this is; None for any other topic."""
    name = topic.removeprefix(STATE_TOPIC_PREFIX).removesuffix(".state")
    return LinkName(name) if topic == state_topic(LinkName(name)) else None


def offsets_topic(link: LinkName) -> str:
    """Name of the topic that holds the offset maps' rows."""
    return f"{STATE_TOPIC_PREFIX}{link}.offsets"


def control_topic(link: LinkName) -> str:
    """Name of the topic that announces to lanes what they must know."""
    return f"{STATE_TOPIC_PREFIX}{link}.control"


def progress_topic(link: LinkName) -> str:
    """Name of the topic that lanes and the driver report to."""
    return f"{STATE_TOPIC_PREFIX}{link}.progress"


def wishes_topic(link: LinkName) -> str:
    """Name of the topic that holds what operators wish of the link."""
    return f"{STATE_TOPIC_PREFIX}{link}.wishes"


def history_topic(link: LinkName) -> str:
    """Name of the topic that holds a day of the link's figures and events."""
    return f"{STATE_TOPIC_PREFIX}{link}.history"


PRODUCERS_TOPIC = f"{STATE_TOPIC_PREFIX}producers"
"""Topic of each cluster with the producer ids with which links append to merged topics there."""
DEFINITIONS_TOPIC = f"{STATE_TOPIC_PREFIX}links"
"""Topic on the home cluster with the links that are not in the file."""

DRIVER_KEY = "driver"
"""Key of the driver's reports in the progress topic; those of lanes have others."""
