-- Layout 5.

-- The whole name, if the one in the key is the short form of a long name; see `name.rs`.
ALTER TABLE cachalot_records ADD COLUMN long_key bytea;
ALTER TABLE cachalot_counters ADD COLUMN long_name bytea;
