"""Imported besides `forkserver` where a plug-in brings analyses: every worker loads the plug-in, and them with it."""

from routebench.registry import analyses

READY = len(analyses)  # looks into the registry, which fills it
