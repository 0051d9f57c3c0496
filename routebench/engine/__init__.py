"""From a suite file to records on disk: plan, execute, store. A kill loses at most the running cells."""
