-- The tables of a store, layout 1. Names and keys are `bytea`: they may contain any character, and are compared by
-- their bytes.

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
