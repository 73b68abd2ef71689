CREATE TABLE IF NOT EXISTS cachalot_ledger_layout(version int NOT NULL);
INSERT INTO cachalot_ledger_layout SELECT 1 WHERE NOT EXISTS (SELECT FROM cachalot_ledger_layout);
CREATE TABLE IF NOT EXISTS cachalot_ledger_calls(
    ledger text NOT NULL, host text NOT NULL, id bigint NOT NULL, at bigint NOT NULL, run text NOT NULL,
    kind text NOT NULL, name text NOT NULL, scope text NOT NULL, key text NOT NULL, handle text, session text,
    answered text NOT NULL, reason text, not_stored text, failure text, unpriced text, failed boolean NOT NULL,
    paid bigint NOT NULL, paid_input bigint NOT NULL, paid_output bigint NOT NULL, paid_cost bigint NOT NULL,
    paid_unpriced bigint NOT NULL, saved bigint NOT NULL, saved_input bigint NOT NULL, saved_output bigint NOT NULL,
    saved_cost bigint NOT NULL, saved_unpriced bigint NOT NULL,
    PRIMARY KEY (ledger, id));
CREATE INDEX IF NOT EXISTS cachalot_ledger_calls_by_time ON cachalot_ledger_calls(at, ledger, id);
CREATE TABLE IF NOT EXISTS cachalot_ledger_totals(
    ledger text NOT NULL, host text NOT NULL, kind text NOT NULL, name text NOT NULL,
    hits bigint NOT NULL, coalesced bigint NOT NULL, misses bigint NOT NULL, bypasses bigint NOT NULL,
    failures bigint NOT NULL, failed bigint NOT NULL,
    paid bigint NOT NULL, paid_input bigint NOT NULL, paid_output bigint NOT NULL, paid_cost bigint NOT NULL,
    paid_unpriced bigint NOT NULL, saved bigint NOT NULL, saved_input bigint NOT NULL, saved_output bigint NOT NULL,
    saved_cost bigint NOT NULL, saved_unpriced bigint NOT NULL,
    PRIMARY KEY (ledger, kind, name));
