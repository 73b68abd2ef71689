//! Keeps pieces in the store as long as a session needs them.
//!
//! There are two spaces: one for the sessions' own records, by name, and one for the pieces. A piece is
//! needed if a session's record refers to it in its label `tip`, or another piece in its label `parent`.
//!
//! *Writing* is one step ([`Store::put_all`]): the new pieces and the session's record, provided that the
//! record is the one that this process knows. A write whose prompt ends in a piece that was not the last
//! one before stores that piece, too, even if the store has it.
//!
//! *Removing*:
//! 1. A piece is marked as doomed by this removal.
//! 2. The removal queries if a session refers to the piece, and then if another piece does.
//! 3. If none does, the piece is erased, provided that it still has the mark.
//!
//! No piece is lost by concurrent operations or crashes. Consider the last write that stored the piece for
//! a session that needs it. If it comes after the mark, it has stored the piece without the mark, and the
//! removal has nothing to erase. If it comes before, the session refers to the piece from then on, or
//! another piece does: the reference may move from the session to a piece, once, which is why sessions are
//! queried first. It moves back with a write that stores the piece only.
//!
//! A record lists the last pieces of prompts that its session does not have any more, until they are
//! erased. A crash may leave pieces behind that no session needs, but never a session without its pieces.
//!
//! Earlier versions stored **pins** beside the pieces: records that refer to a piece in their label
//! `parent`, and that the session's record names by number. They are erased once the record names none.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_core::{Clock, Digest, SecretSet};
use cachalot_store::{Label, PutAllResult, PutCondition, Record, Store, StoreReply};

use crate::error::{Error, ErrorKind};
use crate::record::{EncodedPiece, SessionRecord, StoredPiece, Unreadable};

/// The space of the sessions' own records.
pub const SESSIONS: &str = "sessions";

/// The space of the pieces.
pub const PIECES: &str = "session_pieces";

/// The counter for the numbers of removals.
const NUMBERS: &str = "numbers";

/// The maximum wait for another writer.
const MAX_WRITER_WAIT: Duration = Duration::from_secs(8);

/// The timeout of a store operation.
pub(crate) const OPERATION_TIMEOUT: Duration = Duration::from_secs(30);

/// A store with sessions.
pub(crate) struct SessionStore {
    pub(crate) backend: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) secret_set: Arc<SecretSet>,
}

/// The session's stored record, if there is one.
pub(crate) type Found = Option<Record>;

impl SessionStore {
    /// Awaits a store operation with a timeout; `doing` begins the message of an error.
    pub(crate) async fn ask<T: Send>(
        &self,
        id: &str,
        doing: &str,
        answer: StoreReply<'_, T>,
    ) -> Result<T, Error> {
        answer
            .within(OPERATION_TIMEOUT)
            .await
            .map_err(|error| Error::store(id, doing, error))
    }

    pub(crate) fn location(&self) -> &str {
        &self.backend.about().location
    }

    /// The error for a record that cannot be read.
    pub(crate) fn unreadable(&self, id: &str, why: Unreadable) -> Error {
        match why {
            Unreadable::Damaged(what) => Error::damaged(id, self.location(), &what),
            Unreadable::TooNew(format) => Error::new(
                ErrorKind::TooNew,
                id,
                format!(
                    "the session `{id}` was written by a newer version of Cachalot (format \
                     {format}): update Cachalot to read it"
                ),
            ),
        }
    }

    /// Reads the session's own record.
    pub(crate) async fn head(&self, id: &str) -> Result<Found, Error> {
        let found = self.backend.get(SESSIONS, id, &[]);
        Ok(self.ask(id, "reading", found).await?.record)
    }

    /// Returns a number that is unique across all processes.
    pub(crate) async fn number(&self, id: &str) -> Result<u64, Error> {
        let raised = self.backend.add(PIECES, &[(NUMBERS, 1)]);
        let raised = self.ask(id, "writing", raised).await?;
        Ok(raised[0])
    }

    /// Stores pieces and the session's own record in one step, if the record in the store is `expected`.
    pub(crate) async fn put(
        &self,
        saved: &SessionRecord,
        record: Bytes,
        fresh: &[EncodedPiece],
        expected: Option<Bytes>,
    ) -> Result<PutAllResult, Error> {
        let head = &saved.head;
        let mut records = Vec::with_capacity(fresh.len() + 1);
        records.extend(fresh.iter().map(|piece| {
            let parent = piece.parent.map(|key| Label::new(PARENT, key.to_hex()));
            let labels = parent.into_iter().collect();
            let record = new_record(piece_key(piece.key), piece.value.clone(), labels);
            (PIECES, record)
        }));
        let tip = saved.tip.map(|tip| tip.0.to_hex());
        let mut labels = vec![Label::new(ID, &head.id), Label::new("agent", &head.agent)];
        let further = [
            ("workspace", &head.workspace),
            ("parent", &head.parent),
            (TIP, &tip),
        ];
        for (name, text) in further {
            labels.extend(text.as_ref().map(|text| Label::new(name, text)));
        }
        records.push((SESSIONS, new_record(head.id.clone(), record, labels)));
        let condition = PutCondition {
            space: SESSIONS,
            key: &head.id,
            value: expected,
        };
        let stored = self.backend.put_all(condition, records);
        self.ask(&head.id, "writing", stored).await
    }

    /// Reads a piece.
    pub(crate) async fn piece(&self, id: &str, key: Digest) -> Result<Option<StoredPiece>, Error> {
        let text = piece_key(key);
        let found = self.backend.get(PIECES, &text, &[]);
        let Some(record) = self.ask(id, "reading", found).await?.record else {
            return Ok(None);
        };
        let stored = StoredPiece::decode(key, &record.value);
        stored.map(Some).map_err(|why| self.unreadable(id, why))
    }
}

/// A wait for another process that writes to the session.
pub(crate) struct WriterWait {
    began: tokio::time::Instant,
    pause: Duration,
}

impl WriterWait {
    pub(crate) fn begin() -> Self {
        Self {
            began: tokio::time::Instant::now(),
            pause: Duration::from_millis(1),
        }
    }

    /// Waits before the next attempt, at most for `left`; fails after [`MAX_WRITER_WAIT`].
    pub(crate) async fn pause(&mut self, id: &str, left: Duration) -> Result<(), Error> {
        if self.began.elapsed() >= MAX_WRITER_WAIT {
            return Err(Error::new(
                ErrorKind::Busy,
                id,
                format!(
                    "another process has been writing to the session `{id}` for \
                     {MAX_WRITER_WAIT:?}: try again"
                ),
            ));
        }
        tokio::time::sleep(self.pause.min(left.max(Duration::from_millis(1)))).await;
        self.pause = (self.pause * 2).min(Duration::from_millis(50));
        Ok(())
    }
}

pub(crate) const ID: &str = "id";
pub(crate) const TIP: &str = "tip";
pub(crate) const PARENT: &str = "parent";
pub(crate) const DOOMED: &str = "doomed";
pub(crate) const PIECE: &str = "piece/";

pub(crate) fn label<'a>(record: &'a Record, name: &str) -> Option<&'a str> {
    let found = record.labels.iter().find(|label| label.name == name);
    found.map(|label| label.value.as_str())
}

pub(crate) fn piece_key(key: Digest) -> String {
    format!("{PIECE}{key}")
}

fn new_record(key: String, value: Bytes, labels: Vec<Label>) -> Record {
    Record {
        key,
        value,
        labels,
        expires: None,
        revision: 0,
        updated: 0,
    }
}
