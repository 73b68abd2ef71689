//! Keeps pieces in the store as long as a session needs them.
//!
//! There are two spaces. One holds the sessions' own records, by name. The other holds the pieces and
//! **pins**: a pin holds one piece for one session. A piece is needed if another piece or a pin refers
//! to it in its label `parent`, which one `find` query shows. A session's record names its pin.
//!
//! *Writing* is one step ([`Store::put_all`]): the new pieces, the pin and the session's record, provided
//! that the record is the one that this process knows and that no lease on it exists. The pin of a longer
//! prompt replaces the pin of the shorter one: the pieces of the shorter one are held by the new pieces.
//! A prompt that does not begin with the saved one gets a new pin.
//!
//! *Removing*:
//! 1. A piece is marked as doomed by this removal.
//! 2. The removal queries if the piece is needed.
//! 3. If it is not, the piece is erased, provided that it still has the mark.
//!
//! No piece is lost by concurrent operations or crashes. If the query of the removal comes after a write
//! that needs the piece, the removal sees the need. If it comes before, the mark was set even earlier: the
//! write finds a piece with a mark (or no piece) and stores the piece again without the mark, so that the
//! removal has nothing to erase.
//!
//! A pin is void if the session's record names another one. The removal of void pins holds the session's
//! lease while it determines them, so no write gives a session another pin meanwhile. A crash of a removal
//! leaves void pins and pieces behind, but never a session without its pieces.
//!
//! Earlier versions wrote the pin, the pieces and the record in separate steps under the lease, each time
//! with a new pin. Their void pins are erased with the first change.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_core::{Clock, Digest, SecretSet};
use cachalot_store::{
    Label, Lease, PageRequest, PutAllResult, PutCondition, Record, RecordFilter, ReserveResult,
    Store, StoreReply,
};

use crate::error::{Error, ErrorKind};
use crate::record::{EncodedPiece, SessionRecord, StoredPiece, Unreadable};

/// The space of the sessions' own records.
pub const SESSIONS: &str = "sessions";

/// The space of the pieces and pins.
pub const PIECES: &str = "session_pieces";

/// The counter for the numbers of pins and removals.
const NUMBERS: &str = "numbers";

/// The distance of the numbers of pins. Earlier versions used the numbers in between.
const PIN_STEP: u64 = 10_000;

/// The duration of a session's lease while void pins are determined, which takes milliseconds.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(5);

/// The maximum wait for another writer: longer than a lease.
const MAX_LEASE_WAIT: Duration = Duration::from_secs(8);

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

    /// Returns the number of a new pin.
    pub(crate) async fn new_pin(&self, id: &str) -> Result<u64, Error> {
        Ok(self.number(id).await? * PIN_STEP)
    }

    /// Acquires the session's lease; waits while another process holds it.
    pub(crate) async fn reserve(&self, id: &str) -> Result<Lease, Error> {
        let labels = [id_label(id)];
        let mut wait = LeaseWait::begin();
        loop {
            let reserving = self.backend.reserve(SESSIONS, id, &labels, LEASE_DURATION);
            match self.ask(id, "writing", reserving).await? {
                ReserveResult::Held(lease) => return Ok(lease),
                ReserveResult::Busy { left, .. } => wait.pause(id, left).await?,
            }
        }
    }

    pub(crate) async fn release(&self, lease: Lease) -> Result<(), Error> {
        let id = lease.key.clone();
        self.ask(&id, "writing", self.backend.release(lease)).await
    }

    /// Stores new pieces, the pin of the last one, and the session's own record in one step, if the record
    /// in the store is `expected`.
    pub(crate) async fn put(
        &self,
        saved: &SessionRecord,
        record: Bytes,
        fresh: &[EncodedPiece],
        expected: Option<Bytes>,
    ) -> Result<PutAllResult, Error> {
        let head = &saved.head;
        let mut records = Vec::with_capacity(fresh.len() + 2);
        records.extend(fresh.iter().map(|piece| {
            let labels = piece.parent.map(parent_label).into_iter().collect();
            let record = new_record(piece_key(piece.key), piece.value.clone(), labels);
            (PIECES, record)
        }));
        records.extend(saved.tip.map(|tip| {
            let pin = pin_key(&head.id, saved.pin);
            (
                PIECES,
                new_record(pin, Bytes::new(), vec![parent_label(tip)]),
            )
        }));
        let mut labels = vec![id_label(&head.id), Label::new("agent", &head.agent)];
        let further = [("workspace", &head.workspace), ("parent", &head.parent)];
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

    /// Reads a page of the pins of a session.
    pub(crate) async fn pins(&self, id: &str, page: PageRequest<'_>) -> Result<Vec<Record>, Error> {
        let prefix = format!("{PIN}{id}/");
        let filter = RecordFilter {
            prefix: &prefix,
            ..RecordFilter::default()
        };
        let found = self.backend.find(PIECES, &filter, page);
        Ok(self.ask(id, "reading", found).await?.records)
    }

    /// True if a session has other pins than this one.
    pub(crate) async fn has_other_pins(&self, id: &str, pin: u64) -> Result<bool, Error> {
        let (pins, kept) = (self.pins(id, PageRequest::keys(2)).await?, pin_key(id, pin));
        Ok(pins.iter().any(|pin| pin.key != kept))
    }
}

/// A wait for a lease that another process holds.
pub(crate) struct LeaseWait {
    began: tokio::time::Instant,
    pause: Duration,
}

impl LeaseWait {
    pub(crate) fn begin() -> Self {
        Self {
            began: tokio::time::Instant::now(),
            pause: Duration::from_millis(1),
        }
    }

    /// Waits before the next attempt, at most until the lease lapses; fails after [`MAX_LEASE_WAIT`].
    pub(crate) async fn pause(&mut self, id: &str, left: Duration) -> Result<(), Error> {
        if self.began.elapsed() >= MAX_LEASE_WAIT {
            return Err(Error::new(
                ErrorKind::Busy,
                id,
                format!(
                    "another process has been writing to the session `{id}` for \
                     {MAX_LEASE_WAIT:?}: try again"
                ),
            ));
        }
        tokio::time::sleep(self.pause.min(left.max(Duration::from_millis(1)))).await;
        self.pause = (self.pause * 2).min(Duration::from_millis(50));
        Ok(())
    }
}

pub(crate) const ID: &str = "id";
pub(crate) const PARENT: &str = "parent";
pub(crate) const DOOMED: &str = "doomed";
pub(crate) const PIECE: &str = "piece/";
pub(crate) const PIN: &str = "pin/";

fn id_label(id: &str) -> Label {
    Label::new(ID, id)
}

fn parent_label(key: Digest) -> Label {
    Label::new(PARENT, key.to_hex())
}

pub(crate) fn label<'a>(record: &'a Record, name: &str) -> Option<&'a str> {
    let found = record.labels.iter().find(|label| label.name == name);
    found.map(|label| label.value.as_str())
}

pub(crate) fn piece_key(key: Digest) -> String {
    format!("{PIECE}{key}")
}

/// The keys of pins have the same length for one session, so that none is a prefix of another.
pub(crate) fn pin_key(id: &str, pin: u64) -> String {
    format!("{PIN}{id}/{pin:020}")
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
