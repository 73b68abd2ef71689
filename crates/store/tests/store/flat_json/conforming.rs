//! Those checks of the conformance suite that ask for nothing that a flat JSON file cannot hold.

use std::sync::Arc;

use cachalot_core::ManualClock;
use cachalot_store::conformance::{self, Subject};
use cachalot_store::flat_json::{FlatJsonOptions, FlatJsonStore};

/// Without a second handle: revisions are each handle's own.
fn subject() -> Subject {
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("answers.json");
    let memory = FlatJsonStore::open(&path, FlatJsonOptions::new(clock.clone())).unwrap();
    Subject::new(Arc::new(memory), clock).keeping(directory)
}

macro_rules! checks {
    ($($module:ident :: $check:ident),* $(,)?) => {
        $(
            #[test]
            fn $check() {
                conformance::run(conformance::$module::$check(subject()));
            }
        )*
    };
}

checks! {
    records::a_space_that_was_never_written_is_empty,
    records::revisions_count_replacements,
    records::concurrent_stores_are_all_counted,
    pages::pages_are_complete,
    pages::nothing_is_a_page_too,
    pages::an_erase_goes_page_by_page,
}
