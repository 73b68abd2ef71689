//! What a flat JSON file cannot hold.

use std::time::Duration;

use cachalot_store::flat_json::{MAX_ENTRY_BYTES, SPACE};
use cachalot_store::{
    Error, ErrorKind, Label, LabelMatch, Lease, Order, PageRequest, PutResult, Record,
    RecordFilter, Store,
};

use super::{answer, keys, open, place, store};
use crate::{record, run};

#[test]
fn what_such_a_file_cannot_hold_is_refused_with_words() {
    let (_directory, path) = place();
    let memory = open(&path).unwrap();
    let refused = |space: &str, record: Record| {
        let error = run(memory.put(space, record, None, &[]).settle()).unwrap_err();
        assert!(error.message.contains("answers.json"), "{}", error.message);
        error
    };
    let labelled = Record {
        labels: vec![Label::new("tag", "x")],
        ..record("q", "a")
    };
    let expiring = Record {
        expires: Some(5),
        ..record("q", "a")
    };
    for (space, record, said) in [
        (SPACE, labelled, "labels"),
        (SPACE, expiring, "an expiry"),
        (SPACE, record("q", &b"\xff"[..]), "no UTF-8"),
        ("user", record("q", "a"), "another space"),
    ] {
        let error = refused(space, record);
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.message.contains(said), "{}", error.message);
    }
    let large = record("q", vec![b'x'; MAX_ENTRY_BYTES as usize]);
    let error = run(memory.put(SPACE, large, None, &[]).settle()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooLarge);
    let lease = Lease {
        space: SPACE.into(),
        key: "q".into(),
        fence: 1,
    };
    let under = run(memory
        .put(SPACE, record("q", "a"), Some(&lease), &[])
        .settle())
    .unwrap();
    assert_eq!(under, PutResult::LeaseLost);
    let kind = |error: Error| error.kind;
    let hold = Duration::from_secs(1);
    assert_eq!(
        run(memory.reserve(SPACE, "q", &[], hold).settle()).map_err(kind),
        Err(ErrorKind::Unsupported)
    );
    assert_eq!(
        run(memory.renew(&lease, hold).settle()).map_err(kind),
        Ok(false)
    );
    assert_eq!(
        run(memory.add(SPACE, &[("c", 1)]).settle()).map_err(kind),
        Err(ErrorKind::Unsupported)
    );
    let newest = RecordFilter {
        order: Order::Newest,
        ..RecordFilter::default()
    };
    assert_eq!(
        run(memory.find(SPACE, &newest, PageRequest::first(1)).settle()).map_err(kind),
        Err(ErrorKind::Unsupported)
    );
    assert_eq!(memory.stamp(SPACE, "q"), None);
    assert!(memory.recall().is_none());
    assert!(!path.exists());
}

#[test]
fn what_no_entry_can_meet_finds_and_erases_nothing() {
    let (_directory, path) = place();
    let memory = open(&path).unwrap();
    store(&memory, "q", "a").unwrap();
    let label = [LabelMatch::Starts {
        name: "tag",
        prefix: "",
    }];
    let labelled = RecordFilter {
        labels: &label,
        ..RecordFilter::default()
    };
    let expired = RecordFilter {
        expired_before: Some(i64::MAX),
        ..RecordFilter::default()
    };
    for filter in [&labelled, &expired] {
        assert_eq!(keys(&memory, filter), [""; 0]);
        let erased = run(memory.erase(SPACE, filter, PageRequest::first(9)).settle()).unwrap();
        assert_eq!(erased.records, []);
    }
    assert_eq!(answer(&memory, "q").unwrap(), "a");
}
