//! The tables of a store.

/// The version of the tables.
pub(super) const VERSION: i64 = 1;

/// Returns a row if the tables exist.
pub(super) const EXISTS: &str = "SELECT 1 FROM sqlite_schema WHERE name = 'cachalot_layout'";

/// The version of the tables of a database.
pub(super) const READ_VERSION: &str = "SELECT version FROM cachalot_layout";

/// The statements that create the tables. Labels are a JSON array of pairs of names and values in hexadecimal: SQLite's
/// functions for JSON end a text at a character 0. Triggers keep the tables that derive from the records.
pub(super) const CREATE: [&str; 16] = [
    "CREATE TABLE IF NOT EXISTS cachalot_layout(version INTEGER NOT NULL)",
    "CREATE TABLE IF NOT EXISTS cachalot_records(
        id INTEGER PRIMARY KEY, space TEXT NOT NULL, key TEXT NOT NULL, revision INTEGER NOT NULL,
        updated INTEGER NOT NULL, used INTEGER NOT NULL, expires INTEGER, labels TEXT NOT NULL,
        weight INTEGER NOT NULL, value BLOB NOT NULL)",
    "CREATE UNIQUE INDEX IF NOT EXISTS cachalot_records_key ON cachalot_records(space, key)",
    "CREATE INDEX IF NOT EXISTS cachalot_records_used ON cachalot_records(space, used)",
    "CREATE INDEX IF NOT EXISTS cachalot_records_expires ON cachalot_records(space, expires)",
    "CREATE TABLE IF NOT EXISTS cachalot_labels(
        space TEXT NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
        PRIMARY KEY(space, key, name, value)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS cachalot_labels_value ON cachalot_labels(space, name, value, key)",
    "CREATE TABLE IF NOT EXISTS cachalot_counters(
        space TEXT NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL, PRIMARY KEY(space, name)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS cachalot_leases(
        space TEXT NOT NULL, key TEXT NOT NULL, fence INTEGER NOT NULL, until INTEGER NOT NULL,
        current INTEGER NOT NULL, labels TEXT NOT NULL, PRIMARY KEY(space, key)) WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS cachalot_leases_until ON cachalot_leases(until)",
    "CREATE TABLE IF NOT EXISTS cachalot_usage(
        space TEXT PRIMARY KEY, records INTEGER NOT NULL, bytes INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE VIRTUAL TABLE IF NOT EXISTS cachalot_texts USING fts5(
        key, value, labels, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 0')",
    "CREATE TRIGGER IF NOT EXISTS cachalot_inserted AFTER INSERT ON cachalot_records BEGIN
        INSERT INTO cachalot_usage VALUES (NEW.space, 1, NEW.weight)
            ON CONFLICT(space) DO UPDATE SET records = records + 1, bytes = bytes + NEW.weight;
        INSERT INTO cachalot_labels
            SELECT NEW.space, NEW.key, CAST(unhex(value->>0) AS TEXT), CAST(unhex(value->>1) AS TEXT)
            FROM json_each(NEW.labels);
    END",
    "CREATE TRIGGER IF NOT EXISTS cachalot_updated AFTER UPDATE OF id, labels, weight ON cachalot_records BEGIN
        UPDATE cachalot_usage SET bytes = bytes + NEW.weight - OLD.weight WHERE space = NEW.space;
        DELETE FROM cachalot_labels WHERE space = NEW.space AND key = NEW.key;
        INSERT INTO cachalot_labels
            SELECT NEW.space, NEW.key, CAST(unhex(value->>0) AS TEXT), CAST(unhex(value->>1) AS TEXT)
            FROM json_each(NEW.labels);
        DELETE FROM cachalot_texts WHERE rowid = OLD.id AND NEW.space = 'user';
    END",
    "CREATE TRIGGER IF NOT EXISTS cachalot_deleted AFTER DELETE ON cachalot_records BEGIN
        UPDATE cachalot_usage SET records = records - 1, bytes = bytes - OLD.weight WHERE space = OLD.space;
        DELETE FROM cachalot_labels WHERE space = OLD.space AND key = OLD.key;
        DELETE FROM cachalot_texts WHERE rowid = OLD.id AND OLD.space = 'user';
    END",
    "INSERT INTO cachalot_layout SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM cachalot_layout)",
];
