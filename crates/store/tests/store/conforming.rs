//! The conformance suite on both memories.

use std::sync::Arc;

use cachalot_core::ManualClock;
use cachalot_store::conformance::Subject;
use cachalot_store::in_process::InProcessStore;

use crate::open_at;

fn in_process() -> Subject {
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    Subject::new(Arc::new(InProcessStore::new(clock.clone())), clock)
}

fn sqlite() -> Subject {
    let clock = Arc::new(ManualClock::at(1_800_000_000_000));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.db");
    let first = Arc::new(open_at(&path, &clock));
    let second = Arc::new(open_at(&path, &clock));
    Subject::new(first.clone(), clock)
        .with_second(second)
        .with_layout(first)
        .keeping(directory)
}

mod in_a_process {
    cachalot_store::memory_conformance!(super::in_process());
}

mod in_a_sqlite_file {
    cachalot_store::memory_conformance!(super::sqlite());
}

/// The suite as one call, for those who cannot use the macro.
#[test]
fn conformance_suite_passes_in_one_call() {
    crate::run(cachalot_store::conformance::suite(in_process));
}
