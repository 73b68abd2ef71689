//! Keeps pieces in the store as long as a session needs them.
//!
//! There are two spaces. One holds the sessions' own records, by name. The other holds the pieces and
//! **pins**: a pin holds one piece for one session. A piece is needed if another piece or a pin refers
//! to it in its label `parent`, which one `find` query shows. A session's record names its pin.
//!
//! *Writing* (under the session's lease):
//! 1. The pin and the pieces are stored.
//! 2. Every new piece is checked again, the last one first, and stored again if it is missing or marked.
//! 3. The session's record is stored.
//!
//! *Removing*:
//! 1. A piece is marked as doomed by this removal.
//! 2. The removal queries if the piece is needed.
//! 3. If it is not, the piece is erased, provided that it still has the mark.
//!
//! No piece is lost by concurrent operations or crashes. If the query of the removal comes after the
//! piece became needed, the removal sees the need. If it comes before, the mark was set even earlier:
//! the writer's check then finds the mark (or no piece) and stores the piece again without the mark, so
//! that the removal has nothing to erase. A piece is checked after the piece that refers to it, so this
//! holds for the whole chain, starting at the pin.
//!
//! A pin is void if the session's record names another one and no writer that may still store that
//! record needs it. The holder of the session's lease knows this for all pins; for the previously named
//! pin, the writer that stored the new record knows it. A crash leaves void pins and pieces behind, but
//! never a session without its pieces.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{Clock, Digest, SecretSet};
use cachalot_store::{
    Label, Lease, PageRequest, PutResult, Record, RecordFilter, ReserveResult, Store, StoreReply,
};
use futures_util::future::{Either, join_all, select, try_join};

use crate::error::{Error, ErrorKind};
use crate::record::{EncodedPiece, SessionRecord, StoredPiece, Unreadable};

/// The space of the sessions' own records.
pub const SESSIONS: &str = "sessions";

/// The space of the pieces and pins.
pub const PIECES: &str = "session_pieces";

/// The counter for the numbers of pins and removals.
const NUMBERS: &str = "numbers";

/// The duration of a session's lease for one change, which takes milliseconds; the lease is renewed if
/// the change takes longer.
pub(crate) const LEASE_DURATION: Duration = Duration::from_secs(5);

/// The maximum wait for another writer: longer than a lease.
const MAX_LEASE_WAIT: Duration = Duration::from_secs(8);

/// The timeout of a store operation.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(30);

/// The number of pieces that are stored concurrently.
const MAX_CONCURRENT_PIECES: usize = 64;

/// A store with sessions.
pub(crate) struct SessionStore {
    pub(crate) memory: Arc<dyn Store>,
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
            .map_err(|error| Error::memory(id, doing, error))
    }

    pub(crate) fn location(&self) -> &str {
        &self.memory.about().location
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
        let found = self.memory.get(SESSIONS, id, &[]);
        Ok(self.ask(id, "reading", found).await?.record)
    }

    /// Returns a number that is unique across all processes.
    pub(crate) async fn number(&self, id: &str) -> Result<u64, Error> {
        let raised = self.memory.add(PIECES, &[(NUMBERS, 1)]);
        let raised = self.ask(id, "writing", raised).await?;
        Ok(raised[0])
    }

    /// Acquires the session's lease; waits while another writer holds it.
    pub(crate) async fn reserve(&self, id: &str) -> Result<Lease, Error> {
        let began = tokio::time::Instant::now();
        let labels = [id_label(id)];
        let mut pause = Duration::from_millis(1);
        loop {
            let reserving = self.memory.reserve(SESSIONS, id, &labels, LEASE_DURATION);
            let left = match self.ask(id, "writing", reserving).await? {
                ReserveResult::Held(lease) => return Ok(lease),
                ReserveResult::Busy { left, .. } => left,
            };
            if began.elapsed() >= MAX_LEASE_WAIT {
                return Err(Error::new(
                    ErrorKind::Busy,
                    id,
                    format!(
                        "another process has been writing to the session `{id}` for \
                         {MAX_LEASE_WAIT:?}: try again"
                    ),
                ));
            }
            tokio::time::sleep(pause.min(left.max(Duration::from_millis(1)))).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// Runs an operation that may take longer than the lease, and renews the lease meanwhile.
    pub(crate) async fn holding<T>(
        &self,
        lease: &Lease,
        work: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let id = lease.key.as_str();
        let renewing = async {
            loop {
                tokio::time::sleep(LEASE_DURATION / 3).await;
                let renewed = self.memory.renew(lease, LEASE_DURATION);
                match self.ask(id, "writing", renewed).await {
                    Ok(true) => {}
                    Ok(false) => return self.lease_lost(id),
                    Err(error) => return error,
                }
            }
        };
        match select(pin!(work), pin!(renewing)).await {
            Either::Left((done, _)) => done,
            Either::Right((error, _)) => Err(error),
        }
    }

    /// The error for a lost lease.
    pub(crate) fn lease_lost(&self, id: &str) -> Error {
        Error::new(
            ErrorKind::Busy,
            id,
            format!(
                "writing to the session `{id}` took too long, and another process got the right to \
                 write: nothing was written; try again"
            ),
        )
    }

    pub(crate) async fn release(&self, lease: Lease) -> Result<(), Error> {
        let id = lease.key.clone();
        self.ask(&id, "writing", self.memory.release(lease)).await
    }

    /// Stores the session's own record and releases the lease; returns false if the lease was lost
    /// before.
    pub(crate) async fn put_head(
        &self,
        saved: &SessionRecord,
        value: bytes::Bytes,
        lease: &Lease,
    ) -> Result<bool, Error> {
        let head = &saved.head;
        let mut labels = vec![id_label(&head.id), Label::new("agent", &head.agent)];
        let further = [("workspace", &head.workspace), ("parent", &head.parent)];
        for (name, text) in further {
            labels.extend(text.as_ref().map(|text| Label::new(name, text)));
        }
        let record = new_record(head.id.clone(), value, labels);
        let stored = self.memory.put(SESSIONS, record, Some(lease), &[]);
        let stored = self.ask(&head.id, "writing", stored).await?;
        Ok(stored != PutResult::LeaseLost)
    }

    /// Stores a pin and the pieces that it holds, then checks the pieces again.
    pub(crate) async fn put_pieces(
        &self,
        id: &str,
        pin: u64,
        tip: Digest,
        fresh: &[EncodedPiece],
    ) -> Result<(), Error> {
        let labels = vec![parent_label(tip)];
        let pin = new_record(pin_key(id, pin), bytes::Bytes::new(), labels);
        let pinning = self.memory.put(PIECES, pin, None, &[]);
        let storing = async {
            for some in fresh.chunks(MAX_CONCURRENT_PIECES) {
                let all = join_all(some.iter().map(|piece| self.ensure_stored(id, piece))).await;
                all.into_iter().collect::<Result<(), Error>>()?;
            }
            Ok(())
        };
        try_join(self.ask(id, "writing", pinning), storing).await?;
        for piece in fresh.iter().rev() {
            self.ensure_stored(id, piece).await?;
        }
        Ok(())
    }

    /// Stores a piece unless it is present and not marked for removal.
    async fn ensure_stored(&self, id: &str, piece: &EncodedPiece) -> Result<(), Error> {
        let key = piece_key(piece.key);
        let found = self.memory.get(PIECES, &key, &[]);
        let found = self.ask(id, "writing", found).await?.record;
        let sound = |record: Record| record.value == piece.value && doomed(&record).is_none();
        if found.is_some_and(sound) {
            return Ok(());
        }
        let labels = piece.parent.map(parent_label).into_iter().collect();
        let record = new_record(key, piece.value.clone(), labels);
        let stored = self.memory.put(PIECES, record, None, &[]);
        self.ask(id, "writing", stored).await?;
        Ok(())
    }

    /// Reads a piece.
    pub(crate) async fn piece(&self, id: &str, key: Digest) -> Result<Option<StoredPiece>, Error> {
        let text = piece_key(key);
        let found = self.memory.get(PIECES, &text, &[]);
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
        let found = self.memory.find(PIECES, &filter, page);
        Ok(self.ask(id, "reading", found).await?.records)
    }

    /// True if a session has other pins than this one.
    pub(crate) async fn has_other_pins(&self, id: &str, pin: u64) -> Result<bool, Error> {
        let (pins, kept) = (self.pins(id, PageRequest::keys(2)).await?, pin_key(id, pin));
        Ok(pins.iter().any(|pin| pin.key != kept))
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

fn doomed(record: &Record) -> Option<&str> {
    label(record, DOOMED)
}

pub(crate) fn piece_key(key: Digest) -> String {
    format!("{PIECE}{key}")
}

/// The keys of pins have the same length for one session, so that none is a prefix of another.
pub(crate) fn pin_key(id: &str, pin: u64) -> String {
    format!("{PIN}{id}/{pin:020}")
}

fn new_record(key: String, value: bytes::Bytes, labels: Vec<Label>) -> Record {
    Record {
        key,
        value,
        labels,
        expires: None,
        revision: 0,
        updated: 0,
    }
}
