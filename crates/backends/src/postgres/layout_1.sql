-- The tables and functions of a store, layout 1. Names and keys are `bytea`: they may contain any character, and
-- are compared by their bytes.
--
-- Every function is one atomic step, called by a statement of its own, so that calls share connections. Locks are
-- taken in this order: rows of counters, the lock of a key, the row of its lease, the row of its record, the rows
-- of usage.

CREATE SEQUENCE cachalot_writes;

CREATE TABLE cachalot_records(
    space bytea NOT NULL,
    key bytea NOT NULL,
    -- The sequence of writes.
    id bigint NOT NULL,
    revision bigint NOT NULL,
    updated bigint NOT NULL,
    used bigint NOT NULL,
    expires bigint,
    label_names bytea[] NOT NULL,
    label_values bytea[] NOT NULL,
    value bytea NOT NULL,
    -- Set in the space of users only.
    words tsvector,
    PRIMARY KEY(space, key)
);
CREATE INDEX cachalot_records_newest ON cachalot_records(space, id);
CREATE INDEX cachalot_records_used ON cachalot_records(space, used, id);
CREATE INDEX cachalot_records_expires ON cachalot_records(space, expires, id);
CREATE INDEX cachalot_records_words ON cachalot_records USING gin(words) WHERE words IS NOT NULL;

CREATE TABLE cachalot_labels(
    space bytea NOT NULL,
    name bytea NOT NULL,
    value bytea NOT NULL,
    key bytea NOT NULL,
    PRIMARY KEY(space, name, value, key)
);
CREATE INDEX cachalot_labels_key ON cachalot_labels(space, key);

CREATE TABLE cachalot_counters(
    space bytea NOT NULL,
    name bytea NOT NULL,
    value bigint NOT NULL,
    PRIMARY KEY(space, name)
);

-- A lease that has ended keeps its row for a while, so that the next fence is larger.
CREATE TABLE cachalot_leases(
    space bytea NOT NULL,
    key bytea NOT NULL,
    fence bigint NOT NULL,
    is_current boolean NOT NULL,
    until bigint NOT NULL,
    label_names bytea[] NOT NULL,
    label_values bytea[] NOT NULL,
    PRIMARY KEY(space, key)
);
CREATE INDEX cachalot_leases_until ON cachalot_leases(until);

-- The sum of the rows of a space. Several rows, so that writers do not wait for each other.
CREATE TABLE cachalot_usage(
    space bytea NOT NULL,
    part int NOT NULL,
    records bigint NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY(space, part)
);

-- The time in milliseconds. Tests shift it.
CREATE FUNCTION cachalot_now(p_shift bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + p_shift
$$;

-- The size of a record in its space's usage.
CREATE FUNCTION cachalot_weight(p_key bytea, p_value bigint, p_names bytea[], p_values bytea[])
RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT length(p_key) + p_value + coalesce((SELECT sum(length(l)) FROM unnest(p_names || p_values) l), 0)::bigint
$$;

-- Serializes the writes under a key.
CREATE FUNCTION cachalot_lock(p_space bytea, p_key bytea) RETURNS void LANGUAGE sql VOLATILE AS $$
    SELECT pg_advisory_xact_lock(hashtextextended(encode(p_space, 'hex') || ':' || encode(p_key, 'hex'), 0))
$$;

CREATE FUNCTION cachalot_use(p_space bytea, p_records bigint, p_bytes bigint) RETURNS void LANGUAGE sql VOLATILE AS $$
    INSERT INTO cachalot_usage AS u VALUES (p_space, pg_backend_pid() % 16, p_records, p_bytes)
    ON CONFLICT (space, part) DO UPDATE SET records = u.records + excluded.records, bytes = u.bytes + excluded.bytes
$$;

CREATE FUNCTION cachalot_count(p_space bytea, p_names bytea[]) RETURNS bigint[] LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(coalesce(c.value, 0) ORDER BY n.place), '{}')
    FROM unnest(p_names) WITH ORDINALITY n(name, place)
    LEFT JOIN cachalot_counters c ON c.space = p_space AND c.name = n.name
$$;

-- Stores a record; the caller holds the lock of its key. Returns its revision.
CREATE FUNCTION cachalot_replace(
    p_space bytea, p_key bytea, p_value bytea, p_names bytea[], p_values bytea[], p_expires bigint, p_words tsvector,
    p_now bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    -- Of the record before; its value, which may be large, is not read.
    old_revision bigint := 0;
    old_names bytea[];
    old_values bytea[];
    old_size bigint := 0;
    is_new boolean;
BEGIN
    SELECT revision, label_names, label_values, cachalot_weight(key, length(value), label_names, label_values)
        INTO old_revision, old_names, old_values, old_size
        FROM cachalot_records WHERE space = p_space AND key = p_key FOR UPDATE;
    is_new := NOT FOUND;
    IF is_new THEN
        INSERT INTO cachalot_records VALUES (p_space, p_key, nextval('cachalot_writes'), 1, p_now, p_now, p_expires,
            p_names, p_values, p_value, p_words);
    ELSE
        UPDATE cachalot_records SET id = nextval('cachalot_writes'), revision = old_revision + 1, updated = p_now,
            used = p_now, expires = p_expires, label_names = p_names, label_values = p_values, value = p_value,
            words = p_words
            WHERE space = p_space AND key = p_key;
    END IF;
    IF is_new OR old_names <> p_names OR old_values <> p_values THEN
        DELETE FROM cachalot_labels WHERE space = p_space AND key = p_key AND NOT is_new;
        INSERT INTO cachalot_labels SELECT p_space, name, value, p_key FROM unnest(p_names, p_values) l(name, value);
    END IF;
    PERFORM cachalot_use(p_space, is_new::int,
        cachalot_weight(p_key, length(p_value), p_names, p_values) - coalesce(old_size, 0));
    RETURN coalesce(old_revision, 0) + 1;
END $$;

-- Stores a record. Returns its revision, -1 if the lease is not current, or -2 and the place of a changed counter.
CREATE FUNCTION cachalot_put(
    p_space bytea, p_key bytea, p_value bytea, p_names bytea[], p_values bytea[], p_expires bigint, p_words tsvector,
    p_fence bigint, p_counters bytea[], p_counts bigint[], p_shift bigint, OUT revision bigint, OUT changed int
) LANGUAGE plpgsql AS $$
DECLARE
    found_counts bigint[];
BEGIN
    changed := 0;
    IF cardinality(p_counters) > 0 THEN
        -- A counter that was never raised gets a row, which a concurrent raise has to wait for.
        INSERT INTO cachalot_counters SELECT DISTINCT p_space, name, 0 FROM unnest(p_counters) n(name) ORDER BY 2
            ON CONFLICT DO NOTHING;
        PERFORM 1 FROM cachalot_counters WHERE space = p_space AND name = ANY(p_counters) ORDER BY name FOR SHARE;
    END IF;
    PERFORM cachalot_lock(p_space, p_key);
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
    revision := cachalot_replace(p_space, p_key, p_value, p_names, p_values, p_expires, p_words, cachalot_now(p_shift));
END $$;

-- Stores several records if the record under the key of the condition has the value, or is absent if it is null.
-- Returns -1 if stored, -2 if it is another one, or the milliseconds for which the key is reserved. The records are
-- in columns; the labels of a record are the part of the concatenated labels from `p_label_ends` of the one before.
CREATE FUNCTION cachalot_put_all(
    p_space bytea, p_key bytea, p_expected bytea, p_spaces bytea[], p_keys bytea[], p_record_values bytea[],
    p_expires bigint[], p_words tsvector[], p_names bytea[], p_values bytea[], p_label_ends int[], p_shift bigint
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    now bigint := cachalot_now(p_shift);
    l cachalot_leases;
    is_expected boolean;
    names bytea[];
    new_values bytea[];
    first int;
    i int;
BEGIN
    PERFORM cachalot_lock(o.space, o.key) FROM (
        SELECT p_space AS space, p_key AS key
        UNION SELECT n.space, n.key FROM unnest(p_spaces, p_keys) n(space, key) ORDER BY 1, 2
    ) o;
    SELECT * INTO l FROM cachalot_leases WHERE space = p_space AND key = p_key AND is_current FOR UPDATE;
    IF FOUND AND l.until > now THEN
        RETURN l.until - now;
    END IF;
    SELECT value = p_expected INTO is_expected FROM cachalot_records WHERE space = p_space AND key = p_key FOR UPDATE;
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
            AND r.expires IS NOT DISTINCT FROM p_expires[i] FOR UPDATE;
        IF NOT FOUND THEN
            PERFORM cachalot_replace(p_spaces[i], p_keys[i], p_record_values[i], names, new_values, p_expires[i],
                p_words[i], now);
        END IF;
    END LOOP;
    RETURN -1;
END $$;

-- Reserves a key; the caller holds its lock. Returns the fence, and the milliseconds for which another caller has
-- the lease, or null.
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

CREATE FUNCTION cachalot_reserve(
    p_space bytea, p_key bytea, p_names bytea[], p_values bytea[], p_hold bigint, p_shift bigint,
    OUT o_fence bigint, OUT o_left bigint
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM cachalot_lock(p_space, p_key);
    SELECT s.o_fence, s.o_left INTO o_fence, o_left
        FROM cachalot_reserve_locked(p_space, p_key, p_names, p_values, p_hold, p_shift) s;
END $$;

CREATE FUNCTION cachalot_get(p_space bytea, p_key bytea, p_counters bytea[], p_shift bigint)
RETURNS TABLE(
    o_counts bigint[], o_now bigint, o_value bytea, o_names bytea[], o_values bytea[], o_expires bigint,
    o_revision bigint, o_updated bigint
) LANGUAGE sql VOLATILE AS $$
    SELECT cachalot_count(p_space, p_counters), cachalot_now(p_shift), r.value, r.label_names, r.label_values,
        r.expires, r.revision, r.updated
    FROM (SELECT 1) one LEFT JOIN cachalot_records r ON r.space = p_space AND r.key = p_key
$$;

-- Reads, and reserves the key if the record does not answer. `p_stale`: the revision that does not answer, 0 for
-- none, -1 for any.
CREATE FUNCTION cachalot_get_or_reserve(
    p_space bytea, p_key bytea, p_counters bytea[], p_names bytea[], p_values bytea[], p_hold bigint, p_stale bigint,
    p_shift bigint
) RETURNS TABLE(
    o_counts bigint[], o_now bigint, o_value bytea, o_names bytea[], o_values bytea[], o_expires bigint,
    o_revision bigint, o_updated bigint, o_fence bigint, o_left bigint
) LANGUAGE plpgsql AS $$
BEGIN
    FOR attempt IN 1..2 LOOP
        SELECT g.* INTO o_counts, o_now, o_value, o_names, o_values, o_expires, o_revision, o_updated
            FROM cachalot_get(p_space, p_key, p_counters, p_shift) g;
        IF o_revision IS NOT NULL AND p_stale <> -1 AND p_stale <> o_revision
            AND (o_expires IS NULL OR o_expires > o_now) THEN
            RETURN NEXT;
            RETURN;
        END IF;
        IF attempt = 1 THEN
            PERFORM cachalot_lock(p_space, p_key);
        END IF;
    END LOOP;
    SELECT s.o_fence, s.o_left INTO o_fence, o_left
        FROM cachalot_reserve_locked(p_space, p_key, p_names, p_values, p_hold, p_shift) s;
    RETURN NEXT;
END $$;

-- Adds to counters, in the order of their names; returns the new values in the given order.
CREATE FUNCTION cachalot_add(p_space bytea, p_names bytea[], p_additions bigint[])
RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    i int;
    raised bigint;
    result bigint[] := array_fill(0::bigint, ARRAY[cardinality(p_names)]);
BEGIN
    FOR i IN SELECT place FROM unnest(p_names) WITH ORDINALITY n(name, place) ORDER BY name, place LOOP
        INSERT INTO cachalot_counters AS c VALUES (p_space, p_names[i], p_additions[i])
            ON CONFLICT (space, name) DO UPDATE SET value = CASE
                WHEN c.value > 9223372036854775807 - excluded.value THEN 9223372036854775807
                ELSE c.value + excluded.value END
            RETURNING value INTO raised;
        result[i] := raised;
    END LOOP;
    RETURN result;
END $$;

CREATE FUNCTION cachalot_raise_to(p_space bytea, p_name bytea, p_value bigint) RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO cachalot_counters AS c VALUES (p_space, p_name, p_value)
        ON CONFLICT (space, name) DO UPDATE SET value = greatest(c.value, excluded.value)
        RETURNING value
$$;

-- Replaces the value of an unchanged record; returns its new revision, or null.
CREATE FUNCTION cachalot_amend(p_space bytea, p_key bytea, p_value bytea, p_revision bigint, p_updated bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    size bigint;
BEGIN
    PERFORM cachalot_lock(p_space, p_key);
    SELECT length(value) INTO size FROM cachalot_records
        WHERE space = p_space AND key = p_key AND revision = p_revision AND updated = p_updated FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE cachalot_records SET value = p_value, revision = p_revision + 1 WHERE space = p_space AND key = p_key;
    PERFORM cachalot_use(p_space, 0, length(p_value) - size);
    RETURN p_revision + 1;
END $$;

-- Deletes the records that still have these numbers, with their labels; returns the numbers of the deleted ones.
CREATE FUNCTION cachalot_delete(p_space bytea, p_ids bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
DECLARE
    deleted record;
BEGIN
    FOR deleted IN
        WITH locked AS (
            SELECT key FROM cachalot_records WHERE space = p_space AND id = ANY(p_ids) ORDER BY key FOR UPDATE
        )
        DELETE FROM cachalot_records r USING locked k WHERE r.space = p_space AND r.key = k.key AND r.id = ANY(p_ids)
        RETURNING r.id, r.key, cachalot_weight(r.key, length(r.value), r.label_names, r.label_values) AS size
    LOOP
        DELETE FROM cachalot_labels WHERE space = p_space AND key = deleted.key;
        PERFORM cachalot_use(p_space, -1, -deleted.size);
        RETURN NEXT deleted.id;
    END LOOP;
END $$;
