"""What is answered at each of Connect's paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from starlette.responses import JSONResponse, Response

from heliostat import __version__
from heliostat.connect.plugins import CONNECT_VERSION
from heliostat.connect.statuses import task_config
from heliostat.operate.connectors import Connectors
from heliostat.operate.shown_connectors import Shown
from heliostat.serve.connect.answers import Asked, ConnectError, config_in, nothing
from heliostat.wishes.wish import WishedState

Handler = Callable[[Asked], Response]
_STATES = {
    "RUNNING": WishedState.RUNNING,
    "PAUSED": WishedState.PAUSED,
    "STOPPED": WishedState.STOPPED,
}
_POST_FIELDS = {"name", "config", "initial_state"}
NO_OFFSETS = "Partitions / offsets need to be provided for an alter offsets request"
HEALTHY = "Worker has completed startup and is ready to handle requests."


class ConnectRoutes:
    """Handlers of requests; each returns an answer, or raises what is wrong.

    Parameters
    ----------
    connectors
        The connectors.
    cluster_id
        Returns the id of the home cluster; empty: not known.
    """

    def __init__(self, connectors: Connectors, cluster_id: Callable[[], str]) -> None:
        self._connectors = connectors
        self._shown = connectors.shown
        self._cluster_id = cluster_id
        self._topics_before: dict[str, set[str]] = {}
        """Topics of connectors when they were last reset."""

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return the handler of each path and method."""
        connector, task = "/connectors/{name}", "/tasks/{task}"
        return [
            ("/", "GET", self.root),
            ("/health", "GET", self.health),
            ("/connectors", "GET", self.names),
            ("/connectors", "POST", self.create),
            (connector, "GET", self.info),
            (connector, "DELETE", self.delete),
            (f"{connector}/config", "GET", self.config),
            (f"{connector}/config", "PUT", self.put),
            (f"{connector}/config", "PATCH", self.patch),
            (f"{connector}/status", "GET", self.status),
            (f"{connector}/tasks", "GET", self.tasks),
            (f"{connector}{task}/status", "GET", self.task_status),
            (f"{connector}{task}/restart", "POST", self.restart_task),
            (f"{connector}/restart", "POST", self.restart),
            (f"{connector}/pause", "PUT", self.wish(WishedState.PAUSED, 202)),
            (f"{connector}/resume", "PUT", self.wish(WishedState.RUNNING, 202)),
            (f"{connector}/stop", "PUT", self.wish(WishedState.STOPPED, 204)),
            (f"{connector}/topics", "GET", self.topics),
            (f"{connector}/topics/reset", "PUT", self.reset_topics),
            (f"{connector}/offsets", "GET", self.offsets),
            (f"{connector}/offsets", "PATCH", self.alter_offsets),
            (f"{connector}/offsets", "DELETE", self.reset_offsets),
        ]

    def root(self, _: Asked) -> Response:
        """Tell which Connect this is like, and which Heliostat it is."""
        row = {
            "version": CONNECT_VERSION,
            "commit": f"heliostat-{__version__}",
            "kafka_cluster_id": self._cluster_id(),
        }
        return JSONResponse(row)

    def health(self, _: Asked) -> Response:
        """Tell that this service answers."""
        return JSONResponse({"status": "healthy", "message": HEALTHY})

    # -- connectors ---------------------------------------------------------------------------

    def names(self, asked: Asked) -> Response:
        """List connectors, or show them all as the query says."""
        shown = self._shown.all()
        if "expand" not in asked.query:
            return JSONResponse(list(shown))
        wanted = asked.query["expand"]
        rows: dict[str, Any] = {}
        for name, connector in shown.items():
            row = rows[name] = {}
            if "status" in wanted:
                row["status"] = connector.view.to_json(name)
            if "info" in wanted:
                row["info"] = connector.info()
        return JSONResponse(rows)

    def create(self, asked: Asked) -> Response:
        """Make a connector."""
        body = asked.object()
        if unknown := set(body) - _POST_FIELDS:
            raise ConnectError(400, f"Unrecognized field {min(unknown)!r}")
        config = config_in(body.get("config", {}))
        given = body.get("name", config.get("name", ""))
        name = given.strip() if isinstance(given, str) else ""
        if not name or "/" in name:
            raise ConnectError(400, "a connector needs a name without /")
        _name_it(config, name)
        wished = body.get("initial_state")
        if wished is not None and str(wished).upper() not in _STATES:
            raise ConnectError(400, f"initial_state: one of {', '.join(_STATES)}")
        state = None if wished is None else _STATES[str(wished).upper()]
        answer = self._connectors.put(name, config, by=asked.by, state=state, only_new=True)
        return JSONResponse(answer.info, 201, _location(asked, name))

    def put(self, asked: Asked) -> Response:
        """Make a connector or change its configuration."""
        return self._put(asked, config_in(asked.object()))

    def patch(self, asked: Asked) -> Response:
        """Change some properties; null removes one."""
        config = dict(self._shown.get(asked.path["name"]).stored.config)
        for key, value in asked.object().items():
            if value is None:
                config.pop(key, None)
            else:
                config |= config_in({key: value})
        return self._put(asked, config)

    def _put(self, asked: Asked, config: dict[str, str]) -> Response:
        name = asked.path["name"]
        _name_it(config, name)
        dry_run = asked.is_true("dry_run")
        answer = self._connectors.put(name, config, by=asked.by, dry_run=dry_run)
        if dry_run:
            return JSONResponse(answer.tried())
        if answer.is_new:
            return JSONResponse(answer.info, 201, _location(asked, name))
        return JSONResponse(answer.info)

    def info(self, asked: Asked) -> Response:
        """Show a connector."""
        return JSONResponse(self._shown.get(asked.path["name"]).info())

    def config(self, asked: Asked) -> Response:
        """Return a configuration as it was put."""
        return JSONResponse(dict(self._shown.get(asked.path["name"]).stored.config))

    def delete(self, asked: Asked) -> Response:
        """Remove a connector."""
        self._connectors.delete(asked.path["name"], asked.by)
        return nothing(204)

    def status(self, asked: Asked) -> Response:
        """Return how a connector is."""
        name = asked.path["name"]
        shown = self._shown.all().get(name)
        if shown is None:
            raise ConnectError(404, f"No status found for connector {name}")
        return JSONResponse(shown.view.to_json(name))

    def tasks(self, asked: Asked) -> Response:
        """Return what each task does."""
        shown = self._shown.get(asked.path["name"])
        return JSONResponse(
            [
                {
                    "id": {"connector": shown.stored.name, "task": number},
                    "config": task_config(shown.stored.config, number, task),
                }
                for number, task in enumerate(shown.view.tasks)
            ]
        )

    def task_status(self, asked: Asked) -> Response:
        """Return how a task is."""
        name, number = asked.path["name"], _task(asked)
        shown = self._shown.all().get(name)
        if shown is None or number >= len(shown.view.tasks):
            raise ConnectError(404, f"No status found for task {name}-{number}")
        return JSONResponse(shown.view.tasks[number].to_json(number, shown.view.worker_id))

    def restart_task(self, asked: Asked) -> Response:
        """Have a task begin anew."""
        name, number = asked.path["name"], _task(asked)
        shown = self._known(name)
        if number >= len(shown.view.tasks):
            raise ConnectError(404, f"Unknown task: {name}-{number}")
        self._connectors.restart_task(name, number, asked.by)
        return nothing(204)

    def restart(self, asked: Asked) -> Response:
        """Have a connector begin anew; with either flag it is shown as it begins."""
        name = asked.path["name"]
        include, failed = asked.is_true("includeTasks"), asked.is_true("onlyFailed")
        self._known(name)
        view = self._connectors.restart(name, asked.by, include_tasks=include, only_failed=failed)
        return JSONResponse(view.to_json(name), 202) if include or failed else nothing(204)

    def _known(self, name: str) -> Shown:
        shown = self._shown.all().get(name)
        if shown is None:
            raise ConnectError(404, f"Unknown connector: {name}")
        return shown

    def wish(self, state: WishedState, status: int) -> Handler:
        """Return what has a connector pause, stop or go on."""

        def handler(asked: Asked) -> Response:
            name = asked.path["name"]
            if name not in self._shown.all():
                raise ConnectError(404, f"Unknown connector {name}")
            self._connectors.wish(name, state, asked.by)
            return nothing(status)

        return handler

    def topics(self, asked: Asked) -> Response:
        """Return names of topics at the target, but for those there were at the last reset."""
        name = asked.path["name"]
        before = self._topics_before.get(name, set())
        names = [topic for topic in self._shown.topics(name) if topic not in before]
        return JSONResponse({name: {"topics": names}})

    def reset_topics(self, asked: Asked) -> Response:
        """Forget topics."""
        name = asked.path["name"]
        self._topics_before[name] = set(self._shown.topics(name))
        return nothing(202)

    # -- offsets ------------------------------------------------------------------------------

    def offsets(self, asked: Asked) -> Response:
        """Return what was copied."""
        return JSONResponse({"offsets": self._shown.offsets(asked.path["name"])})

    def alter_offsets(self, asked: Asked) -> Response:
        """Set offsets forwards; see `heliostat.connect.positions`."""
        wanted = asked.object().get("offsets")
        if not isinstance(wanted, list) or not wanted:
            raise ConnectError(400, NO_OFFSETS)
        if not all(isinstance(offset, dict) for offset in wanted):
            raise ConnectError(400, NO_OFFSETS)
        self._connectors.alter_offsets(asked.path["name"], wanted, asked.by)
        text = "The offsets for this connector have been altered successfully"
        return JSONResponse({"message": text})

    def reset_offsets(self, asked: Asked) -> Response:
        """Forget offsets, if nothing was copied."""
        self._connectors.alter_offsets(asked.path["name"], None, asked.by)
        text = "The offsets for this connector have been reset successfully"
        return JSONResponse({"message": text})


def _name_it(config: dict[str, str], name: str) -> None:
    """Add the name to a configuration that has none; refuse another one."""
    if config.setdefault("name", name) != name:
        raise ConnectError(
            400,
            f"Connector name configuration ({config['name']}) doesn't match connector name in the "
            f"URL ({name})",
        )


def _task(asked: Asked) -> int:
    text = asked.path["task"]
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise ConnectError(404, "HTTP 404 Not Found")
    return int(text)


def _location(asked: Asked, name: str) -> dict[str, str]:
    return {"Location": f"{asked.base_url}connectors/{quote(name, safe='')}"}
