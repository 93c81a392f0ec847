-- The statements of the SQLite store. A namespace is given by its number.

-- name: load_slot
SELECT id, slot FROM timeline WHERE namespace = ? AND key = ?

-- Of the timelines in a JSON array: reads them in less time than a statement for each.
-- name: load_slots
SELECT timeline.key, timeline.id, slot FROM json_each(?) CROSS JOIN timeline
WHERE namespace = ? AND timeline.key = json_each.value

-- For a name or a slot that is not UTF-8.
-- name: raw_slot
SELECT id, CAST(slot AS BLOB) FROM timeline WHERE namespace = ? AND key = CAST(? AS TEXT)

-- name: unindex
UPDATE timeline SET waiting = NULL, ready = NULL, since = NULL, until = NULL, paused_until = NULL, expires = NULL
WHERE id = ?

-- name: timeline_rows
SELECT CAST(key AS BLOB), CAST(slot AS BLOB), waiting, ready, since, until, paused_until, expires FROM timeline
WHERE namespace = ? AND key > CAST(? AS TEXT) ORDER BY key LIMIT ?

-- name: letter_rows
SELECT number, CAST(id AS BLOB), CAST(timeline AS BLOB), batch, CAST(body AS BLOB) FROM letter
WHERE namespace = ? AND number > ? ORDER BY number LIMIT ?

-- name: replace_letter
UPDATE letter SET id = ?, timeline = ?, body = ? WHERE number = ?

-- name: remove_letter_row
DELETE FROM letter WHERE number = ?

-- name: history_rows
SELECT place, CAST(timeline AS BLOB), CAST(body AS BLOB) FROM history WHERE namespace = ? ORDER BY place

-- name: remove_entry
DELETE FROM history WHERE namespace = ? AND place = ?

-- name: notes
SELECT CAST(name AS BLOB), body FROM note WHERE namespace = ?

-- name: batches
SELECT batch, count(*) FROM record
WHERE namespace = :namespace AND batch NOT IN (SELECT batch FROM trash WHERE namespace = :namespace) GROUP BY batch

-- name: valueless_keys
SELECT key FROM record WHERE batch = ? AND payload IS NULL ORDER BY key LIMIT ?

-- name: insert_slot
INSERT INTO timeline (id, namespace, key, waiting, ready, since, until, paused_until, expires, slot)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: update_slot
UPDATE timeline SET slot = ? WHERE id = ?

-- Most adds move the due time and nothing else: an update of that column alone leaves the other indexes untouched.
-- name: put_off_slot
UPDATE timeline SET waiting = ?, slot = ? WHERE id = ?

-- name: move_slot
UPDATE timeline SET waiting = ?, ready = ?, since = ?, until = ?, paused_until = ?, expires = ?, slot = ?
WHERE id = ?

-- name: delete_slot
DELETE FROM timeline WHERE id = ?

-- name: waiting
SELECT waiting, id, key FROM timeline
WHERE namespace = ? AND waiting <= ? AND (waiting, id) > (?, ?)
ORDER BY waiting, id LIMIT ?

-- Timelines of a state, for people: read from the index of the schedule.
-- name: waiting_in_order
SELECT waiting, id, key, slot FROM timeline
WHERE namespace = ? AND waiting IS NOT NULL AND (waiting, id) > (?, ?) ORDER BY waiting, id LIMIT ?

-- name: ready_in_order
SELECT ready, id, key, slot FROM timeline
WHERE namespace = ? AND ready IS NOT NULL AND (ready, id) > (?, ?) ORDER BY ready, id LIMIT ?

-- name: until_in_order
SELECT until, id, key, slot FROM timeline
WHERE namespace = ? AND until IS NOT NULL AND (until, id) > (?, ?) ORDER BY until, id LIMIT ?

-- name: paused_until_in_order
SELECT paused_until, id, key, slot FROM timeline
WHERE namespace = ? AND paused_until IS NOT NULL AND (paused_until, id) > (?, ?) ORDER BY paused_until, id LIMIT ?

-- name: stale_ready
SELECT key FROM timeline WHERE namespace = ? AND since <= ? ORDER BY since, id LIMIT ?

-- name: lapsed
SELECT key FROM (
    SELECT * FROM (
        SELECT until AS at, id, key FROM timeline
        WHERE namespace = :namespace AND until <= :now ORDER BY until, id LIMIT :limit)
    UNION ALL SELECT * FROM (
        SELECT paused_until AS at, id, key FROM timeline
        WHERE namespace = :namespace AND paused_until <= :now ORDER BY paused_until, id LIMIT :limit)
) ORDER BY at, id LIMIT :limit

-- name: lapsed_while_paused
SELECT key FROM timeline WHERE namespace = ? AND paused_until <= ? ORDER BY paused_until, id LIMIT ?

-- name: suspects
SELECT key FROM timeline WHERE namespace = ? AND until <= ? ORDER BY until, id LIMIT ? OFFSET ?

-- name: leases_beyond
SELECT key, until FROM timeline WHERE namespace = ? AND until > ? AND until < ? ORDER BY until, id LIMIT ?

-- name: first_suspect
SELECT until FROM timeline WHERE namespace = ? AND until <= ? ORDER BY until LIMIT 1

-- name: expiring
SELECT key FROM timeline WHERE namespace = ? AND expires <= ? ORDER BY expires, id LIMIT ?

-- Each branch reads a page from the head of its own index, so the cost does not grow with the number of due timelines.
-- name: claimable
SELECT key FROM (
    SELECT * FROM (
        SELECT waiting AS at, id, key FROM timeline
        WHERE namespace = :namespace AND waiting <= :now ORDER BY waiting, id LIMIT :limit)
    UNION ALL SELECT * FROM (
        SELECT ready AS at, id, key FROM timeline
        WHERE namespace = :namespace AND ready IS NOT NULL ORDER BY ready, id LIMIT :limit)
) ORDER BY at, id LIMIT :limit

-- A key that is not UTF-8 can only be passed as bytes.
-- name: scan
SELECT key, slot FROM timeline WHERE namespace = ? AND key > CAST(? AS TEXT) ORDER BY key LIMIT ?

-- name: scan_from
SELECT key, slot FROM timeline WHERE namespace = ? AND key >= ? ORDER BY key LIMIT ?

-- name: count_prefix
SELECT count(*) FROM (SELECT 1 FROM timeline WHERE namespace = ? AND key >= ? AND key < CAST(? AS TEXT) LIMIT ?)

-- name: insert_record
INSERT INTO record (arrival, batch, namespace, key, timestamp, deadline, expires, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (batch, key) DO NOTHING

-- name: replace_record
INSERT OR REPLACE INTO record (arrival, batch, namespace, key, timestamp, deadline, expires, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: record
SELECT key, payload, timestamp, arrival FROM record WHERE batch = ? AND key = ?

-- name: first_page
SELECT key, payload, timestamp, arrival FROM record WHERE batch = ? ORDER BY timestamp DESC, arrival DESC LIMIT ?

-- name: newest_keys
SELECT key FROM record WHERE batch = ? ORDER BY timestamp DESC, arrival DESC LIMIT ?

-- name: next_page
SELECT key, payload, timestamp, arrival FROM record WHERE batch = ? AND (timestamp, arrival) < (?, ?)
ORDER BY timestamp DESC, arrival DESC LIMIT ?

-- SQLite knows the length of a payload without reading it.
-- name: fitting
SELECT count(*) FROM (
    SELECT sum(coalesce(length(payload), 0)) OVER (ORDER BY timestamp DESC, arrival DESC) AS weight FROM record WHERE batch = ?
) WHERE weight <= ?

-- name: remove_record
DELETE FROM record WHERE batch = ? AND key = CAST(? AS TEXT)

-- name: drop_oldest
DELETE FROM record WHERE arrival IN
    (SELECT arrival FROM record WHERE batch = ? ORDER BY timestamp, arrival LIMIT ?)

-- name: expire
DELETE FROM record WHERE arrival IN
    (SELECT arrival FROM record WHERE batch = ? AND expires <= ? ORDER BY expires LIMIT ?)

-- name: move_record
UPDATE record SET batch = ? WHERE batch = ? AND key = CAST(? AS TEXT)

-- name: oldest_page
SELECT arrival FROM record WHERE batch = ? ORDER BY timestamp, arrival LIMIT ?

-- A page that moves into another batch, by its arrivals: first those go that arrived before the version there…
-- name: delete_outdated
DELETE FROM record WHERE arrival IN (SELECT value FROM json_each(?)) AND EXISTS
    (SELECT 1 FROM record AS later WHERE later.batch = ? AND later.key = record.key AND later.arrival > record.arrival)

-- …then the versions there that arrived before these.
-- name: delete_superseded
DELETE FROM record WHERE batch = ? AND key IN
    (SELECT key FROM record WHERE arrival IN (SELECT value FROM json_each(?)))

-- name: merge_page
UPDATE record SET batch = ? WHERE arrival IN (SELECT value FROM json_each(?))

-- name: requeue_page
UPDATE record SET batch = ?, deadline = NULL, expires = ? WHERE arrival IN (SELECT value FROM json_each(?))

-- name: earliest_deadline
SELECT min(deadline) FROM record WHERE batch = ? AND deadline IS NOT NULL

-- name: earliest_expiry
SELECT min(expires) FROM record WHERE batch = ?

-- name: latest_expiry
SELECT max(expires) FROM record WHERE batch = ?

-- name: sizes
SELECT batch, count(*), count(*) - count(payload) FROM record WHERE batch IN (SELECT value FROM json_each(?)) GROUP BY batch

-- name: delete_batch
DELETE FROM record WHERE batch = ?

-- name: trash
INSERT INTO trash (batch, namespace) VALUES (?, ?)

-- name: next_trash
SELECT batch FROM trash WHERE namespace = ? ORDER BY batch LIMIT 1

-- name: delete_page
DELETE FROM record WHERE arrival IN (SELECT arrival FROM record WHERE batch = ? LIMIT ?)

-- name: untrash
DELETE FROM trash WHERE namespace = ? AND batch = ?

-- name: trashed_records
SELECT count(*) FROM record WHERE batch IN (SELECT batch FROM trash WHERE namespace = ?)

-- name: letter
SELECT timeline, body FROM letter WHERE namespace = ? AND id = ?

-- name: letter_batch
SELECT batch FROM letter WHERE namespace = ? AND id = ?

-- name: put_letter
INSERT INTO letter (number, namespace, id, timeline, batch, body) VALUES (?, ?, ?, ?, ?, ?)

-- name: update_letter
UPDATE letter SET body = ? WHERE namespace = ? AND id = ?

-- name: remove_letter
DELETE FROM letter WHERE namespace = ? AND id = ?

-- name: letter_number
SELECT number FROM letter WHERE namespace = ? AND id = CAST(? AS TEXT)

-- name: letters
SELECT id, timeline, body FROM letter WHERE namespace = ? AND number > ? ORDER BY number LIMIT ?

-- name: letters_of
SELECT id, timeline, body FROM letter WHERE namespace = ? AND timeline = ? AND number > ? ORDER BY number LIMIT ?

-- name: letter_with
SELECT letter.id, letter.body FROM letter JOIN record ON record.batch = letter.batch AND record.key = ?
WHERE letter.namespace = ? AND letter.timeline = ? ORDER BY letter.number DESC

-- name: next_ended
UPDATE namespace SET ended = ended + 1 WHERE id = ? RETURNING ended

-- name: remember
INSERT OR REPLACE INTO history (namespace, place, number, timeline, body) VALUES (?, ?, ?, ?, ?)

-- An entry of a prefix has the number of the last entry of the rest, and a place after it.
-- name: remember_in_ring
INSERT OR REPLACE INTO history (namespace, place, number, timeline, body, ring)
SELECT id, :place, ended, :timeline, :body, :ring FROM namespace WHERE id = :namespace

-- name: forget_in_ring
DELETE FROM history WHERE namespace = :namespace AND ring = :ring AND ring <> '' AND place <=
(SELECT place FROM history WHERE namespace = :namespace AND ring = :ring AND ring <> '' ORDER BY place DESC LIMIT 1 OFFSET :limit)

-- name: history
SELECT timeline, body FROM history WHERE namespace = ? ORDER BY number DESC, place DESC LIMIT ?

-- name: history_of
SELECT timeline, body FROM history WHERE namespace = ? AND timeline = ? ORDER BY number DESC, place DESC LIMIT ?

-- name: history_under
SELECT timeline, body FROM history WHERE namespace = ? AND timeline >= ? AND timeline < CAST(? AS TEXT)
ORDER BY number DESC, place DESC LIMIT ?

-- name: forget
DELETE FROM history WHERE namespace = ? AND timeline = ?

-- name: oldest_entry
SELECT timeline, body FROM history WHERE namespace = :namespace AND place < :limit
AND (SELECT max(number) FROM history WHERE namespace = :namespace AND place < :limit) - number >= :limit - 1 ORDER BY number LIMIT 1

-- name: oldest_entry_in_ring
SELECT timeline, body FROM history WHERE namespace = :namespace AND ring = :ring AND ring <> ''
ORDER BY place DESC LIMIT 1 OFFSET :limit - 1

-- name: removals
SELECT body FROM removal WHERE namespace = ? AND timeline = ?

-- name: put_removals
INSERT INTO removal (number, namespace, timeline, body, ring) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (namespace, timeline) DO UPDATE SET body = excluded.body, ring = excluded.ring

-- name: forget_removals
DELETE FROM removal WHERE namespace = :namespace AND ring = :ring
AND number <= (SELECT number FROM removal WHERE namespace = :namespace AND ring = :ring ORDER BY number DESC LIMIT 1 OFFSET :limit)

-- name: delete_removals
DELETE FROM removal WHERE namespace = ? AND timeline = ?

-- name: oldest_removals
SELECT body FROM removal WHERE namespace = ? AND ring = ? ORDER BY number DESC LIMIT 1 OFFSET ?

-- name: add_namespace
INSERT INTO namespace (name) VALUES (?) ON CONFLICT (name) DO NOTHING

-- name: namespace
SELECT id FROM namespace WHERE name = ?

-- The highest number in counters and tables: a counter that was set back must not give a number twice.
-- Each add needs it, and with it whether the store is being moved.
-- name: sequence
SELECT max(
    (SELECT coalesce(max(number), 0) FROM namespace), (SELECT coalesce(max(id), 0) FROM timeline),
    (SELECT coalesce(max(arrival), 0) FROM record), (SELECT coalesce(max(number), 0) FROM letter)
), EXISTS (SELECT 1 FROM namespace WHERE id = ? AND moving IS NOT NULL)

-- name: moving
SELECT moving FROM namespace WHERE id = ?

-- name: put_moving
UPDATE namespace SET moving = ? WHERE id = ?

-- name: ledger
SELECT accepted, pending, open, delivered, superseded, dropped, expired, deleted, dead, lost, declined FROM namespace WHERE id = ?

-- name: digests_delivered
SELECT digests FROM namespace WHERE id = ?

-- The counters that a new record changes, in less than half of the time that all of them take.
-- name: save_adds
UPDATE namespace SET number = max(number, ?), accepted = accepted + ?, pending = pending + ? WHERE id = ?

-- name: save_counters
UPDATE namespace SET
    number = max(number, :number),
    accepted = accepted + :accepted, pending = pending + :pending, open = open + :open,
    delivered = delivered + :delivered, superseded = superseded + :superseded, dropped = dropped + :dropped,
    expired = expired + :expired, deleted = deleted + :deleted, dead = dead + :dead, lost = lost + :lost, declined = declined + :declined,
    digests = digests + :digests
WHERE id = :namespace

-- name: count_records
SELECT count(*) FROM record WHERE namespace = ?

-- name: count_timelines
SELECT count(*) FROM timeline WHERE namespace = ?

-- Each count and each minimum reads an index of its own; a count ends at `most`.
-- name: standing
SELECT
    (SELECT count(*) FROM (SELECT 1 FROM timeline WHERE namespace = :namespace LIMIT :most)),
    (SELECT count(*) FROM (SELECT 1 FROM timeline WHERE namespace = :namespace AND waiting IS NOT NULL LIMIT :most)),
    (SELECT count(*) FROM (SELECT 1 FROM timeline WHERE namespace = :namespace AND ready IS NOT NULL LIMIT :most)),
    (SELECT count(*) FROM (SELECT 1 FROM timeline WHERE namespace = :namespace AND until IS NOT NULL LIMIT :most))
        + (SELECT count(*) FROM (SELECT 1 FROM timeline WHERE namespace = :namespace AND paused_until < 18014398509481984 LIMIT :most)),
    (SELECT count(*) FROM (SELECT 1 FROM timeline WHERE namespace = :namespace AND waiting <= :now LIMIT :most))
        + (SELECT count(*) FROM (SELECT 1 FROM timeline WHERE namespace = :namespace AND ready IS NOT NULL LIMIT :most))
        + (SELECT count(*) FROM (SELECT 1 FROM timeline WHERE namespace = :namespace AND until <= :now LIMIT :most)),
    (SELECT min(at) FROM (
        SELECT min(waiting) AS at FROM timeline WHERE namespace = :namespace AND waiting IS NOT NULL
        UNION ALL
        SELECT min(ready) FROM timeline WHERE namespace = :namespace AND ready IS NOT NULL
    )),
    (SELECT min(expires) FROM timeline WHERE namespace = :namespace AND expires IS NOT NULL)

-- name: count_letters
SELECT count(*) FROM letter WHERE namespace = ?

-- name: count_trash
SELECT count(*) FROM trash WHERE namespace = ?

-- Without the samples, which are a history.
-- name: count_notes
SELECT count(*) FROM note WHERE namespace = ? AND name NOT LIKE 'samples:%'

-- name: note
SELECT body FROM note WHERE namespace = ? AND name = ?

-- name: put_note
INSERT OR REPLACE INTO note (namespace, name, body) VALUES (?, ?, ?)

-- name: remove_note
DELETE FROM note WHERE namespace = ? AND name = ?

-- name: remove_notes
DELETE FROM note WHERE namespace = ? AND name >= ? AND name < ?

-- name: timestamp
SELECT timestamp FROM record WHERE batch = ? AND key = ?

-- name: first_export_page
SELECT key, payload, timestamp, arrival, deadline, expires FROM record
WHERE batch = ? ORDER BY timestamp, arrival LIMIT ?

-- name: next_export_page
SELECT key, payload, timestamp, arrival, deadline, expires FROM record
WHERE batch = ? AND (timestamp, arrival) > (?, ?) ORDER BY timestamp, arrival LIMIT ?

-- name: document
SELECT number, collection, expires, length(body), key, body, timeline, at, ring FROM document WHERE namespace = ? AND collection = ? AND key = ?

-- name: put_document
INSERT INTO document (number, namespace, collection, expires, key, body, timeline, at, ring)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: remove_document
DELETE FROM document WHERE number = ?

-- Without its body, which may be large; so is the next one.
-- name: oldest_document
SELECT number, collection, expires, length(body), key, x'', timeline, at, ring FROM document
WHERE namespace = ? AND collection = ? ORDER BY number LIMIT 1

-- name: oldest_document_of_ring
SELECT number, collection, expires, length(body), key, x'', timeline, at, ring FROM document
WHERE namespace = ? AND collection = ? AND ring = ? ORDER BY number LIMIT 1

-- name: newest_documents
SELECT number, collection, expires, length(body), key, body, timeline, at, ring FROM document WHERE namespace = ? AND collection = ? AND number < ?
ORDER BY number DESC LIMIT ?

-- name: newest_documents_of
SELECT number, collection, expires, length(body), key, body, timeline, at, ring FROM document
WHERE namespace = ? AND collection = ? AND timeline = ? AND number < ? ORDER BY number DESC LIMIT ?

-- name: documents_of
SELECT number, collection, expires, length(body), key, body, timeline, at, ring FROM document WHERE namespace = ? AND timeline = ?
ORDER BY collection, number LIMIT ?

-- name: count_documents
SELECT count(*) FROM document WHERE namespace = ?
