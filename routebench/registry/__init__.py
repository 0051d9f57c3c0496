"""Names to objects: one registry per kind, filled by decorators, installed packages and plug-ins.

>>> from routebench.registry import routing
>>> "dynamic" in routing
True
"""

from routebench.registry._origin import SHIPPED, shipped
from routebench.registry._plugins import VARIABLE, Extensions, plugin_files, plugins_of_environment
from routebench.registry._registry import Registry

extensions = Extensions()
EVERY = extensions.registries
routing, models, datasets, protocols, analyses = EVERY.values()

import_file = extensions.import_file
leave_out_environment = extensions.leave_out_environment
load_plugin = extensions.load_plugin
loaded_plugins = extensions.loaded_plugins
plugins_of = extensions.plugins_of
suite_files = extensions.suite_files
suite_origin = extensions.suites.origin

__all__ = [
    "EVERY",
    "SHIPPED",
    "VARIABLE",
    "Registry",
    "analyses",
    "datasets",
    "extensions",
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
