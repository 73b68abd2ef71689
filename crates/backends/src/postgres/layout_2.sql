-- Layout 2.

-- A lookup by space and key must use the primary key, whatever the planner knows about a space: all other indexes
-- begin with an expression, which only the statements that need them contain.
DROP INDEX cachalot_records_newest, cachalot_records_used, cachalot_records_expires, cachalot_labels_key;
CREATE INDEX cachalot_records_newest ON cachalot_records((space || ''::bytea), id);
CREATE INDEX cachalot_records_used ON cachalot_records((space || ''::bytea), used, id);
CREATE INDEX cachalot_records_expires ON cachalot_records((space || ''::bytea), expires, id);
CREATE INDEX cachalot_labels_key ON cachalot_labels((space || ''::bytea), key);

-- Ended leases outnumber the current ones, which an erase looks for.
CREATE INDEX cachalot_leases_current ON cachalot_leases(space, key) WHERE is_current;

-- A new space is soon known to the planner: by default, only once a tenth of the table has changed.
ALTER TABLE cachalot_records SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);
ALTER TABLE cachalot_labels SET (autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000);

-- Earlier functions added these.
DELETE FROM cachalot_counters WHERE value = 0;
