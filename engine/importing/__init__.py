"""Jobs that other systems ran, read into the log: what their records say, and no more."""
