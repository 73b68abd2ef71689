//! The contract of a store, as a suite of checks that any implementation can run. Part of builds with the
//! feature `testing` only.
//!
//! A check takes a [`Subject`], a fresh and empty store, and panics if the store violates the contract of
//! [`Store`] or [`Recall`](crate::Recall). [`memory_conformance!`](crate::memory_conformance) generates a
//! test for every check; [`suite`] runs them all. Features that a store declares as unsupported
//! ([`StoreInfo::reservations`](crate::StoreInfo::reservations), [`Store::recall`], [`Store::stamp`]) are not
//! checked.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a check fails by panicking"
)]

pub mod amendments;
pub mod batches;
pub mod counters;
pub mod erasure;
pub mod filters;
pub mod layouts;
pub mod long_names;
pub mod pages;
pub mod recall;
pub mod records;
pub mod reservations;
pub mod stamps;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_core::ManualClock;

use crate::{
    GetResult, Label, LabelMatch, Lease, Millis, Order, PageRequest, PutResult, Record,
    RecordFilter, RecordPage, ReserveResult, Store,
};

/// A fresh store to check, and the environment of a check.
pub struct Subject {
    /// The store: nothing was ever stored in it.
    pub store: Arc<dyn Store>,
    /// Another handle on the same records, like that of another process; `None` if there is no such handle.
    pub second: Option<Arc<dyn Store>>,
    /// Advances the store's time by the given duration, by an offset that only tests can set: checks advance
    /// it by hours without waiting.
    pub pass: Box<dyn Fn(Duration) + Send + Sync>,
    /// A handle by which a check makes the layout of the records a newer one; `None` if no other process can change the
    /// layout while the store is open, or if the test has no such handle.
    pub layout: Option<Arc<dyn layouts::ChangeLayout>>,
    /// Anything that has to live as long as the store: a directory, a server.
    pub keep: Option<Box<dyn Any + Send>>,
}

impl Subject {
    /// Creates a subject with a store that uses `clock`, without a second handle.
    pub fn new(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        Self {
            store,
            second: None,
            pass: Box::new(move |by| clock.advance(by)),
            layout: None,
            keep: None,
        }
    }

    /// Adds a handle on the same records that changes their layout.
    #[must_use]
    pub fn with_layout(mut self, layout: Arc<dyn layouts::ChangeLayout>) -> Self {
        self.layout = Some(layout);
        self
    }

    /// Adds another handle on the same records.
    #[must_use]
    pub fn with_second(mut self, second: Arc<dyn Store>) -> Self {
        self.second = Some(second);
        self
    }

    /// Keeps a value alive as long as the subject.
    #[must_use]
    pub fn keeping(mut self, what: impl Any + Send) -> Self {
        self.keep = Some(Box::new(what));
        self
    }

    /// All handles on the records.
    fn handles(&self) -> impl Iterator<Item = &Arc<dyn Store>> {
        std::iter::once(&self.store).chain(&self.second)
    }

    /// The other handle if there is one, else the first.
    fn other(&self) -> &Arc<dyn Store> {
        self.second.as_ref().unwrap_or(&self.store)
    }

    fn pass(&self, time: Duration) {
        (self.pass)(time);
    }
}

/// Calls a macro with the path of every check.
#[doc(hidden)]
#[macro_export]
macro_rules! memory_conformance_checks {
    ($then:path, $($with:tt)*) => {
        $then! { $($with)*;
            records::a_space_that_was_never_written_is_empty,
            records::what_was_stored_comes_back,
            records::any_bytes_are_a_value,
            records::a_large_value_comes_back,
            records::any_text_is_a_key_and_a_label,
            records::long_keys,
            records::revisions_count_replacements,
            records::a_replacement_replaces_everything,
            records::spaces_are_apart,
            records::repeated_labels_are_one,
            records::an_expired_record_is_still_there,
            records::usage_is_what_is_there,
            records::a_read_tells_the_time,
            records::names_that_are_too_long_are_refused,
            records::a_read_is_of_one_moment,
            records::concurrent_stores_are_all_counted,
            amendments::a_record_that_is_as_it_was_read_is_amended,
            amendments::a_record_that_changed_since_is_not_amended,
            amendments::one_of_many_amends,
            batches::several_records_are_stored_together,
            batches::nothing_is_stored_if_the_condition_does_not_hold,
            batches::a_lease_of_another_caller_is_respected,
            batches::new_records_are_stored_and_others_stay,
            batches::new_records_respect_leases,
            batches::each_new_record_is_stored_by_one_of_many,
            batches::an_identical_record_stays_as_it_is,
            batches::one_of_many_stores_all_of_its_records,
            batches::names_that_are_too_long_refuse_all,
            counters::counters_count,
            counters::counters_come_with_the_record,
            counters::counters_survive_an_erase,
            counters::concurrent_raises_are_all_counted,
            counters::several_are_raised_together,
            counters::a_counter_is_raised_to_a_value,
            counters::counters_are_listed,
            counters::a_store_depends_on_counters,
            counters::an_erase_raises_its_counter,
            reservations::one_lease_at_a_time,
            reservations::a_lease_lapses,
            reservations::a_lease_is_renewed,
            reservations::a_lease_is_released,
            reservations::a_store_ends_its_lease,
            reservations::an_outgrown_lease_stores_nothing,
            reservations::a_lapsed_lease_stores_until_it_is_taken_over,
            reservations::a_lapsed_lease_outlives_other_reservations,
            reservations::a_lease_is_for_its_own_key,
            reservations::a_store_without_a_lease_leaves_it_alone,
            reservations::fences_grow_whatever_happens,
            reservations::an_erase_revokes_by_prefix,
            reservations::an_erase_revokes_by_label,
            reservations::an_erase_revokes_by_glob,
            reservations::a_sweep_revokes_nothing,
            reservations::an_eviction_revokes_nothing,
            reservations::exactly_one_of_many_gets_the_lease,
            reservations::what_is_absent_is_reserved,
            reservations::what_has_expired_is_reserved,
            reservations::what_is_stale_is_reserved,
            reservations::one_of_many_lookups_gets_the_lease,
            filters::by_prefix,
            filters::by_prefix_with_wildcards_in_it,
            filters::by_label,
            filters::by_the_beginning_of_a_label,
            filters::by_a_glob,
            filters::by_expiry,
            filters::by_everything_at_once,
            filters::by_several_labels,
            filters::the_newest_first,
            filters::the_coldest_first,
            filters::the_first_to_expire_first,
            filters::labels_of_a_replaced_record_are_forgotten,
            filters::a_touch_changes_nothing_else,
            pages::pages_are_complete,
            pages::pages_of_a_label_are_complete,
            pages::pages_stay_complete_while_records_come_and_go,
            pages::pages_are_complete_in_every_order,
            pages::keys_only,
            pages::labels_without_values,
            pages::beginnings_of_values,
            pages::nothing_is_a_page_too,
            pages::a_cursor_works_in_key_order_only,
            pages::an_erase_returns_what_it_erased,
            pages::an_erase_goes_page_by_page,
            pages::an_erase_spares_what_does_not_match,
            erasure::an_erase_in_any_order_erases_what_matches,
            erasure::an_erase_in_any_order_revokes_nothing,
            erasure::other_calls_succeed_during_an_erase_of_many,
            long_names::records_are_distinguished,
            long_names::keys_are_found_by_prefix,
            long_names::labels_are_found,
            long_names::what_matches_is_erased,
            long_names::leases_are_distinguished,
            long_names::counters_are_distinguished,
            long_names::batches_are_stored,
            layouts::writes_under_a_newer_layout_are_refused,
            layouts::a_newer_layout_is_noticed_by_reads,
            stamps::a_stamp_moves_with_every_change,
            stamps::a_stamp_moves_with_a_change_through_another_handle,
            stamps::a_stamp_stays_when_nothing_changes,
            recall::all_words_have_to_occur,
            recall::in_keys_values_and_labels,
            recall::a_prefix_only_where_it_is_asked_for,
            recall::operators_are_words,
            recall::no_word_finds_nothing,
            recall::only_user_memory_is_searched,
            recall::labels_narrow_a_search,
            recall::replaced_and_erased_texts_are_forgotten,
            recall::what_is_not_text_is_found_by_its_key,
            recall::the_best_first_and_no_more_than_asked_for,
        }
    };
}

/// Generates a `#[test]` for every check. The argument is an expression that creates a fresh [`Subject`] each
/// time it is evaluated. To be called in a module of its own.
#[macro_export]
macro_rules! memory_conformance {
    ($fresh:expr) => {
        $crate::memory_conformance_checks! { $crate::memory_conformance_tests, $fresh }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! memory_conformance_tests {
    ($fresh:expr; $($module:ident :: $check:ident),* $(,)?) => {
        $(
            #[test]
            fn $check() {
                $crate::conformance::run($crate::conformance::$module::$check($fresh));
            }
        )*
    };
}

macro_rules! each {
    ($fresh:ident; $($module:ident :: $check:ident),* $(,)?) => {
        $( $module::$check($fresh()).await; )*
    };
}

/// Runs every check, each on a fresh store.
///
/// # Panics
/// If the store violates its contract.
pub async fn suite(fresh: impl Fn() -> Subject) {
    memory_conformance_checks! { each, fresh }
}

/// Runs a check on a runtime of two threads.
///
/// # Panics
/// If the check panics.
pub fn run(check: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(check);
}

const SPACE: &str = "cache";

fn record(key: &str) -> Record {
    Record {
        key: key.to_owned(),
        value: Bytes::copy_from_slice(format!("value of {key}").as_bytes()),
        labels: Vec::new(),
        expires: None,
        revision: 0,
        updated: 0,
    }
}

fn with_value(key: &str, value: impl Into<Bytes>) -> Record {
    Record {
        value: value.into(),
        ..record(key)
    }
}

fn labelled(key: &str, labels: &[(&str, &str)]) -> Record {
    Record {
        labels: labels
            .iter()
            .map(|&(name, value)| Label::new(name, value))
            .collect(),
        ..record(key)
    }
}

fn expiring(key: &str, expires: Millis) -> Record {
    Record {
        expires: Some(expires),
        ..record(key)
    }
}

/// The size of a large value, in bytes, which the store accepts under a short key.
fn large_value(store: &dyn Store) -> usize {
    store.about().largest_value.min(3_000_100) as usize - 100
}

/// Stores a record, which must succeed; returns the revision.
async fn put(store: &dyn Store, space: &str, record: Record) -> u64 {
    match store.put(space, record, None, &[]).settle().await.unwrap() {
        PutResult::Stored { revision } => revision,
        refused => panic!("a store without a lease was refused: {refused:?}"),
    }
}

/// Stores a record with labels in [`SPACE`].
async fn put_labelled(store: &dyn Store, key: &str, labels: &[(&str, &str)]) -> u64 {
    put(store, SPACE, labelled(key, labels)).await
}

async fn get(store: &dyn Store, space: &str, key: &str) -> Option<Record> {
    let GetResult {
        record, counters, ..
    } = store.get(space, key, &[]).settle().await.unwrap();
    assert_eq!(counters, [0u64; 0]);
    record
}

async fn reserve(store: &dyn Store, key: &str, hold: Duration) -> ReserveResult {
    store.reserve(SPACE, key, &[], hold).settle().await.unwrap()
}

async fn lease(store: &dyn Store, key: &str, hold: Duration) -> Lease {
    held(reserve(store, key, hold).await)
}

fn is_busy(reserved: ReserveResult) -> bool {
    matches!(reserved, ReserveResult::Busy { .. })
}

fn held(reserved: ReserveResult) -> Lease {
    match reserved {
        ReserveResult::Held(lease) => lease,
        busy @ ReserveResult::Busy { .. } => panic!("not held: {busy:?}"),
    }
}

/// Adds one to a counter; returns its new value.
async fn raise(store: &dyn Store, space: &str, counter: &str) -> u64 {
    store.add(space, &[(counter, 1)]).settle().await.unwrap()[0]
}

async fn find_page(
    store: &dyn Store,
    space: &str,
    filter: &RecordFilter<'_>,
    page: PageRequest<'_>,
) -> RecordPage {
    store.find(space, filter, page).settle().await.unwrap()
}

async fn erase_page(
    store: &dyn Store,
    space: &str,
    filter: &RecordFilter<'_>,
    page: PageRequest<'_>,
) -> RecordPage {
    store.erase(space, filter, page).settle().await.unwrap()
}

fn keys_of(page: RecordPage) -> Vec<String> {
    page.records.into_iter().map(|record| record.key).collect()
}

async fn keys(store: &dyn Store, space: &str, filter: RecordFilter<'_>) -> Vec<String> {
    keys_of(find_page(store, space, &filter, PageRequest::keys(1000)).await)
}

async fn erase(store: &dyn Store, space: &str, filter: RecordFilter<'_>) -> Vec<String> {
    keys_of(erase_page(store, space, &filter, PageRequest::keys(1000)).await)
}

async fn touch(store: &dyn Store, space: &str, used: &[(&str, Millis)]) {
    store.touch(space, used).settle().await.unwrap();
}

/// Makes a call in each of several concurrent tasks, on alternating handles; returns the results.
async fn concurrently<T, F>(
    subject: &Subject,
    tasks: usize,
    call: impl Fn(Arc<dyn Store>, usize) -> F,
) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let spawn = |task| {
        let store = match task % 2 {
            0 => &subject.store,
            _ => subject.other(),
        };
        tokio::spawn(call(Arc::clone(store), task))
    };
    let tasks: Vec<_> = (0..tasks).map(spawn).collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.unwrap());
    }
    results
}

/// All orders of a page.
const ORDERS: [Order; 4] = [
    Order::Key,
    Order::Newest,
    Order::LeastRecentlyUsed,
    Order::Expiry,
];

fn prefix(prefix: &str) -> RecordFilter<'_> {
    RecordFilter {
        prefix,
        ..RecordFilter::default()
    }
}

fn having<'a>(labels: &'a [LabelMatch<'a>]) -> RecordFilter<'a> {
    RecordFilter {
        labels,
        ..RecordFilter::default()
    }
}

fn in_order(order: Order) -> RecordFilter<'static> {
    RecordFilter {
        order,
        ..RecordFilter::default()
    }
}

fn expired_before(moment: Millis) -> RecordFilter<'static> {
    RecordFilter {
        expired_before: Some(moment),
        ..RecordFilter::default()
    }
}

fn stored(revision: u64) -> PutResult {
    PutResult::Stored { revision }
}

fn is<'a>(name: &'a str, value: &'a str) -> LabelMatch<'a> {
    LabelMatch::Is { name, value }
}

fn starts<'a>(name: &'a str, prefix: &'a str) -> LabelMatch<'a> {
    LabelMatch::Starts { name, prefix }
}

fn sorted(mut labels: Vec<Label>) -> Vec<Label> {
    labels.sort();
    labels
}
