-- begin --
BEGIN IMMEDIATE

-- commit --
COMMIT

-- rollback --
ROLLBACK

-- checkpoint --
PRAGMA wal_checkpoint(PASSIVE)

-- last_position --
SELECT coalesce(max(position), 0) FROM events

-- log_id --
SELECT value FROM meta WHERE key = 'log_id'

-- add_stream --
INSERT INTO streams (name) VALUES (?) RETURNING id

-- stream_number --
SELECT id FROM streams WHERE name = ?

-- stream_name --
SELECT name FROM streams WHERE id = ?

-- stream_names --
SELECT name FROM streams WHERE substr(name, 1, length(:prefix)) = :prefix ORDER BY id

-- add_events --
-- For each null that is bound, and each value of a type that is no exact int, float, str or
-- bytearray, Python's module asks its adapters, which takes ten times as long.
INSERT INTO events (
    position, stream, version, kind, schema, id, at, causation, ignorable, data, hash
)
VALUES {rows}

-- add_many_events --
-- The same with rows of zeros, which are no rows; a twentieth slower.
INSERT INTO events (
    position, stream, version, kind, schema, id, at, causation, ignorable, data, hash
)
SELECT
    column1, column2, column3, column4, column5, column6, column7,
    nullif(column8, ''), column9, column10, column11
FROM (VALUES {rows})
WHERE column1 > 0

-- tail --
SELECT version, hash, at FROM events WHERE stream = ? ORDER BY version DESC LIMIT 1

-- head --
SELECT version, hash FROM events
WHERE stream = (SELECT id FROM streams WHERE name = ?)
ORDER BY version DESC LIMIT 1

-- find_event --
SELECT events.id, name, version FROM events JOIN streams ON streams.id = stream
WHERE events.id = ?

-- stored_versions --
SELECT position, stream, version, kind, schema, id, at, causation, ignorable, data, hash
FROM events
WHERE stream = ? AND version BETWEEN ? AND ?
ORDER BY version

-- stream_events --
SELECT position, stream, version, kind, schema, id, at, causation, ignorable, data, hash
FROM events
WHERE stream = (SELECT id FROM streams WHERE name = :stream) AND version > :after
ORDER BY version LIMIT :limit

-- next_events --
SELECT position, stream, version, kind, schema, id, at, causation, ignorable, data, hash
FROM events
WHERE position > :after AND position <= :until
ORDER BY position LIMIT :limit

-- next_position_of --
-- Answered by the index on (stream, version) alone, which holds the position too.
SELECT min(position) FROM events
WHERE
    stream IN (
        SELECT id FROM streams WHERE name IN (SELECT value FROM json_each(:streams))
    )
    AND position > :after

-- events_of --
-- The plus keeps SQLite from reading whole streams where a span of positions is asked for.
SELECT position, stream, version, kind, schema, id, at, causation, ignorable, data, hash
FROM events
WHERE
    position BETWEEN :first AND :last
    AND +stream IN (
        SELECT id FROM streams WHERE name IN (SELECT value FROM json_each(:streams))
    )
ORDER BY position

-- add_blob --
INSERT OR IGNORE INTO blobs (digest, size, data) VALUES (?, ?, ?)

-- blob --
SELECT data FROM blobs WHERE digest = ?

-- blob_size --
SELECT size, length(data) FROM blobs WHERE digest = ?

-- has_blob --
SELECT 1 FROM blobs WHERE digest = ?
