"""The one configuration file: parsed once into frozen values, refused with field, value, reason.

`load_config` is the entry point. `model` has the values and their documentation, `load` reads the
file and words every problem, `checks` has checks across fields and of the clusters' answers.
"""

from heliostat.config.checks import check_distinct_clusters
from heliostat.config.gaps import ErrorRule, ErrorsConfig, GapsConfig, SchemaErrorRule
from heliostat.config.groups import GroupsConfig
from heliostat.config.load import ConfigFile, load_config, read_config_file
from heliostat.config.model import (
    BUILT_IN_EXCLUDE,
    CONFIG_EXCLUDE_DEFAULT,
    DRILL_TOPIC,
    FORCED_CONFIGS,
    FOREVER_MS,
    RESERVED_BEGINNINGS,
    STATE_TOPIC_PREFIX,
    ClusterConfig,
    Config,
    FormatNaming,
    LanesConfig,
    LinkConfig,
    LinkSettings,
    PrefixNaming,
    RecordsConfig,
    SparkConfig,
    StateConfig,
    TopicsConfig,
)
from heliostat.config.patterns import compile_pattern, is_plain_name
from heliostat.config.pipelines import PipelineConfig
from heliostat.config.registry import RegistryConfig
from heliostat.config.schemas import SchemasConfig
from heliostat.config.security import SecurityConfig
from heliostat.config.service import MetricsConfig, ServiceConfig
from heliostat.config.starts import StartAt, StartAtGroup, StartAtOffsets

__all__ = [
    "BUILT_IN_EXCLUDE",
    "CONFIG_EXCLUDE_DEFAULT",
    "DRILL_TOPIC",
    "FORCED_CONFIGS",
    "FOREVER_MS",
    "RESERVED_BEGINNINGS",
    "STATE_TOPIC_PREFIX",
    "ClusterConfig",
    "Config",
    "ConfigFile",
    "ErrorRule",
    "ErrorsConfig",
    "FormatNaming",
    "GapsConfig",
    "GroupsConfig",
    "LanesConfig",
    "LinkConfig",
    "LinkSettings",
    "MetricsConfig",
    "PipelineConfig",
    "PrefixNaming",
    "RecordsConfig",
    "RegistryConfig",
    "SchemaErrorRule",
    "SchemasConfig",
    "SecurityConfig",
    "ServiceConfig",
    "SparkConfig",
    "StartAt",
    "StartAtGroup",
    "StartAtOffsets",
    "StateConfig",
    "TopicsConfig",
    "check_distinct_clusters",
    "compile_pattern",
    "is_plain_name",
    "load_config",
    "read_config_file",
]
