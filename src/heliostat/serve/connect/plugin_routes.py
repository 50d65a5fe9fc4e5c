"""What is answered of classes of connectors, and of loggers."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response

from heliostat.connect.config_keys import keys_of
from heliostat.connect.plugins import CLASS, PLUGINS, plugin_in, plugin_of
from heliostat.operate.connectors import Connectors
from heliostat.serve.connect.answers import Asked, ConnectError, config_in, nothing
from heliostat.serve.connect.loggers import Loggers
from heliostat.serve.connect.routes import Handler

PLUGIN_TYPES = (
    "Valid types are sink, source, converter, header_converter, transformation, predicate."
)


class PluginRoutes:
    """Handlers of requests for classes and loggers; see `ConnectRoutes`."""

    def __init__(self, connectors: Connectors, loggers: Loggers) -> None:
        self._connectors = connectors
        self._loggers = loggers

    def table(self) -> list[tuple[str, str, Handler]]:
        """Return the handler of each path and method."""
        plugin, logger = "/connector-plugins/{plugin}", "/admin/loggers/{logger}"
        return [
            ("/connector-plugins", "GET", self.plugins),
            (f"{plugin}/config", "GET", self.plugin_config),
            (f"{plugin}/config/validate", "PUT", self.validate),
            ("/admin/loggers", "GET", self.loggers),
            (logger, "GET", self.logger),
            (logger, "PUT", self.set_logger),
        ]

    def plugins(self, _: Asked) -> Response:
        """List classes that become links."""
        return JSONResponse([plugin.to_json() for plugin in PLUGINS])

    def plugin_config(self, asked: Asked) -> Response:
        """Return the properties of a class."""
        name = asked.path["plugin"]
        plugin = plugin_of(name)
        if plugin is None:
            raise ConnectError(400, f"Invalid plugin class {name}. {PLUGIN_TYPES}")
        return JSONResponse([key.to_json() for key in keys_of(plugin.kind)])

    def validate(self, asked: Asked) -> Response:
        """Check a configuration; it is answered whenever it can be, whatever is wrong with it."""
        name, config = asked.path["plugin"], config_in(asked.object())
        if not config.get(CLASS):
            named = ", ".join(sorted(config))
            raise ConnectError(400, f"Connector config {{{named}}} contains no connector type")
        plugin, given = plugin_of(name), plugin_in(config)
        if plugin is not None and given is not None and plugin != given:
            raise ConnectError(
                400,
                f"Included connector type {config[CLASS]} does not match request type {name}",
            )
        return JSONResponse(self._connectors.validate(name, config).to_json())

    def loggers(self, _: Asked) -> Response:
        """Return levels of loggers."""
        return JSONResponse(self._loggers.all())

    def logger(self, asked: Asked) -> Response:
        """Return a logger's level."""
        return JSONResponse(self._loggers.get(asked.path["logger"]))

    def set_logger(self, asked: Asked) -> Response:
        """Set a logger's level."""
        changed = self._loggers.set(asked.path["logger"], asked.object())
        return nothing(204) if asked.first("scope") == "cluster" else JSONResponse(changed)
