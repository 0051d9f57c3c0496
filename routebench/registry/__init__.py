"""Names to objects: one registry per kind, filled by decorators, installed packages and plug-ins.

>>> from routebench.registry import routing
>>> "dynamic" in routing
True
"""

from routebench.registry._loaded import loaded_source, own_file, own_files_of
from routebench.registry._origin import OF_MODULE, SHIPPED, shipped, telling
from routebench.registry._plugins import VARIABLE, Extensions, absolute, plugin_files, plugins_of_environment
from routebench.registry._registry import Registry

extensions = Extensions()
EVERY = extensions.registries
routing, models, datasets, protocols, analyses = EVERY.values()

brought_by = extensions.brought_by
import_file = extensions.import_file
leave_out_environment = extensions.leave_out_environment
load_plugin = extensions.load_plugin
load_suites = extensions.load_suites
loaded_plugins = extensions.loaded_plugins
plugins_of = extensions.plugins_of
suite_files = extensions.suite_files
suite_origin = extensions.suites.origin

__all__ = [
    "EVERY",
    "OF_MODULE",
    "SHIPPED",
    "VARIABLE",
    "Registry",
    "absolute",
    "analyses",
    "brought_by",
    "datasets",
    "extensions",
    "import_file",
    "leave_out_environment",
    "load_plugin",
    "load_suites",
    "loaded_plugins",
    "loaded_source",
    "models",
    "own_file",
    "own_files_of",
    "plugin_files",
    "plugins_of",
    "plugins_of_environment",
    "protocols",
    "routing",
    "shipped",
    "suite_files",
    "suite_origin",
    "telling",
]
