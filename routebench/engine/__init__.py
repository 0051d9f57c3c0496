"""Turns a suite file into records on disk: plan, execute, store. A kill loses at most the active runs."""
