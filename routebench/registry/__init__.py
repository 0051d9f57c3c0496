"""Names to objects: one registry per kind, filled by decorators, installed packages and plug-ins.

>>> from routebench.registry import routing
>>> "dynamic" in routing
True
"""

from routebench.registry.files import import_file
from routebench.registry.installed import PROBLEMS
from routebench.registry.known import EVERY, analyses, datasets, models, protocols, routing
from routebench.registry.names import Registry
from routebench.registry.origin import SHIPPED, shipped
from routebench.registry.plugins import (
    VARIABLE,
    leave_out_environment,
    load_plugin,
    loaded_plugins,
    plugin_files,
    plugins_of,
    plugins_of_environment,
)
from routebench.registry.suites import suite_files, suite_origin

__all__ = [
    "EVERY",
    "PROBLEMS",
    "SHIPPED",
    "VARIABLE",
    "Registry",
    "analyses",
    "datasets",
    "import_file",
    "leave_out_environment",
    "load_plugin",
    "loaded_plugins",
    "models",
    "plugin_files",
    "plugins_of",
    "plugins_of_environment",
    "protocols",
    "routing",
    "shipped",
    "suite_files",
    "suite_origin",
]
