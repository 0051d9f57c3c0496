"""Plans, runs and keeps: from a suite to a folder of records."""
