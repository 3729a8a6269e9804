"""The report: one folder or one file that a browser opens without any network."""
