-- The functions of a store. Every call of the store is one of them, or one plain statement, so that calls share
-- connections and no lock is held between two messages of a client.
--
-- Locks are taken in this order: those of counters, those of keys, rows of leases, rows of records by space and key,
-- rows of usage by space. Locks of counters and keys are advisory: they are granted in the order of the requests,
-- whereas an update of a row can be overtaken by shared locks again and again. Whoever writes records or reserves keys
-- holds the counter of erasures, `erased`; an erase that ends leases locks it, and is alone in the space.

-- Parameters that name a space, a key or a counter are the indexed form of the name (see `name.rs`), except in the
-- functions that store new names: these convert `p_key`, `p_keys`, `p_name` or `p_names`, which are whole.

-- The indexed form of a name. That of an indexed form is the same.
CREATE FUNCTION cachalot_indexed(p_name bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN length(p_name) <= 600 THEN p_name
        ELSE substring(p_name FOR 560) || decode('ff', 'hex') || sha256(p_name) END
$$;

-- A name if its indexed form is another one, else null.
CREATE FUNCTION cachalot_long(p_name bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN length(p_name) > 600 THEN p_name END
$$;

-- The time in milliseconds. Tests shift it.
CREATE FUNCTION cachalot_now(p_shift bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + p_shift
$$;

-- The size of a record in its space's usage.
CREATE FUNCTION cachalot_weight(p_key bytea, p_value bigint, p_names bytea[], p_values bytea[])
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT length(p_key) + p_value + coalesce((SELECT sum(length(l)) FROM unnest(p_names || p_values) l), 0)::bigint
$$;

-- The number of an advisory lock; `p_kind` is `counter` or `key`.
CREATE FUNCTION cachalot_lock_number(p_kind text, p_space bytea, p_name bytea)
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended(p_kind || ':' || encode(p_space, 'hex') || ':' || encode(p_name, 'hex'), 0)
$$;

-- Serializes the writes under a key.
CREATE FUNCTION cachalot_lock_key(p_space bytea, p_key bytea) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT pg_advisory_xact_lock(cachalot_lock_number('key', p_space, p_key))
$$;

-- Keeps counters from being raised until the end of the transaction.
CREATE FUNCTION cachalot_hold_counters(p_space bytea, p_names bytea[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(o.number) FROM (
        SELECT DISTINCT cachalot_lock_number('counter', p_space, name) AS number FROM unnest(p_names) n(name) ORDER BY 1
    ) o;
END $$;

-- Waits until counters can be raised.
CREATE FUNCTION cachalot_lock_counters(p_space bytea, p_names bytea[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(o.number) FROM (
        SELECT DISTINCT cachalot_lock_number('counter', p_space, name) AS number FROM unnest(p_names) n(name) ORDER BY 1
    ) o;
END $$;

CREATE FUNCTION cachalot_use(p_space bytea, p_records bigint, p_bytes bigint) RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO cachalot_usage AS u VALUES (p_space, pg_backend_pid() % 16, p_records, p_bytes)
    ON CONFLICT (space, part) DO UPDATE SET records = u.records + excluded.records, bytes = u.bytes + excluded.bytes
$$;

CREATE FUNCTION cachalot_count(p_space bytea, p_names bytea[]) RETURNS bigint[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(coalesce(c.value, 0) ORDER BY n.place), '{}')
    FROM unnest(p_names) WITH ORDINALITY n(name, place)
    LEFT JOIN cachalot_counters c ON c.space = p_space AND c.name = n.name
$$;

-- Stores a record; the caller holds the lock of its key, and counts the usage. Returns the revision, and by how much
-- the usage changed.
CREATE FUNCTION cachalot_replace(
    p_space bytea, p_key bytea, p_long_key bytea, p_value bytea, p_names bytea[], p_values bytea[], p_expires bigint,
    p_words tsvector, p_now bigint, OUT o_revision bigint, OUT o_records bigint, OUT o_bytes bigint
) LANGUAGE plpgsql AS $$
DECLARE
    -- Of the record before; its value, which may be large, is not read.
    old record;
    is_new boolean;
BEGIN
    SELECT revision, label_names, label_values,
        cachalot_weight(coalesce(long_key, key), length(value), label_names, label_values) AS size
        INTO old FROM cachalot_records WHERE space = p_space AND key = p_key FOR UPDATE;
    is_new := NOT FOUND;
    o_revision := CASE WHEN is_new THEN 1 ELSE old.revision + 1 END;
    o_records := is_new::int;
    o_bytes := cachalot_weight(coalesce(p_long_key, p_key), length(p_value), p_names, p_values)
        - CASE WHEN is_new THEN 0 ELSE old.size END;
    IF is_new THEN
        INSERT INTO cachalot_records VALUES (p_space, p_key, nextval('cachalot_writes'), o_revision, p_now, p_now,
            p_expires, p_names, p_values, p_value, p_words, p_long_key);
    ELSE
        UPDATE cachalot_records SET id = nextval('cachalot_writes'), revision = o_revision, updated = p_now,
            used = p_now, expires = p_expires, label_names = p_names, label_values = p_values, value = p_value,
            words = p_words
            WHERE space = p_space AND key = p_key;
        IF old.label_names = p_names AND old.label_values = p_values THEN
            RETURN;
        END IF;
        DELETE FROM cachalot_labels WHERE space || ''::bytea = p_space AND key = p_key;
    END IF;
    INSERT INTO cachalot_labels
        SELECT p_space, cachalot_indexed(name), cachalot_indexed(value), p_key
        FROM unnest(p_names, p_values) l(name, value);
END $$;

-- Stores a record. Returns its revision, -1 if the lease is not current, or -2 and the place of a changed counter.
CREATE FUNCTION cachalot_put(
    p_space bytea, p_key bytea, p_value bytea, p_names bytea[], p_values bytea[], p_expires bigint, p_words tsvector,
    p_fence bigint, p_counters bytea[], p_counts bigint[], p_shift bigint, OUT revision bigint, OUT changed int
) LANGUAGE plpgsql AS $$
DECLARE
    whole_key bytea := p_key;
    found_counts bigint[];
    stored record;
BEGIN
    p_key := cachalot_indexed(p_key);
    changed := 0;
    PERFORM cachalot_hold_counters(p_space, p_counters || 'erased'::bytea);
    PERFORM cachalot_lock_key(p_space, p_key);
    IF p_fence IS NOT NULL THEN
        PERFORM 1 FROM cachalot_leases
            WHERE space = p_space AND key = p_key AND fence = p_fence AND is_current FOR UPDATE;
        IF NOT FOUND THEN
            revision := -1;
            RETURN;
        END IF;
    END IF;
    IF cardinality(p_counters) > 0 THEN
        found_counts := cachalot_count(p_space, p_counters);
        FOR i IN 1..cardinality(p_counters) LOOP
            IF found_counts[i] <> p_counts[i] THEN
                revision := -2;
                changed := i - 1;
                RETURN;
            END IF;
        END LOOP;
    END IF;
    IF p_fence IS NOT NULL THEN
        UPDATE cachalot_leases SET is_current = false WHERE space = p_space AND key = p_key;
    END IF;
    stored := cachalot_replace(p_space, p_key, cachalot_long(whole_key), p_value, p_names, p_values, p_expires,
        p_words, cachalot_now(p_shift));
    PERFORM cachalot_use(p_space, stored.o_records, stored.o_bytes);
    revision := stored.o_revision;
END $$;

-- Stores several records if the record under the key of the condition has the value, or is absent if it is null.
-- Returns -1 if stored, -2 if it is another one, or the milliseconds for which the key is reserved. The records are
-- in columns; the labels of a record are the part of the concatenated labels from `p_label_ends` of the one before.
CREATE FUNCTION cachalot_put_all(
    p_space bytea, p_key bytea, p_expected bytea, p_spaces bytea[], p_keys bytea[], p_record_values bytea[],
    p_expires bigint[], p_words tsvector[], p_names bytea[], p_values bytea[], p_label_ends int[], p_shift bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    now bigint;
    l cachalot_leases;
    is_expected boolean;
    names bytea[];
    new_values bytea[];
    first int;
    i int;
    stored record;
    whole_keys bytea[] := p_keys;
    used_spaces bytea[] := '{}';
    used_records bigint[] := '{}';
    used_bytes bigint[] := '{}';
BEGIN
    p_keys := ARRAY(SELECT cachalot_indexed(n.key) FROM unnest(p_keys) WITH ORDINALITY n(key, place) ORDER BY n.place);
    PERFORM pg_advisory_xact_lock_shared(o.number) FROM (
        SELECT cachalot_lock_number('counter', p_space, 'erased') AS number
        UNION SELECT cachalot_lock_number('counter', n.space, 'erased') FROM unnest(p_spaces) n(space) ORDER BY 1
    ) o;
    PERFORM pg_advisory_xact_lock(o.number) FROM (
        SELECT cachalot_lock_number('key', p_space, p_key) AS number
        UNION SELECT cachalot_lock_number('key', n.space, n.key) FROM unnest(p_spaces, p_keys) n(space, key) ORDER BY 1
    ) o;
    now := cachalot_now(p_shift);
    SELECT * INTO l FROM cachalot_leases WHERE space = p_space AND key = p_key AND is_current FOR UPDATE;
    IF FOUND AND l.until > now THEN
        RETURN l.until - now;
    END IF;
    PERFORM 1 FROM (
        SELECT p_space AS space, p_key AS key
        UNION SELECT n.space, n.key FROM unnest(p_spaces, p_keys) n(space, key) ORDER BY 1, 2
    ) o CROSS JOIN LATERAL (
        SELECT FROM cachalot_records r WHERE r.space = o.space AND r.key = o.key LIMIT 1 FOR UPDATE
    ) r;
    SELECT value = p_expected INTO is_expected FROM cachalot_records WHERE space = p_space AND key = p_key;
    IF NOT coalesce(is_expected, NOT FOUND AND p_expected IS NULL) THEN
        RETURN -2;
    END IF;
    UPDATE cachalot_leases SET is_current = false WHERE space = p_space AND key = p_key AND is_current;
    FOR i IN SELECT o.place FROM unnest(p_spaces, p_keys) WITH ORDINALITY o(space, key, place)
        ORDER BY o.space, o.key, o.place LOOP
        first := CASE WHEN i = 1 THEN 1 ELSE p_label_ends[i - 1] + 1 END;
        names := coalesce(p_names[first:p_label_ends[i]], '{}');
        new_values := coalesce(p_values[first:p_label_ends[i]], '{}');
        PERFORM 1 FROM cachalot_records r WHERE r.space = p_spaces[i] AND r.key = p_keys[i]
            AND r.value = p_record_values[i] AND r.label_names = names AND r.label_values = new_values
            AND r.expires IS NOT DISTINCT FROM p_expires[i];
        IF NOT FOUND THEN
            stored := cachalot_replace(p_spaces[i], p_keys[i], cachalot_long(whole_keys[i]), p_record_values[i],
                names, new_values, p_expires[i], p_words[i], now);
            used_spaces := used_spaces || p_spaces[i];
            used_records := used_records || stored.o_records;
            used_bytes := used_bytes || stored.o_bytes;
        END IF;
    END LOOP;
    PERFORM cachalot_use(u.space, u.records, u.bytes) FROM (
        SELECT space, sum(records)::bigint AS records, sum(bytes)::bigint AS bytes
        FROM unnest(used_spaces, used_records, used_bytes) u(space, records, bytes) GROUP BY space ORDER BY space
    ) u;
    RETURN -1;
END $$;

-- Stores each record whose key has no record and no unlapsed lease; returns which. The records are in columns as those of
-- `cachalot_put_all`. No row of a record is locked but those that are new.
CREATE FUNCTION cachalot_put_new(
    p_space bytea, p_keys bytea[], p_record_values bytea[], p_expires bigint[], p_words tsvector[], p_names bytea[],
    p_values bytea[], p_label_ends int[], p_shift bigint
) RETURNS boolean[] LANGUAGE plpgsql AS $$
DECLARE
    now bigint;
    l cachalot_leases;
    first int;
    stored record;
    whole_keys bytea[] := p_keys;
    result boolean[] := '{}';
    new_records bigint := 0;
    new_bytes bigint := 0;
BEGIN
    p_keys := ARRAY(SELECT cachalot_indexed(n.key) FROM unnest(p_keys) WITH ORDINALITY n(key, place) ORDER BY n.place);
    PERFORM cachalot_hold_counters(p_space, ARRAY['erased'::bytea]);
    PERFORM pg_advisory_xact_lock(o.number) FROM (
        SELECT DISTINCT cachalot_lock_number('key', p_space, n.key) AS number FROM unnest(p_keys) n(key) ORDER BY 1
    ) o;
    now := cachalot_now(p_shift);
    FOR i IN 1..cardinality(p_keys) LOOP
        result[i] := false;
        CONTINUE WHEN EXISTS (SELECT FROM cachalot_records r WHERE r.space = p_space AND r.key = p_keys[i]);
        SELECT * INTO l FROM cachalot_leases WHERE space = p_space AND key = p_keys[i] AND is_current FOR UPDATE;
        CONTINUE WHEN FOUND AND l.until > now;
        UPDATE cachalot_leases SET is_current = false WHERE space = p_space AND key = p_keys[i] AND is_current;
        first := CASE WHEN i = 1 THEN 1 ELSE p_label_ends[i - 1] + 1 END;
        stored := cachalot_replace(p_space, p_keys[i], cachalot_long(whole_keys[i]), p_record_values[i],
            coalesce(p_names[first:p_label_ends[i]], '{}'), coalesce(p_values[first:p_label_ends[i]], '{}'),
            p_expires[i], p_words[i], now);
        new_records := new_records + stored.o_records;
        new_bytes := new_bytes + stored.o_bytes;
        result[i] := true;
    END LOOP;
    IF new_records > 0 THEN
        PERFORM cachalot_use(p_space, new_records, new_bytes);
    END IF;
    RETURN result;
END $$;

-- Reserves a key; the caller holds the locks that `cachalot_lock_reservation` takes. Returns the fence, and the
-- milliseconds for which another caller has the lease, or null.
CREATE FUNCTION cachalot_reserve_locked(
    p_space bytea, p_key bytea, p_names bytea[], p_values bytea[], p_hold bigint, p_shift bigint,
    OUT o_fence bigint, OUT o_left bigint
) LANGUAGE plpgsql AS $$
DECLARE
    now bigint := cachalot_now(p_shift);
    l cachalot_leases;
BEGIN
    SELECT * INTO l FROM cachalot_leases WHERE space = p_space AND key = p_key FOR UPDATE;
    IF FOUND AND l.is_current AND l.until > now THEN
        o_fence := l.fence;
        o_left := l.until - now;
        RETURN;
    END IF;
    -- In microseconds: larger than what a server that lost its last writes has given.
    o_fence := greatest(coalesce(l.fence, 0) + 1, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
    INSERT INTO cachalot_leases VALUES (p_space, p_key, o_fence, true, now + p_hold, p_names, p_values)
        ON CONFLICT (space, key) DO UPDATE SET fence = excluded.fence, is_current = true, until = excluded.until,
            label_names = excluded.label_names, label_values = excluded.label_values;
    -- Lapsed leases of keys that are not asked for again would accumulate.
    IF o_fence % 64 = 0 THEN
        DELETE FROM cachalot_leases WHERE (space, key) IN (
            SELECT space, key FROM cachalot_leases WHERE until <= now - 3600000 FOR UPDATE SKIP LOCKED LIMIT 1000);
    END IF;
END $$;

-- A reservation comes before an erase, which ends it, or after it: what is read under it was not erased before.
CREATE FUNCTION cachalot_lock_reservation(p_space bytea, p_key bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM cachalot_hold_counters(p_space, ARRAY['erased'::bytea]);
    PERFORM cachalot_lock_key(p_space, p_key);
END $$;

CREATE FUNCTION cachalot_reserve(
    p_space bytea, p_key bytea, p_names bytea[], p_values bytea[], p_hold bigint, p_shift bigint,
    OUT o_fence bigint, OUT o_left bigint
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM cachalot_lock_reservation(p_space, p_key);
    SELECT s.o_fence, s.o_left INTO o_fence, o_left
        FROM cachalot_reserve_locked(p_space, p_key, p_names, p_values, p_hold, p_shift) s;
END $$;

-- Reads a record and counters. In PL/pgSQL, whose plans a connection keeps; stable, so that all is read from the
-- snapshot of the caller's statement.
CREATE FUNCTION cachalot_get(
    p_space bytea, p_key bytea, p_counters bytea[], p_shift bigint,
    OUT o_counts bigint[], OUT o_now bigint, OUT o_key bytea, OUT o_value bytea, OUT o_names bytea[],
    OUT o_values bytea[], OUT o_expires bigint, OUT o_revision bigint, OUT o_updated bigint
) LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT coalesce(r.long_key, r.key), r.value, r.label_names, r.label_values, r.expires, r.revision, r.updated
        INTO o_key, o_value, o_names, o_values, o_expires, o_revision, o_updated
        FROM cachalot_records r WHERE r.space = p_space AND r.key = p_key;
    o_counts := '{}';
    FOR i IN 1..cardinality(p_counters) LOOP
        o_counts[i] := coalesce(
            (SELECT c.value FROM cachalot_counters c WHERE c.space = p_space AND c.name = p_counters[i]), 0);
    END LOOP;
    o_now := floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + p_shift;
END $$;

-- Reads, and reserves the key if the record does not answer. `p_stale`: the revision that does not answer, 0 for
-- none, -1 for any.
CREATE FUNCTION cachalot_get_or_reserve(
    p_space bytea, p_key bytea, p_counters bytea[], p_names bytea[], p_values bytea[], p_hold bigint, p_stale bigint,
    p_shift bigint
) RETURNS TABLE(
    o_counts bigint[], o_now bigint, o_key bytea, o_value bytea, o_names bytea[], o_values bytea[], o_expires bigint,
    o_revision bigint, o_updated bigint, o_fence bigint, o_left bigint
) LANGUAGE plpgsql AS $$
BEGIN
    FOR attempt IN 1..2 LOOP
        SELECT g.* INTO o_counts, o_now, o_key, o_value, o_names, o_values, o_expires, o_revision, o_updated
            FROM cachalot_get(p_space, p_key, p_counters, p_shift) g;
        IF o_revision IS NOT NULL AND p_stale <> -1 AND p_stale <> o_revision
            AND (o_expires IS NULL OR o_expires > o_now) THEN
            RETURN NEXT;
            RETURN;
        END IF;
        IF attempt = 1 THEN
            PERFORM cachalot_lock_reservation(p_space, p_key);
        END IF;
    END LOOP;
    SELECT s.o_fence, s.o_left INTO o_fence, o_left
        FROM cachalot_reserve_locked(p_space, p_key, p_names, p_values, p_hold, p_shift) s;
    RETURN NEXT;
END $$;

-- Adds to counters; returns the new values in the given order.
CREATE FUNCTION cachalot_add(p_space bytea, p_names bytea[], p_additions bigint[])
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    raised bigint;
    result bigint[] := '{}';
    names bytea[] := ARRAY(
        SELECT cachalot_indexed(n.name) FROM unnest(p_names) WITH ORDINALITY n(name, place) ORDER BY n.place);
BEGIN
    PERFORM cachalot_lock_counters(p_space, names);
    FOR i IN 1..cardinality(names) LOOP
        INSERT INTO cachalot_counters AS c VALUES (p_space, names[i], p_additions[i], cachalot_long(p_names[i]))
            ON CONFLICT (space, name) DO UPDATE SET value = CASE
                WHEN c.value > 9223372036854775807 - excluded.value THEN 9223372036854775807
                ELSE c.value + excluded.value END
            RETURNING value INTO raised;
        result := result || raised;
    END LOOP;
    RETURN result;
END $$;

CREATE FUNCTION cachalot_raise_to(p_space bytea, p_name bytea, p_value bigint) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    raised bigint;
    whole_name bytea := p_name;
BEGIN
    p_name := cachalot_indexed(p_name);
    PERFORM cachalot_lock_counters(p_space, ARRAY[p_name]);
    INSERT INTO cachalot_counters AS c VALUES (p_space, p_name, p_value, cachalot_long(whole_name))
        ON CONFLICT (space, name) DO UPDATE SET value = greatest(c.value, excluded.value)
        RETURNING value INTO raised;
    RETURN raised;
END $$;

-- Replaces the value of an unchanged record; returns its new revision, or null.
CREATE FUNCTION cachalot_amend(p_space bytea, p_key bytea, p_value bytea, p_revision bigint, p_updated bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    size bigint;
BEGIN
    PERFORM cachalot_hold_counters(p_space, ARRAY['erased'::bytea]);
    PERFORM cachalot_lock_key(p_space, p_key);
    SELECT length(value) INTO size FROM cachalot_records
        WHERE space = p_space AND key = p_key AND revision = p_revision AND updated = p_updated FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE cachalot_records SET value = p_value, revision = p_revision + 1 WHERE space = p_space AND key = p_key;
    PERFORM cachalot_use(p_space, 0, length(p_value) - size);
    RETURN p_revision + 1;
END $$;

-- Notes when records were used.
CREATE FUNCTION cachalot_touch(p_space bytea, p_keys bytea[], p_times bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    touched record;
BEGIN
    PERFORM cachalot_hold_counters(p_space, ARRAY['erased'::bytea]);
    FOR touched IN SELECT n.key, max(n.at) AS at FROM unnest(p_keys, p_times) n(key, at) GROUP BY n.key ORDER BY n.key
    LOOP
        UPDATE cachalot_records SET used = touched.at WHERE space = p_space AND key = touched.key AND used < touched.at;
    END LOOP;
END $$;

-- Erases records. `p_records` selects their keys and the numbers of their writes, a key perhaps several times;
-- `p_leases`, unless it is null, the keys of the leases to end, and the counter of erasures is raised. Without leases,
-- writers do not wait for the erase: a record that was replaced after it was selected stays. Returns the erased records
-- in the order of the selection. `p_bytes` is the requested part of the values.
CREATE FUNCTION cachalot_erase(p_space bytea, p_leases text, p_records text, p_bytes int, p_shift bigint)
RETURNS TABLE(
    key bytea, value bytea, label_names bytea[], label_values bytea[], expires bigint, revision bigint, updated bigint,
    size bigint
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    keys bytea[];
    ids bigint[];
    erased_records bigint := 0;
    erased_bytes bigint := 0;
BEGIN
    IF p_leases IS NULL THEN
        PERFORM cachalot_hold_counters(p_space, ARRAY['erased'::bytea]);
    ELSE
        PERFORM cachalot_lock_counters(p_space, ARRAY['erased'::bytea]);
        INSERT INTO cachalot_counters AS c VALUES (p_space, 'erased', greatest(1, cachalot_now(p_shift)))
            ON CONFLICT (space, name) DO UPDATE SET value = greatest(c.value + 1, cachalot_now(p_shift));
        EXECUTE 'UPDATE cachalot_leases SET is_current = false WHERE is_current AND space = $1 AND key IN ('
            || p_leases || ')' USING p_space;
    END IF;
    EXECUTE 'SELECT array_agg(n.key ORDER BY n.place), array_agg(n.id ORDER BY n.place) FROM ('
        || 'SELECT s.key, s.id, row_number() OVER () AS place FROM (' || p_records || ') s) n' INTO keys, ids;
    -- Rows of records are locked in this order by all.
    PERFORM 1 FROM (SELECT DISTINCT n.key FROM unnest(keys) n(key) ORDER BY n.key) o CROSS JOIN LATERAL (
        SELECT FROM cachalot_records r WHERE r.space = p_space AND r.key = o.key LIMIT 1 FOR UPDATE
    ) r;
    FOR i IN 1..coalesce(cardinality(keys), 0) LOOP
        DELETE FROM cachalot_records r WHERE r.space = p_space AND r.key = keys[i] AND r.id = ids[i]
            RETURNING coalesce(r.long_key, r.key), CASE WHEN p_bytes = 0 THEN '' ELSE substring(r.value FOR p_bytes) END, r.label_names,
                r.label_values, r.expires, r.revision, r.updated, length(r.value)
            INTO key, value, label_names, label_values, expires, revision, updated, size;
        CONTINUE WHEN NOT FOUND;
        DELETE FROM cachalot_labels l WHERE l.space || ''::bytea = p_space AND l.key = keys[i];
        erased_records := erased_records + 1;
        erased_bytes := erased_bytes + cachalot_weight(key, size, label_names, label_values);
        RETURN NEXT;
    END LOOP;
    IF erased_records > 0 THEN
        PERFORM cachalot_use(p_space, -erased_records, -erased_bytes);
    END IF;
END $$;

-- Reports changes of the cache to the connections that listen: the name of a record or a counter in hexadecimal, or
-- nothing for all of them. A long name is reported in its indexed form, for which all of them count: a report has at
-- most 8,000 bytes. What is new has not been read by anyone, and is not reported.
CREATE FUNCTION cachalot_report() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'TRUNCATE' THEN
        PERFORM pg_notify('cachalot_' || md5(TG_TABLE_SCHEMA), '');
    ELSIF TG_TABLE_NAME = 'cachalot_records' THEN
        PERFORM pg_notify('cachalot_' || md5(TG_TABLE_SCHEMA), encode(OLD.key, 'hex'));
    ELSE
        PERFORM pg_notify('cachalot_' || md5(TG_TABLE_SCHEMA), encode(NEW.name, 'hex'));
    END IF;
    RETURN NULL;
END $$;

-- The column `revision` changes with the value, and not with the time of use.
CREATE TRIGGER cachalot_report_replaced AFTER UPDATE OF revision ON cachalot_records
    FOR EACH ROW WHEN (OLD.space = 'cache'::bytea) EXECUTE FUNCTION cachalot_report();
CREATE TRIGGER cachalot_report_erased AFTER DELETE ON cachalot_records
    FOR EACH ROW WHEN (OLD.space = 'cache'::bytea) EXECUTE FUNCTION cachalot_report();
CREATE TRIGGER cachalot_report_counted AFTER INSERT OR UPDATE OF value ON cachalot_counters
    FOR EACH ROW WHEN (NEW.space = 'cache'::bytea) EXECUTE FUNCTION cachalot_report();
CREATE TRIGGER cachalot_report_emptied AFTER TRUNCATE ON cachalot_records
    FOR EACH STATEMENT EXECUTE FUNCTION cachalot_report();
CREATE TRIGGER cachalot_report_uncounted AFTER TRUNCATE ON cachalot_counters
    FOR EACH STATEMENT EXECUTE FUNCTION cachalot_report();
