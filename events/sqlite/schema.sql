-- An event log, format 1. Positions and versions are 1, 2, 3 … without a hole.

CREATE TABLE meta (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE streams (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE events (
    position INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL REFERENCES streams (id),
    version INTEGER NOT NULL,
    kind TEXT NOT NULL,
    schema INTEGER NOT NULL,
    id TEXT NOT NULL UNIQUE,
    at TEXT NOT NULL,
    causation TEXT,
    ignorable INTEGER NOT NULL,
    data TEXT NOT NULL,
    hash BLOB NOT NULL,
    UNIQUE (stream, version)
) STRICT;

CREATE TABLE blobs (
    digest TEXT PRIMARY KEY,
    size INTEGER NOT NULL,
    data BLOB NOT NULL
) STRICT;

-- For people: stream names and hex instead of numbers and bytes.
CREATE VIEW log AS
SELECT
    position, name AS stream, version, kind, schema, events.id, at, causation, ignorable, data,
    lower(hex(hash)) AS hash
FROM events JOIN streams ON streams.id = events.stream;

-- The log only grows. INSERT OR REPLACE deletes rows without asking the delete trigger, so the
-- insert trigger refuses whatever would have to replace something.
CREATE TRIGGER events_are_appended BEFORE INSERT ON events
BEGIN
    SELECT CASE
        WHEN NEW.position IS NOT (SELECT coalesce(max(position), 0) + 1 FROM events)
            THEN raise(ABORT, 'events are only appended, at the next position')
        WHEN EXISTS (SELECT 1 FROM events WHERE stream = NEW.stream AND version = NEW.version)
            THEN raise(ABORT, 'this version of the stream is taken')
        WHEN EXISTS (SELECT 1 FROM events WHERE id = NEW.id)
            THEN raise(ABORT, 'this event id is taken')
    END;
END;

CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN
    SELECT raise(ABORT, 'events are never changed');
END;

CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
BEGIN
    SELECT raise(ABORT, 'events are never deleted');
END;

CREATE TRIGGER streams_are_added BEFORE INSERT ON streams
BEGIN
    SELECT raise(ABORT, 'this stream is there already')
    WHERE EXISTS (SELECT 1 FROM streams WHERE id = NEW.id OR name = NEW.name);
END;

CREATE TRIGGER streams_are_never_changed BEFORE UPDATE ON streams
BEGIN
    SELECT raise(ABORT, 'streams are never changed');
END;

CREATE TRIGGER streams_are_never_deleted BEFORE DELETE ON streams
BEGIN
    SELECT raise(ABORT, 'streams are never deleted');
END;

CREATE TRIGGER blobs_are_never_changed BEFORE UPDATE ON blobs
BEGIN
    SELECT raise(ABORT, 'blobs are never changed');
END;
