"""Names to objects: one registry per kind, filled by decorators, installed packages and plug-ins.

>>> from routebench.registry import routing
>>> "dynamic" in routing
True
"""

from routebench.registry._folders import bundles, without
from routebench.registry._importing import IMPORTS, in_folder, telling
from routebench.registry._loaded import loaded_source, own_file, own_files_of
from routebench.registry._origin import OF_MODULE, SHIPPED, installed_points, shipped
from routebench.registry._plugins import (
    CLAIMS,
    VARIABLE,
    Extensions,
    absolute,
    layout_of,
    plugin_files,
    plugins_of_environment,
)
from routebench.registry._registry import HUES, OF_TRAINING, PATH, SHOWN, Registry, hyperparameters_of_function, kebab

extensions = Extensions()
EVERY = extensions.registries
routing, models, datasets, protocols, analyses, losses, optimizers, schedules, augmentations = EVERY.values()

beside = extensions.beside
brought_by = extensions.brought_by
claims = extensions.claims
import_file = extensions.import_file
leave_out_environment = extensions.leave_out_environment
load_plugin = extensions.load_plugin
load_suites = extensions.load_suites
loaded_plugins = extensions.loaded_plugins
named_beside = extensions.named_beside
plugins_of = extensions.plugins_of
replaces = extensions.replaces
says_how_it_is_shown = extensions.says_how_it_is_shown
suite_files = extensions.suite_files
suite_origin = extensions.suites.origin

__all__ = [
    "CLAIMS",
    "EVERY",
    "HUES",
    "IMPORTS",
    "OF_MODULE",
    "OF_TRAINING",
    "PATH",
    "SHIPPED",
    "SHOWN",
    "VARIABLE",
    "Registry",
    "absolute",
    "analyses",
    "augmentations",
    "beside",
    "brought_by",
    "bundles",
    "claims",
    "datasets",
    "extensions",
    "hyperparameters_of_function",
    "import_file",
    "in_folder",
    "installed_points",
    "kebab",
    "layout_of",
    "leave_out_environment",
    "load_plugin",
    "load_suites",
    "loaded_plugins",
    "loaded_source",
    "losses",
    "models",
    "named_beside",
    "optimizers",
    "own_file",
    "own_files_of",
    "plugin_files",
    "plugins_of",
    "plugins_of_environment",
    "protocols",
    "replaces",
    "routing",
    "says_how_it_is_shown",
    "schedules",
    "shipped",
    "suite_files",
    "suite_origin",
    "telling",
    "without",
]
