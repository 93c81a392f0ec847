-- The statements of the PostgreSQL store. A namespace is given by its number.

-- Insert the names of new timelines, and lock those that exist. All transactions lock in the order of keys, and a name before its timeline.
-- name: reserve
INSERT INTO timeline_name (namespace, key) SELECT %s, key FROM unnest(%s::bytea[]) WITH ORDINALITY AS t (key, place)
ORDER BY place ON CONFLICT (namespace, key) DO UPDATE SET key = timeline_name.key WHERE false

-- LATERAL and LIMIT: one timeline after the other, whatever statistics the planner has. After waiting for a name, the newest version of its
-- timeline is read: a lock follows a row from version to version.
-- With each of them: whether the store is being moved.
-- name: lock
SELECT newest.*, EXISTS (SELECT FROM namespace WHERE id = %(namespace)s AND moving IS NOT NULL) FROM unnest(%(keys)s::bytea[]) AS wanted (key), LATERAL (
    SELECT key FROM timeline_name WHERE namespace = %(namespace)s AND key = wanted.key LIMIT 1 FOR UPDATE
) AS named, LATERAL (
    SELECT version, key, slot FROM timeline WHERE namespace = %(namespace)s AND key = named.key
    ORDER BY version DESC LIMIT 1 FOR UPDATE
) AS newest

-- name: load
SELECT newest.* FROM unnest(%(keys)s::bytea[]) AS wanted (key), LATERAL (
    SELECT version, key, slot FROM timeline WHERE namespace = %(namespace)s AND key = wanted.key ORDER BY version DESC LIMIT 1
) AS newest

-- Lock the first of these timelines that no other transaction has locked. They are found by their ctid, without walking dead versions; the id
-- leaves out a row that has taken the place of one that changed meanwhile.
-- name: lock_some
SELECT version, key, slot FROM timeline JOIN timeline_name USING (namespace, key)
WHERE timeline.ctid = ANY (%s::tid[]) AND id = ANY (%s::bigint[])
ORDER BY array_position(%s::bigint[], id) LIMIT %s FOR UPDATE SKIP LOCKED

-- Each row by its ctid, whatever statistics the planner has: no other transaction can move it, since it is locked.
-- name: save_slots
UPDATE timeline SET version = t.next, waiting = t.waiting, ready = t.ready, since = t.since, until = t.until,
    paused_until = t.paused_until, expires = t.expires, slot = t.slot
FROM unnest(%s::bytea[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[],
    %s::bytea[]) AS t (key, version, next, waiting, ready, since, until, paused_until, expires, slot), LATERAL (
    SELECT ctid FROM timeline WHERE namespace = %s AND key = t.key AND version = t.version LIMIT 1
) AS place WHERE timeline.ctid = place.ctid
RETURNING pg_current_xact_id()::text

-- name: insert_names
INSERT INTO timeline_name (namespace, key) SELECT %s, unnest(%s::bytea[])

-- name: insert_slots
INSERT INTO timeline (namespace, key, waiting, ready, since, until, paused_until, expires, slot)
SELECT %s, t.* FROM unnest(%s::bytea[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bytea[])
    AS t (key, waiting, ready, since, until, paused_until, expires, slot)
RETURNING version, key, pg_current_xact_id()::text

-- name: delete_slots
WITH unnamed AS (DELETE FROM timeline_name WHERE namespace = %(namespace)s AND key = ANY (%(keys)s::bytea[]))
DELETE FROM timeline USING unnest(%(keys)s::bytea[], %(versions)s::bigint[]) AS t (key, version), LATERAL (
    SELECT ctid FROM timeline WHERE namespace = %(namespace)s AND key = t.key AND version = t.version LIMIT 1
) AS place WHERE timeline.ctid = place.ctid
RETURNING pg_current_xact_id()::text

-- name: waiting
SELECT waiting, id, key FROM timeline
WHERE namespace = %s AND waiting <= %s AND (waiting, id) > (%s, %s)
ORDER BY waiting, id LIMIT %s

-- Timelines of a state, for people: read from the index of the schedule.
-- name: waiting_in_order
SELECT waiting, id, key, slot FROM timeline
WHERE namespace = %s AND waiting IS NOT NULL AND (waiting, id) > (%s, %s) ORDER BY waiting, id LIMIT %s

-- name: ready_in_order
SELECT ready, id, key, slot FROM timeline
WHERE namespace = %s AND ready IS NOT NULL AND (ready, id) > (%s, %s) ORDER BY ready, id LIMIT %s

-- name: until_in_order
SELECT until, id, key, slot FROM timeline
WHERE namespace = %s AND until IS NOT NULL AND (until, id) > (%s, %s) ORDER BY until, id LIMIT %s

-- name: paused_until_in_order
SELECT paused_until, id, key, slot FROM timeline
WHERE namespace = %s AND paused_until IS NOT NULL AND (paused_until, id) > (%s, %s) ORDER BY paused_until, id LIMIT %s

-- name: stale_ready
SELECT key FROM timeline WHERE namespace = %s AND since <= %s ORDER BY since, id LIMIT %s

-- name: lapsed
SELECT key FROM (
    (SELECT until AS at, id, key FROM timeline
        WHERE namespace = %(namespace)s AND until <= %(now)s ORDER BY until, id LIMIT %(limit)s)
    UNION ALL
    (SELECT paused_until, id, key FROM timeline
        WHERE namespace = %(namespace)s AND paused_until <= %(now)s ORDER BY paused_until, id LIMIT %(limit)s)
) AS found ORDER BY at, id LIMIT %(limit)s

-- name: lapsed_while_paused
SELECT key FROM timeline WHERE namespace = %s AND paused_until <= %s ORDER BY paused_until, id LIMIT %s

-- name: leases_beyond
SELECT key, until FROM timeline WHERE namespace = %s AND until > %s AND until < %s ORDER BY until, id LIMIT %s

-- Rows have the form of `claimable`.
-- name: suspects
SELECT 2, until, id, ctid::text FROM timeline WHERE namespace = %s AND until >= %s AND until <= %s ORDER BY until, id LIMIT %s OFFSET %s

-- name: expiring
SELECT key FROM timeline WHERE namespace = %s AND expires <= %s ORDER BY expires, id LIMIT %s

-- Each branch reads a page from the head of its own index, so the cost does not grow with the number of due timelines. Place 2 is the timeline
-- whose lease lapsed first. Place 3 is about the inbox: its last id, and the oid of the table that numbers namespaces; and whether the store
-- is being moved.
-- name: claimable
(SELECT place, at, id, tid FROM (
    (SELECT 0 AS place, waiting AS at, id, ctid::text AS tid FROM timeline
        WHERE namespace = %(namespace)s AND waiting >= %(waiting)s AND waiting <= %(now)s ORDER BY waiting, id LIMIT %(limit)s)
    UNION ALL
    (SELECT 1, ready, id, ctid::text FROM timeline
        WHERE namespace = %(namespace)s AND ready >= %(ready)s ORDER BY ready, id LIMIT %(limit)s)
) AS found ORDER BY at, id LIMIT %(limit)s)
UNION ALL
(SELECT 2, until, id, ctid::text FROM timeline
    WHERE namespace = %(namespace)s AND until >= %(until)s AND until <= %(now)s ORDER BY until, id LIMIT 1)
UNION ALL
SELECT 3, (SELECT 1 FROM namespace WHERE id = %(namespace)s AND moving IS NOT NULL), max(id), 'namespace'::regclass::oid::text
FROM inbox WHERE namespace = %(namespace)s

-- The names of what `claimable` finds.
-- name: due
SELECT key FROM (
    (SELECT waiting AS at, id, key FROM timeline
        WHERE namespace = %(namespace)s AND waiting <= %(now)s ORDER BY waiting, id LIMIT %(limit)s)
    UNION ALL
    (SELECT ready, id, key FROM timeline WHERE namespace = %(namespace)s AND ready IS NOT NULL ORDER BY ready, id LIMIT %(limit)s)
) AS found ORDER BY at, id LIMIT %(limit)s

-- name: moving
SELECT moving FROM namespace WHERE id = %s

-- name: put_moving
UPDATE namespace SET moving = %s WHERE id = %s RETURNING pg_current_xact_id()::text

-- name: scan
SELECT newest.* FROM timeline_name, LATERAL (
    SELECT key, slot FROM timeline WHERE namespace = timeline_name.namespace AND key = timeline_name.key ORDER BY version DESC LIMIT 1
) AS newest
WHERE timeline_name.namespace = %s AND timeline_name.key > %s ORDER BY timeline_name.key LIMIT %s

-- name: scan_from
SELECT newest.* FROM timeline_name, LATERAL (
    SELECT key, slot FROM timeline WHERE namespace = timeline_name.namespace AND key = timeline_name.key ORDER BY version DESC LIMIT 1
) AS newest
WHERE timeline_name.namespace = %s AND timeline_name.key >= %s ORDER BY timeline_name.key LIMIT %s

-- name: count_prefix
SELECT count(*) FROM (SELECT FROM timeline_name WHERE namespace = %s AND key >= %s AND key < %s LIMIT %s) AS counted

-- A damaged timeline leaves all indexes of times, whatever its slot says. The caller has locked it.
-- name: unindex
UPDATE timeline SET waiting = NULL, ready = NULL, since = NULL, until = NULL, paused_until = NULL, expires = NULL
WHERE namespace = %s AND key = %s

-- name: remove_timeline
WITH unnamed AS (DELETE FROM timeline_name WHERE namespace = %(namespace)s AND key = %(key)s)
DELETE FROM timeline WHERE namespace = %(namespace)s AND key = %(key)s

-- name: timeline_rows
SELECT newest.* FROM timeline_name, LATERAL (
    SELECT key, slot, waiting, ready, since, until, paused_until, expires FROM timeline
    WHERE namespace = timeline_name.namespace AND key = timeline_name.key ORDER BY version DESC LIMIT 1
) AS newest
WHERE timeline_name.namespace = %s AND timeline_name.key > %s ORDER BY timeline_name.key LIMIT %s

-- name: letter_rows
SELECT number, id, timeline, batch, body FROM letter WHERE namespace = %s AND number > %s ORDER BY number LIMIT %s

-- name: replace_letter
UPDATE letter SET id = %s, timeline = %s, body = %s WHERE number = %s

-- name: remove_letter_row
DELETE FROM letter WHERE number = %s

-- name: history_rows
SELECT place, timeline, body FROM history WHERE namespace = %s ORDER BY place

-- name: remove_entry
DELETE FROM history WHERE namespace = %s AND place = %s

-- name: notes
SELECT name, body FROM note WHERE namespace = %s

-- name: batches
SELECT batch, count(*) FROM record WHERE namespace = %(namespace)s
    AND batch NOT IN (SELECT batch FROM trash WHERE namespace = %(namespace)s) GROUP BY batch

-- name: valueless_keys
SELECT key FROM record WHERE batch = %s AND payload IS NULL ORDER BY key LIMIT %s

-- name: numbers
SELECT coalesce(array_agg(nextval('number')), '{}') FROM generate_series(1, %s)

-- name: sequence
SELECT last_value FROM number

-- Which of these records exist; and, in one more row, numbers for new ones, and no batch but a key if the store is being moved.
-- name: known
SELECT batch, key, NULL::bigint[] FROM record WHERE (batch, key) IN (SELECT * FROM unnest(%s::bigint[], %s::bytea[]))
UNION ALL SELECT NULL, (SELECT ''::bytea FROM namespace WHERE id = %s AND moving IS NOT NULL), coalesce(array_agg(nextval('number')), '{}')
FROM generate_series(1, %s)

-- name: put_records
INSERT INTO record (batch, key, arrival, namespace, timestamp, deadline, expires, payload)
SELECT t.batch, t.key, t.arrival, %s, t.timestamp, t.deadline, t.expires, t.payload
FROM unnest(%s::bigint[], %s::bytea[], %s::bigint[], %s::double precision[], %s::bigint[], %s::bigint[], %s::bytea[])
    AS t (batch, key, arrival, timestamp, deadline, expires, payload)
ON CONFLICT (batch, key) DO UPDATE SET arrival = EXCLUDED.arrival, timestamp = EXCLUDED.timestamp,
    deadline = EXCLUDED.deadline, expires = EXCLUDED.expires, payload = EXCLUDED.payload

-- A single add reads before it writes. The timeout is for the locks of its later statements: they must not outlast a process that was frozen.
-- The slot says in which batch to look for the key: the first one in its text, before that of an unfinished digest. Escaped, the text is ASCII,
-- whatever the encoding of the database is. LIMIT: the batch is computed once, for the newest version. To name the table of the writers locks it,
-- as every transaction does.
-- name: look
SELECT set_config('idle_in_transaction_session_timeout', %(patience)s, true), t.version, t.xmin::text, t.slot, t.batch,
    EXISTS (SELECT FROM {schema}.{writers}),
    EXISTS (SELECT FROM {schema}.record WHERE batch = t.batch AND key = %(record)s),
    EXISTS (SELECT FROM {schema}.inbox WHERE namespace = %(namespace)s),
    '{schema}.namespace'::regclass::oid::bigint,
    EXISTS (SELECT FROM {schema}.namespace WHERE id = %(namespace)s AND moving IS NOT NULL),
    nextval('{schema}.number'),
    CASE WHEN t.batch IS NULL THEN nextval('{schema}.number') END,
    CASE WHEN t.batch IS NULL THEN nextval('{schema}.number') END
FROM (SELECT) AS always LEFT JOIN (
    SELECT version, xmin, slot, nullif(rtrim(split_part(split_part(split_part(
        encode(slot, 'escape'), '"digest":', 1), '"batch":', 2), ',', 1), '}'), '')::bigint AS batch
    FROM {schema}.timeline WHERE namespace = %(namespace)s AND key = %(key)s ORDER BY version DESC LIMIT 1
) AS t ON true

-- name: single_update
saved AS (
    UPDATE {schema}.timeline SET version = %(next)s, waiting = %(waiting)s, ready = %(ready)s, since = %(since)s, until = %(until)s,
        paused_until = %(paused_until)s, expires = %(expires)s, slot = %(slot)s
    WHERE namespace = %(namespace)s AND key = %(key)s AND version = %(version)s AND xmin = %(written_by)s::xid RETURNING id
)

-- name: single_insert
named AS (
    INSERT INTO {schema}.timeline_name (namespace, key) VALUES (%(namespace)s, %(key)s) ON CONFLICT (namespace, key) DO NOTHING
    RETURNING namespace, key
), saved AS (
    INSERT INTO {schema}.timeline (namespace, key, waiting, ready, since, until, paused_until, expires, slot)
    SELECT namespace, key, %(waiting)s::bigint, %(ready)s::bigint, %(since)s::bigint, %(until)s::bigint,
        %(paused_until)s::bigint, %(expires)s::bigint, %(slot)s::bytea FROM named
    RETURNING id
)

-- The ledger is joined to `saved`, not filtered by EXISTS: PostgreSQL may have to read its row again after waiting for its lock.
-- name: single_rest
, stored AS (
    INSERT INTO {schema}.record (batch, key, arrival, namespace, timestamp, deadline, expires, payload)
    SELECT %(batch)s, %(record)s, %(arrival)s, %(namespace)s, %(timestamp)s, %(deadline)s::bigint, %(record_expires)s, %(payload)s::bytea
    FROM saved
    ON CONFLICT (batch, key) DO UPDATE SET arrival = EXCLUDED.arrival, timestamp = EXCLUDED.timestamp,
        deadline = EXCLUDED.deadline, expires = EXCLUDED.expires, payload = EXCLUDED.payload
), counted AS (
    UPDATE {schema}.ledger SET accepted = accepted + 1, pending = pending + %(pending_more)s,
        superseded = superseded + %(superseded)s
    FROM saved WHERE namespace = %(namespace)s AND share = pg_backend_pid() %% %(shares)s
)
SELECT pg_current_xact_id()::text, CASE WHEN %(channel)s::text IS NOT NULL THEN pg_notify(%(channel)s::text, '') END FROM saved

-- name: record
SELECT key, payload, timestamp, arrival FROM record WHERE batch = %s AND key = %s

-- A page ends with the record that fills its room. PostgreSQL knows the length of a payload without reading it.
-- name: first_pages
SELECT batch, key, payload, timestamp, arrival FROM (
    SELECT wanted.batch, wanted.place, found.*, coalesce(octet_length(found.payload), 0) AS length,
        sum(coalesce(octet_length(found.payload), 0)) OVER (ORDER BY wanted.place, found.timestamp DESC, found.arrival DESC) AS weight
    FROM unnest(%s::bigint[]) WITH ORDINALITY AS wanted (batch, place), LATERAL (
        SELECT key, payload, timestamp, arrival FROM record WHERE batch = wanted.batch ORDER BY timestamp DESC, arrival DESC LIMIT %s
    ) AS found
) AS pages WHERE weight - length < %s ORDER BY place, timestamp DESC, arrival DESC

-- name: next_page
SELECT key, payload, timestamp, arrival FROM (
    SELECT page.*, coalesce(octet_length(payload), 0) AS length,
        sum(coalesce(octet_length(payload), 0)) OVER (ORDER BY timestamp DESC, arrival DESC) AS weight
    FROM (
        SELECT key, payload, timestamp, arrival FROM record WHERE batch = %s AND (timestamp, arrival) < (%s, %s)
        ORDER BY timestamp DESC, arrival DESC LIMIT %s
    ) AS page
) AS pages WHERE weight - length < %s ORDER BY timestamp DESC, arrival DESC

-- name: fitting
SELECT count(*) FROM (
    SELECT sum(coalesce(octet_length(payload), 0)) OVER (ORDER BY timestamp DESC, arrival DESC) AS weight FROM record WHERE batch = %s
) AS weighed WHERE weight <= %s

-- name: remove_record
DELETE FROM record WHERE batch = %s AND key = %s

-- name: drop_oldest
DELETE FROM record WHERE batch = %(batch)s AND key IN
    (SELECT key FROM record WHERE batch = %(batch)s ORDER BY timestamp, arrival LIMIT %(limit)s)

-- name: expire
DELETE FROM record WHERE batch = %(batch)s AND key IN
    (SELECT key FROM record WHERE batch = %(batch)s AND expires <= %(now)s ORDER BY expires LIMIT %(limit)s)

-- name: move_record
UPDATE record SET batch = %s WHERE batch = %s AND key = %s

-- name: oldest_page
SELECT key FROM record WHERE batch = %s ORDER BY timestamp, arrival LIMIT %s

-- A page that moves into another batch, by its keys: first those go that arrived before the version there…
-- name: delete_outdated
DELETE FROM record AS older USING record AS later
WHERE older.batch = %s AND older.key = ANY (%s::bytea[]) AND later.batch = %s AND later.key = older.key AND later.arrival > older.arrival

-- …then the versions there that arrived before these.
-- name: delete_superseded
DELETE FROM record AS older USING record AS later
WHERE older.batch = %s AND later.batch = %s AND later.key = ANY (%s::bytea[]) AND older.key = later.key

-- name: merge_page
UPDATE record SET batch = %s WHERE batch = %s AND key = ANY (%s::bytea[])

-- name: requeue_page
UPDATE record SET batch = %s, deadline = NULL, expires = %s WHERE batch = %s AND key = ANY (%s::bytea[])

-- name: earliest_deadline
SELECT min(deadline) FROM record WHERE batch = %s AND deadline IS NOT NULL

-- name: earliest_expiry
SELECT min(expires) FROM record WHERE batch = %s

-- name: latest_expiry
SELECT max(expires) FROM record WHERE batch = %s

-- name: sizes
SELECT batch, count(*), count(*) - count(payload) FROM record WHERE batch = ANY (%s::bigint[]) GROUP BY batch

-- name: delete_batches
DELETE FROM record WHERE batch = ANY (%s::bigint[])

-- name: trash
INSERT INTO trash (namespace, batch) SELECT %s, unnest(%s::bigint[])

-- name: some_trash
SELECT batch FROM trash WHERE namespace = %s ORDER BY batch LIMIT %s FOR UPDATE SKIP LOCKED

-- name: delete_page
DELETE FROM record WHERE (batch, key) IN (SELECT batch, key FROM record WHERE batch = ANY (%s::bigint[]) LIMIT %s)

-- name: untrash
DELETE FROM trash WHERE namespace = %s AND batch = ANY (%s::bigint[])

-- name: trashed_records
SELECT count(*) FROM record WHERE batch IN (SELECT batch FROM trash WHERE namespace = %s)

-- name: letter
SELECT timeline, body FROM letter WHERE namespace = %s AND id = %s

-- name: letter_batch
SELECT batch FROM letter WHERE namespace = %s AND id = %s

-- name: put_letter
INSERT INTO letter (number, namespace, id, timeline, batch, body) VALUES (nextval('number'), %s, %s, %s, %s, %s)

-- name: update_letter
UPDATE letter SET body = %s WHERE namespace = %s AND id = %s

-- name: remove_letter
DELETE FROM letter WHERE namespace = %s AND id = %s

-- name: letter_number
SELECT number FROM letter WHERE namespace = %s AND id = %s

-- name: letters
SELECT id, timeline, body FROM letter WHERE namespace = %s AND number > %s ORDER BY number LIMIT %s

-- name: letters_of
SELECT id, timeline, body FROM letter WHERE namespace = %s AND timeline = %s AND number > %s ORDER BY number LIMIT %s

-- name: letter_with
SELECT letter.id, letter.body FROM letter JOIN record ON record.batch = letter.batch AND record.key = %s
WHERE letter.namespace = %s AND letter.timeline = %s ORDER BY letter.number DESC

-- Transactions that draw numbers at the same time may give two entries of one call the same place: the later one stays.
-- name: remember
INSERT INTO history (namespace, place, number, timeline, body)
SELECT DISTINCT ON (number %% %(limit)s) %(namespace)s, number %% %(limit)s, number, timeline, body
FROM (SELECT nextval('ended') AS number, * FROM unnest(%(timelines)s::bytea[], %(bodies)s::bytea[]) AS t (timeline, body)) AS ended
ORDER BY number %% %(limit)s, number DESC
ON CONFLICT (namespace, place) DO UPDATE
SET number = EXCLUDED.number, timeline = EXCLUDED.timeline, body = EXCLUDED.body

-- An entry of a prefix has the number of the last entry of the rest, and a place after it. What the ring has no room for is forgotten; rows that
-- another transaction forgets are left to it.
-- name: remember_in_rings
WITH forgotten AS (
    DELETE FROM history WHERE namespace = %(namespace)s AND place IN (
        SELECT old.place FROM unnest(%(filled)s::bytea[], %(counts)s::bigint[]) AS filled (ring, entries), LATERAL (
            SELECT place FROM history WHERE namespace = %(namespace)s AND history.ring = filled.ring AND history.ring <> '' AND place <= (
                SELECT place FROM history WHERE namespace = %(namespace)s AND history.ring = filled.ring AND history.ring <> ''
                ORDER BY place DESC LIMIT 1 OFFSET %(limit)s - filled.entries
            ) FOR UPDATE SKIP LOCKED
        ) AS old
    )
)
INSERT INTO history (namespace, place, number, timeline, body, ring)
SELECT %(namespace)s, %(limit)s + nextval('number'), last_value - (NOT is_called)::int, timeline, body, ring
FROM ended, unnest(%(rings)s::bytea[], %(timelines)s::bytea[], %(bodies)s::bytea[]) AS t (ring, timeline, body)
ON CONFLICT (namespace, place) DO UPDATE
SET number = EXCLUDED.number, timeline = EXCLUDED.timeline, body = EXCLUDED.body, ring = EXCLUDED.ring

-- name: history
SELECT timeline, body FROM history WHERE namespace = %s ORDER BY number DESC, place DESC LIMIT %s

-- name: history_of
SELECT timeline, body FROM history WHERE namespace = %s AND timeline = %s ORDER BY number DESC, place DESC LIMIT %s

-- name: history_under
SELECT timeline, body FROM history WHERE namespace = %s AND timeline >= %s AND timeline < %s ORDER BY number DESC, place DESC LIMIT %s

-- name: forget
DELETE FROM history WHERE namespace = %s AND timeline = %s

-- name: oldest_entry
SELECT timeline, body FROM history WHERE namespace = %(namespace)s AND place < %(limit)s
AND (SELECT max(number) FROM history WHERE namespace = %(namespace)s AND place < %(limit)s) - number >= %(limit)s - 1 ORDER BY number LIMIT 1

-- name: oldest_entry_in_ring
SELECT timeline, body FROM history WHERE namespace = %(namespace)s AND ring = %(ring)s AND ring <> ''
ORDER BY place DESC LIMIT 1 OFFSET %(limit)s - 1

-- name: removals
SELECT body FROM removal WHERE namespace = %s AND timeline = %s

-- name: put_removals
INSERT INTO removal (namespace, timeline, number, body, ring)
SELECT %s, timeline, nextval('number'), body, ring FROM unnest(%s::bytea[], %s::bytea[], %s::bytea[]) AS t (timeline, body, ring)
ON CONFLICT (namespace, timeline) DO UPDATE SET body = EXCLUDED.body, ring = EXCLUDED.ring

-- Rows that another transaction writes or forgets are left to it: two that wait for each other's rows would never end.
-- name: forget_removals
DELETE FROM removal WHERE namespace = %(namespace)s AND timeline IN (
    SELECT old.timeline FROM unnest(%(rings)s::bytea[]) AS filled (ring), LATERAL (
        SELECT timeline FROM removal WHERE namespace = %(namespace)s AND removal.ring = filled.ring AND number <= (
            SELECT number FROM removal WHERE namespace = %(namespace)s AND removal.ring = filled.ring
            ORDER BY number DESC LIMIT 1 OFFSET %(limit)s
        ) FOR UPDATE SKIP LOCKED
    ) AS old
)

-- name: delete_removals
DELETE FROM removal WHERE namespace = %s AND timeline = %s

-- name: oldest_removals
SELECT body FROM removal WHERE namespace = %s AND ring = %s ORDER BY number DESC LIMIT 1 OFFSET %s

-- name: add_namespace
INSERT INTO namespace (name) VALUES (%s) ON CONFLICT (name) DO NOTHING

-- name: add_shares
INSERT INTO ledger (namespace, share) SELECT id, share FROM namespace, generate_series(0, %s - 1) AS share WHERE name = %s
ON CONFLICT DO NOTHING

-- name: namespace
SELECT id, 'namespace'::regclass::oid::bigint, (SELECT count(*) FROM ledger WHERE ledger.namespace = namespace.id)
FROM namespace WHERE name = %s

-- name: ledger
SELECT sum(accepted), sum(pending), sum(open), sum(delivered), sum(superseded), sum(dropped), sum(expired), sum(deleted),
    sum(dead), sum(lost), sum(declined)
FROM ledger WHERE namespace = %s

-- name: digests_delivered
SELECT sum(digests)::bigint FROM ledger WHERE namespace = %s

-- name: save_counters
UPDATE ledger SET accepted = accepted + %s, pending = pending + %s, open = open + %s, delivered = delivered + %s,
    superseded = superseded + %s, dropped = dropped + %s, expired = expired + %s, deleted = deleted + %s, dead = dead + %s,
    lost = lost + %s, declined = declined + %s, digests = digests + %s
WHERE namespace = %s AND share = pg_backend_pid() %% %s
RETURNING pg_current_xact_id()::text

-- name: count_records
SELECT count(*) FROM record WHERE namespace = %s

-- name: count_timelines
SELECT count(*) FROM timeline_name WHERE namespace = %s

-- name: count_letters
SELECT count(*) FROM letter WHERE namespace = %s

-- name: count_trash
SELECT count(*) FROM trash WHERE namespace = %s

-- Each count and each minimum reads an index of its own; a count ends at `most`.
-- name: standing
SELECT
    (SELECT count(*) FROM (SELECT 1 FROM timeline_name WHERE namespace = %(namespace)s LIMIT %(most)s::bigint) AS t),
    (SELECT count(*) FROM (SELECT 1 FROM timeline WHERE namespace = %(namespace)s AND waiting IS NOT NULL LIMIT %(most)s::bigint) AS t),
    (SELECT count(*) FROM (SELECT 1 FROM timeline WHERE namespace = %(namespace)s AND ready IS NOT NULL LIMIT %(most)s::bigint) AS t),
    (SELECT count(*) FROM (SELECT 1 FROM timeline WHERE namespace = %(namespace)s AND until IS NOT NULL LIMIT %(most)s::bigint) AS t)
        + (SELECT count(*) FROM (SELECT 1 FROM timeline WHERE namespace = %(namespace)s AND paused_until < 18014398509481984 LIMIT %(most)s::bigint) AS t),
    (SELECT count(*) FROM (SELECT 1 FROM timeline WHERE namespace = %(namespace)s AND waiting <= %(now)s LIMIT %(most)s::bigint) AS t)
        + (SELECT count(*) FROM (SELECT 1 FROM timeline WHERE namespace = %(namespace)s AND ready IS NOT NULL LIMIT %(most)s::bigint) AS t)
        + (SELECT count(*) FROM (SELECT 1 FROM timeline WHERE namespace = %(namespace)s AND until <= %(now)s LIMIT %(most)s::bigint) AS t),
    least(
        (SELECT min(waiting) FROM timeline WHERE namespace = %(namespace)s AND waiting IS NOT NULL),
        (SELECT min(ready) FROM timeline WHERE namespace = %(namespace)s AND ready IS NOT NULL)
    ),
    (SELECT min(expires) FROM timeline WHERE namespace = %(namespace)s AND expires IS NOT NULL)

-- name: inbox_end
SELECT max(id), 'namespace'::regclass::oid::bigint FROM inbox WHERE namespace = %s

-- One transaction folds at a time: a later version of a key must not overtake an earlier one.
-- name: fold_alone
SELECT pg_advisory_xact_lock('inbox'::regclass::oid::integer, %s)

-- name: may_fold
SELECT pg_try_advisory_xact_lock('inbox'::regclass::oid::integer, %s)

-- name: empty_inbox
DELETE FROM inbox WHERE id IN (
    SELECT id FROM (
        SELECT id, sum(size) OVER (ORDER BY id) - size AS above FROM (
            SELECT id, length(payload) AS size FROM inbox
            WHERE namespace = %s AND id <= %s ORDER BY id LIMIT %s FOR UPDATE
        ) AS page
    ) AS weighed WHERE above < %s)
RETURNING id, timeline, key, timestamp, payload, within, terms, added

-- The condition always holds: to name the table of the writers locks it, as every transaction does, and fails if it has another name by now.
-- name: put_into_inbox
INSERT INTO {schema}.inbox (namespace, timeline, key, timestamp, payload, within, terms)
SELECT %s, t.* FROM unnest(%s::bytea[], %s::bytea[], %s::double precision[], %s::bytea[], %s::bigint[], %s::bytea[])
    AS t (timeline, key, timestamp, payload, within, terms)
WHERE (SELECT count(*) FROM {schema}.{writers}) >= 0

-- name: wake
SELECT pg_notify(%s, '')

-- The id of this transaction, if it has written. Statements that save return it as well, so that it is usually known before.
-- name: transaction_id
SELECT pg_current_xact_id_if_assigned()::text

-- name: fate
SELECT pg_xact_status(%s::text::xid8)

-- After a crash, and on another server, statistics begin anew; every user may read since when they count.
-- name: life
SELECT extract(epoch FROM stats_reset)::text FROM pg_stat_bgwriter

-- End the session of a transaction whose client is gone, and which still holds locks.
-- name: end_abandoned
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE backend_xid = %s::text::xid8::xid AND state IN ('idle in transaction', 'idle in transaction (aborted)')

-- name: clock
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint

-- name: settings
SELECT current_setting('fsync'), current_setting('synchronous_commit'), current_setting('full_page_writes')

-- Without the samples, which are a history.
-- name: count_notes
SELECT count(*) FROM note WHERE namespace = %s AND substring(name from 1 for 8) <> 'samples:'::bytea

-- A lock on a note that may not exist yet. The numbers are "NOTE" and a hash of the name.
-- name: note_alone
SELECT pg_advisory_xact_lock(1313821765, %s)

-- name: note
SELECT body FROM note WHERE namespace = %s AND name = %s

-- name: put_note
INSERT INTO note (namespace, name, body) VALUES (%s, %s, %s)
ON CONFLICT (namespace, name) DO UPDATE SET body = EXCLUDED.body
RETURNING pg_current_xact_id()::text

-- name: remove_note
DELETE FROM note WHERE namespace = %s AND name = %s
RETURNING pg_current_xact_id()::text

-- name: remove_notes
DELETE FROM note WHERE namespace = %s AND name >= %s AND name < %s

-- name: first_export_page
SELECT key, payload, timestamp, arrival, deadline, expires FROM record
WHERE batch = %s ORDER BY timestamp, arrival LIMIT %s

-- name: next_export_page
SELECT key, payload, timestamp, arrival, deadline, expires FROM record
WHERE batch = %s AND (timestamp, arrival) > (%s, %s) ORDER BY timestamp, arrival LIMIT %s

-- An inserted row has no xmax, a replaced one has.
-- name: load_records
INSERT INTO record (batch, key, arrival, namespace, timestamp, deadline, expires, payload)
SELECT t.batch, t.key, t.arrival, %s, t.timestamp, t.deadline, t.expires, t.payload
FROM unnest(%s::bigint[], %s::bytea[], %s::bigint[], %s::double precision[], %s::bigint[], %s::bigint[], %s::bytea[])
    AS t (batch, key, arrival, timestamp, deadline, expires, payload)
ON CONFLICT (batch, key) DO UPDATE SET arrival = EXCLUDED.arrival, timestamp = EXCLUDED.timestamp,
    deadline = EXCLUDED.deadline, expires = EXCLUDED.expires, payload = EXCLUDED.payload
WHERE record.timestamp <= EXCLUDED.timestamp
RETURNING xmax = 0

-- name: document
SELECT number, collection, expires, octet_length(body), key, body, timeline, at, ring FROM document WHERE namespace = %s AND collection = %s AND key = %s

-- name: put_document
INSERT INTO document (number, namespace, collection, expires, key, body, timeline, at, ring)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
RETURNING pg_current_xact_id()::text

-- name: remove_document
DELETE FROM document WHERE number = %s
RETURNING pg_current_xact_id()::text

-- Without its body, which may be large; so is the next one.
-- name: oldest_document
SELECT number, collection, expires, octet_length(body), key, ''::bytea, timeline, at, ring FROM document
WHERE namespace = %s AND collection = %s ORDER BY number LIMIT 1

-- name: oldest_document_of_ring
SELECT number, collection, expires, octet_length(body), key, ''::bytea, timeline, at, ring FROM document
WHERE namespace = %s AND collection = %s AND ring = %s ORDER BY number LIMIT 1

-- name: newest_documents
SELECT number, collection, expires, octet_length(body), key, body, timeline, at, ring FROM document WHERE namespace = %s AND collection = %s AND number < %s
ORDER BY number DESC LIMIT %s

-- name: newest_documents_of
SELECT number, collection, expires, octet_length(body), key, body, timeline, at, ring FROM document
WHERE namespace = %s AND collection = %s AND timeline = %s AND number < %s ORDER BY number DESC LIMIT %s

-- name: documents_of
SELECT number, collection, expires, octet_length(body), key, body, timeline, at, ring FROM document WHERE namespace = %s AND timeline = %s
ORDER BY collection, number LIMIT %s

-- name: count_documents
SELECT count(*) FROM document WHERE namespace = %s
