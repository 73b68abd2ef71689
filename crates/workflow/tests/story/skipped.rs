//! Items of the checklists that have no test here, and why.

/// Items that are not tested here, with the reason: `(item, reason)`.
pub(crate) const SKIPPED: &[(&str, &str)] = &[
    (
        "AC-12, S3, GCS and Azure",
        "the clouds are tested against real servers in a later issue; local files and HTTP are tested here and in `storage`",
    ),
    (
        "AC-23, documentation",
        "checked by the tests of the documentation, which run every example",
    ),
    (
        "2.1, hierarchical backend (large result as a blob, `_cache/`)",
        "the backend is not built yet; large and small results are tested on SQLite",
    ),
    (
        "2.1, `test_ltm_integration.py` (DuckDB)",
        "the backend is not built yet",
    ),
    (
        "2.1, `test_ratelimit_actions.py` (cache.wrap around ratelimit.wrap)",
        "there is no `ratelimit.wrap`; cache.wrap around cache.wrap is tested in its place",
    ),
    (
        "2.1, `no engine`, `no config attribute`",
        "an engine without a configuration does not exist here",
    ),
    (
        "2.1, old-style keys readable by cache.get",
        "entries of the existing implementation are not read: their keys leave inputs out",
    ),
    (
        "2.1, garbage in the expiry",
        "the expiry is a number of its own column and cannot be text; a damaged entry is a miss, which is tested",
    ),
    (
        "2.1, storage.hash of a missing file as `{success: false}`",
        "a failing action fails its node here (issue, section 6); the kinds of the failures are tested",
    ),
    ("2.2, S3, GCS and Azure hashing", "as with AC-12"),
    (
        "2.2, wrap of llm.call",
        "`llm.*` comes with the next issue; what its key has to cover is tested with actions that declare what they depend on",
    ),
    (
        "2.2, full miss, store and hit through YAML on a SQLite file; 2.3, restart through the command line",
        "tested where the graph and the command line are; here the same goes through the registry",
    ),
    (
        "2.3, a result that is no JSON",
        "an action's result is JSON by its type; results that JSON text cannot carry back are tested (too deep, too large)",
    ),
    (
        "2.3, 100 MB file in bounded memory",
        "tested in `storage`, where the reading is; a large file is keyed here",
    ),
    (
        "2.3, a misconfigured backend is a load error",
        "settings are tested where they are read; a memory that fails or is missing is tested here",
    ),
    (
        "2.4, remote-file cache",
        "there is none: an http(s) URI is read where it is used",
    ),
    (
        "0.3, persistence without settings",
        "the default path is the command line's, and tested there; entries outlive their run here",
    ),
    (
        "0.4, a backend that does not open",
        "tested in `cli`; here: no memory, and one that fails at everything",
    ),
    (
        "0.5, deduplication of identical content (DuckDB)",
        "not built yet; an identical refreshed value is tested on SQLite",
    ),
    (
        "0.6, hierarchical backend deletes foreign rows",
        "not built yet; user memory stays untouched is tested on SQLite",
    ),
    (
        "0.11, the existing Rust port",
        "concerns the other implementation only",
    ),
    (
        "0.12, examples that use the cache",
        "the examples are run by the tests of the documentation",
    ),
];

#[test]
fn skipped_items_are_unique_and_have_a_reason() {
    let mut items: Vec<&str> = SKIPPED.iter().map(|(item, _)| *item).collect();
    items.sort_unstable();
    items.dedup();
    assert_eq!(items.len(), SKIPPED.len());
    assert!(
        SKIPPED
            .iter()
            .all(|(item, reason)| item.len() > 4 && reason.len() > 10)
    );
}
