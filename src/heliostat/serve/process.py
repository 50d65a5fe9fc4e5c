"""The process that serves: sockets, TLS, uvicorn; ends on a signal, or with its parent."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette

from heliostat.clock import SystemClock
from heliostat.config import Config, ConfigFile, ServiceConfig
from heliostat.config.service import HOST_NAMES, ServiceTls, is_loopback, parts_of
from heliostat.connect.file_clusters import FileClusters
from heliostat.connect.home_contents import home_contents
from heliostat.definitions.follow import HomeFollower
from heliostat.definitions.home_links import HomeLook
from heliostat.metrics.voice import Place
from heliostat.ops.events import LogFormat
from heliostat.serve.app import health_app, make_app
from heliostat.serve.connect.app import connect_app
from heliostat.serve.connect.loggers import Loggers
from heliostat.serve.connect.watched_links import connectors_of, home_cluster_id
from heliostat.serve.guard import App, Guard
from heliostat.serve.job_notes import JobNotes
from heliostat.serve.jobs import Jobs
from heliostat.serve.listener import bound, url_of
from heliostat.serve.tokens import Tokens
from heliostat.serve.under_way import UnderWay
from heliostat.serve.watch import Watch

PARENT_EVERY_S = 1.0
ENDS_WITHIN_S = 5


def serve(
    config: Config,
    file: ConfigFile,
    announce: Callable[[str], None],
    *,
    only: str | None = None,
    ends_with_parent: bool,
    form: LogFormat = LogFormat.TEXT,
) -> None:
    """Serve until a signal asks to stop.

    Parameters
    ----------
    config, file
        What is to be served, and the file that it is of.
    announce
        Takes the address once it is bound.
    only
        Serve only this link; None: all, those of the home included.
    ends_with_parent
        Whether to stop when the process that has started this one has ended, which logs by itself
        what its links do.
    form
        How events are logged.

    Raises
    ------
    Refused
        An address is taken.
    ConfigError
        The file of tokens can't be used.
    """
    service = config.service
    tokens = Tokens(service.tokens_file) if service.tokens_file is not None else None
    listener = bound(service.listen)
    driver = Place(socket.gethostname(), os.getppid()) if ends_with_parent else None
    log = None if ends_with_parent else sys.stderr
    watch = Watch(config, SystemClock(), driver, log=log, form=form)
    notes = JobNotes(lambda: watch.config, watch.clock)
    jobs = Jobs(watch, file.path, notes=notes)
    api = make_app(watch, jobs, lambda: file, _connect(watch, file, listener))
    guard = Guard(api, hosts=_hosts(listener, service), tokens=tokens)
    app = watch.routes.timed(guard)
    server = uvicorn.Server(_settings(app, service.tls))
    api.state.is_ending = lambda: server.should_exit  # or streams would hold it up
    others = _health_server(service, watch)
    if ends_with_parent:
        _end_with_parent(server)
        _end_once_idle(server, jobs.under_way, watch.service_events.info)
    watch.start()
    jobs.start()
    home = _home_follower(watch, file, only)
    announce(url_of(listener, service))
    try:
        server.run(sockets=[listener])
    finally:
        for other in others:
            other.should_exit = True
        if home is not None:
            home.stop()
        jobs.stop()
        watch.stop()


def _home_follower(watch: Watch, file: ConfigFile, only: str | None) -> HomeFollower | None:
    """Follow the links of the home, if the file names one and not a link of its own is served."""
    if file.config.service.home is None or any(link.name == only for link in file.config.links):
        return None

    def change(look: HomeLook) -> None:
        links = tuple(link for link in look.whole.config.links if only in (None, link.name))
        watch.change_to(watch.config.model_copy(update={"links": links}))

    follower = HomeFollower(lambda: file, change, watch.service_events.warn, contents=home_contents)
    follower.start()
    return follower


def _connect(watch: Watch, file: ConfigFile, listener: socket.socket) -> Starlette | None:
    """Return what answers at Kafka Connect's paths, if that is wished."""
    if not watch.config.service.connect.enabled:
        return None
    own = FileClusters.of_config(watch.config, [link.name for link in file.config.links])
    connectors = connectors_of(watch, own, listener.getsockname()[1])
    return connect_app(connectors, Loggers(watch.clock), home_cluster_id(watch.config))


def _settings(app: App, tls: ServiceTls | str | None) -> uvicorn.Config:
    files = tls if isinstance(tls, ServiceTls) else None
    return uvicorn.Config(
        app,
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
        ws="none",
        lifespan="off",
        timeout_keep_alive=30,
        limit_concurrency=512,
        h11_max_incomplete_event_size=65_536,
        timeout_graceful_shutdown=ENDS_WITHIN_S,
        ssl_certfile=None if files is None else str(files.certificate_file),
        ssl_keyfile=None if files is None else str(files.key_file),
    )


def _hosts(listener: socket.socket, service: ServiceConfig) -> list[str] | None:
    if not is_loopback(parts_of(service.listen)[0]):
        return None
    port = listener.getsockname()[1]
    names = (*HOST_NAMES, *service.host_names)
    return [f"{name}:{port}" for name in names] + (list(names) if port in (80, 443) else [])


def _health_server(service: ServiceConfig, watch: Watch) -> list[uvicorn.Server]:
    """Start the second address, if there is one, on a thread of its own."""
    if service.health is None:
        return []
    listener = bound(service.health)
    server = uvicorn.Server(_settings(watch.routes.timed(health_app(watch)), None))
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]  # not in a thread
    run = threading.Thread(
        target=lambda: server.run(sockets=[listener]), name="health", daemon=True
    )
    run.start()
    return [server]


def _end_with_parent(server: uvicorn.Server) -> None:
    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent and not server.should_exit:
            threading.Event().wait(PARENT_EVERY_S)
        server.should_exit = True

    threading.Thread(target=look, name="parent", daemon=True).start()


def _end_once_idle(
    server: uvicorn.Server, under_way: UnderWay, tell: Callable[[str], None]
) -> None:
    """End on SIGHUP, by which the driver says that the file has changed, once no job runs."""
    asked = threading.Event()

    def wait() -> None:
        asked.wait()
        under_way.close_once_idle(tell)
        server.should_exit = True

    threading.Thread(target=wait, name="begins anew", daemon=True).start()
    signal.signal(signal.SIGHUP, lambda _number, _frame: asked.set())
