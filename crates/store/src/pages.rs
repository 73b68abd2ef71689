//! Iteration over all pages of the records that match a filter.

use std::time::Duration;

use crate::{Error, PageRequest, RecordFilter, RecordPage, Store};

/// Reads page after page with [`Store::find`], in key order. Records that are added or erased meanwhile do
/// not make it miss or repeat others.
pub struct Pages<'a> {
    store: &'a dyn Store,
    space: &'a str,
    filter: RecordFilter<'a>,
    request: PageRequest<'a>,
    timeout: Option<Duration>,
    position: Position,
}

/// The progress of the iteration.
enum Position {
    Start,
    After(String),
    End,
}

impl<'a> Pages<'a> {
    /// Iterates over the records of `space` that match; `request` specifies the size of a page and the parts
    /// of the records. The filter's order must be [`Order::Key`](crate::Order::Key).
    #[must_use]
    pub fn new(
        store: &'a dyn Store,
        space: &'a str,
        filter: RecordFilter<'a>,
        request: PageRequest<'a>,
    ) -> Self {
        Self {
            store,
            space,
            filter,
            request,
            timeout: None,
            position: Position::Start,
        }
    }

    /// Waits for each page at most `timeout`.
    #[must_use]
    pub fn within(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Returns the next page, which may be empty; `None` after the last one.
    ///
    /// # Errors
    /// The store's own, or [`TimedOut`](crate::ErrorKind::TimedOut); the next call reads the same page.
    pub async fn next(&mut self) -> Result<Option<RecordPage>, Error> {
        let after = match &self.position {
            Position::Start => self.request.after,
            Position::After(key) => Some(key.as_str()),
            Position::End => return Ok(None),
        };
        let request = PageRequest {
            after,
            ..self.request
        };
        let reply = self.store.find(self.space, &self.filter, request);
        let page = match self.timeout {
            Some(timeout) => reply.within(timeout).await?,
            None => reply.settle().await?,
        };
        self.position = match &page.next {
            Some(key) => Position::After(key.clone()),
            None => Position::End,
        };
        Ok(Some(page))
    }
}
