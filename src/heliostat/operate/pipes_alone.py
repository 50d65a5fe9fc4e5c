"""A link's pipelines in a Spark of this program's own, which is started when it is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from heliostat.config import Config, LinkConfig
from heliostat.names import TopicName
from heliostat.rebuild.compared_rows import OpenPipes
from heliostat.verify.piped import Pipes


def pipes_alone(config: Config, link: LinkConfig) -> OpenPipes:
    """Return what makes a link's pipelines ready: it raises what `compared_rows` says."""

    @contextmanager
    def opened(mirrors: Mapping[TopicName, TopicName]) -> Iterator[Pipes]:
        # Only here: it loads Arrow and PySpark.
        from heliostat.operate.verified_pipelines import open_pipes
        from heliostat.records.spark.trial import trial_session

        with (
            trial_session(config.spark.conf) as session,
            open_pipes(config, link, mirrors, session.sparkContext) as pipes,
        ):
            yield pipes

    return opened
