"""From a suite file to records on disk: plan, execute, store. A kill at any moment loses at most the running cells."""
