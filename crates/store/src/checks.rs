//! Checks of the requests of a store, one function for each method of [`Store`](crate::Store) with the same arguments.

use std::time::Duration;

use crate::request::{check_page, label_texts};
use crate::{Error, GetOrReserve, Label, Millis, PageRequest, Record, RecordFilter, StoreInfo};

/// Fails if a name is too long.
///
/// # Errors
/// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge).
pub fn get(about: &StoreInfo, space: &&str, key: &&str, counters: &&[&str]) -> Result<(), Error> {
    about.check_names([*space, *key].into_iter().chain(counters.iter().copied()))
}

/// Fails if a name is too long.
///
/// # Errors
/// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge).
pub fn get_or_reserve(
    about: &StoreInfo,
    space: &&str,
    key: &&str,
    request: &GetOrReserve<'_>,
) -> Result<(), Error> {
    let own = [*space, *key]
        .into_iter()
        .chain(label_texts(request.labels));
    about.check_names(own.chain(request.counters.iter().copied()))
}

/// Fails if a name is too long.
///
/// # Errors
/// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge).
pub fn reserve(
    about: &StoreInfo,
    space: &&str,
    key: &&str,
    labels: &&[Label],
    _: &Duration,
) -> Result<(), Error> {
    about.check_names([*space, *key].into_iter().chain(label_texts(labels)))
}

/// Fails if the page has a cursor in an order without one, or if the space's name is too long.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) and [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge).
pub fn find(
    about: &StoreInfo,
    space: &&str,
    filter: &RecordFilter<'_>,
    page: &PageRequest<'_>,
) -> Result<(), Error> {
    check_page(filter, page)?;
    about.check_names([*space])
}

pub use self::find as erase;

/// Fails if a name is too long.
///
/// # Errors
/// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge).
pub fn add(about: &StoreInfo, space: &&str, additions: &&[(&str, u64)]) -> Result<(), Error> {
    let names = additions.iter().map(|(name, _)| *name);
    about.check_names([*space].into_iter().chain(names))
}

/// Fails if a name is too long.
///
/// # Errors
/// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge).
pub fn raise_to(about: &StoreInfo, space: &&str, counter: &&str, _: &u64) -> Result<(), Error> {
    about.check_names([*space, *counter])
}

/// Fails if the space's name is too long.
///
/// # Errors
/// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge).
pub fn counters(
    about: &StoreInfo,
    space: &&str,
    _: &&str,
    _: &Option<&str>,
    _: &u32,
) -> Result<(), Error> {
    about.check_names([*space])
}

/// Fails if the space's name is too long.
///
/// # Errors
/// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge).
pub fn touch(about: &StoreInfo, space: &&str, _: &&[(&str, Millis)]) -> Result<(), Error> {
    about.check_names([*space])
}

/// Fails if records of the space are not amended, or the record is too large.
///
/// # Errors
/// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) and [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge).
pub fn amend(about: &StoreInfo, space: &&str, record: &Record) -> Result<(), Error> {
    about.check_amend(space, record)
}

/// Fails if the space's name is too long.
///
/// # Errors
/// [`ErrorKind::TooLarge`](crate::ErrorKind::TooLarge).
pub fn usage(about: &StoreInfo, space: &&str) -> Result<(), Error> {
    about.check_names([*space])
}
