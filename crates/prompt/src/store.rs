//! How pieces stay in a memory as long as a session needs them, and no longer.
//!
//! There are two spaces. In one, a session's own record lies under its name. The other has the pieces,
//! and **pins**: a pin holds one piece for one session. A piece is needed if another piece or a pin
//! names it in its label `parent`, which one `find` tells. A session's record names its pin.
//!
//! *Writing* (under the session's reservation): the pin and the pieces are stored; every new piece is
//! looked at once more, the last one first, and stored again if it is missing or marked; then the
//! session's record is stored. *Removing*: a piece is marked as doomed by this very removal, then it is
//! asked whether it is needed, then it is erased if it still bears the mark.
//!
//! So no piece is lost, whatever happens at once and wherever somebody dies: if the removal asks after
//! the piece came to be needed, it sees so. If it asked before, it had marked the piece before; then
//! the writer finds the mark (or nothing) when it looks, stores the piece again without it, and there
//! is nothing left for the removal to erase. A piece is looked at after the one that names it, so this
//! holds for one after the other from the pin on.
//!
//! A pin is void if the session's record names another one and nobody who may still store that record
//! needs it: that is known to whoever holds the session's reservation, and of the pin that the record
//! named before to whoever has stored the record that names another one. Who dies leaves void pins and
//! pieces behind, never a session without its pieces.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{Clock, Digest, Seals};
use cachalot_memory::{Answer, Filter, Label, Lease, Memory, Page, Put, Record, Reserved};
use futures_util::future::{Either, join_all, select, try_join};

use crate::error::{Error, ErrorKind};
use crate::record::{Fresh, Saved, Stored, Unreadable};

/// The space of the sessions' own records.
pub const SESSIONS: &str = "sessions";

/// The space of their pieces.
pub const PIECES: &str = "session_pieces";

/// The counter that gives pins and removals their numbers.
const NUMBERS: &str = "numbers";

/// How long a session is reserved for one change of it, which takes milliseconds; renewed if it takes
/// longer.
pub(crate) const HOLD: Duration = Duration::from_secs(5);

/// How long to wait for somebody else's change: longer than a reservation holds.
const WAIT: Duration = Duration::from_secs(8);

/// How long a memory may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// So many pieces are stored at a time.
const AT_A_TIME: usize = 64;

/// A memory with sessions in it.
pub(crate) struct Store {
    pub(crate) memory: Arc<dyn Memory>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) seals: Arc<Seals>,
}

/// The session's record as it lies there.
pub(crate) type Found = Option<Record>;

impl Store {
    /// Waits for the memory; `doing` begins the message if it fails.
    pub(crate) async fn ask<T: Send>(
        &self,
        id: &str,
        doing: &str,
        answer: Answer<'_, T>,
    ) -> Result<T, Error> {
        answer
            .within(PATIENCE)
            .await
            .map_err(|error| Error::memory(id, doing, error))
    }

    pub(crate) fn location(&self) -> &str {
        &self.memory.about().location
    }

    /// What to say of a record that cannot be read.
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

    /// The session's own record.
    pub(crate) async fn head(&self, id: &str) -> Result<Found, Error> {
        let found = self.memory.get(SESSIONS, id, &[]);
        Ok(self.ask(id, "reading", found).await?.record)
    }

    /// A number that nobody else gets.
    pub(crate) async fn number(&self, id: &str) -> Result<u64, Error> {
        let raised = self.memory.add(PIECES, &[(NUMBERS, 1)]);
        let raised = self.ask(id, "writing", raised).await?;
        Ok(raised[0])
    }

    /// The right to change the session, waited for while somebody else has it.
    pub(crate) async fn reserve(&self, id: &str) -> Result<Lease, Error> {
        let began = tokio::time::Instant::now();
        let labels = [id_label(id)];
        let mut pause = Duration::from_millis(1);
        loop {
            let reserving = self.memory.reserve(SESSIONS, id, &labels, HOLD);
            let left = match self.ask(id, "writing", reserving).await? {
                Reserved::Held(lease) => return Ok(lease),
                Reserved::Busy { left, .. } => left,
            };
            if began.elapsed() >= WAIT {
                return Err(Error::new(
                    ErrorKind::Busy,
                    id,
                    format!(
                        "another process has been writing to the session `{id}` for \
                         {WAIT:?}: try again"
                    ),
                ));
            }
            tokio::time::sleep(pause.min(left.max(Duration::from_millis(1)))).await;
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }

    /// Does work that may take longer than a reservation holds, renewing it meanwhile.
    pub(crate) async fn holding<T>(
        &self,
        lease: &Lease,
        work: impl Future<Output = Result<T, Error>> + Send,
    ) -> Result<T, Error> {
        let id = lease.key.as_str();
        let renewing = async {
            loop {
                tokio::time::sleep(HOLD / 3).await;
                let renewed = self.memory.renew(lease, HOLD);
                match self.ask(id, "writing", renewed).await {
                    Ok(true) => {}
                    Ok(false) => return self.overtaken(id),
                    Err(error) => return error,
                }
            }
        };
        match select(pin!(work), pin!(renewing)).await {
            Either::Left((done, _)) => done,
            Either::Right((error, _)) => Err(error),
        }
    }

    /// What to say if the reservation was lost.
    pub(crate) fn overtaken(&self, id: &str) -> Error {
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

    /// Stores the session's own record, and ends the reservation; false if it had ended before.
    pub(crate) async fn put_head(
        &self,
        saved: &Saved,
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
        Ok(stored != Put::Overtaken)
    }

    /// Stores a pin and the pieces that it is to hold, and makes sure of them.
    pub(crate) async fn put_pieces(
        &self,
        id: &str,
        pin: u64,
        tip: Digest,
        fresh: &[Fresh],
    ) -> Result<(), Error> {
        let labels = vec![parent_label(tip)];
        let pin = new_record(pin_key(id, pin), bytes::Bytes::new(), labels);
        let pinning = self.memory.put(PIECES, pin, None, &[]);
        let storing = async {
            for some in fresh.chunks(AT_A_TIME) {
                let all = join_all(some.iter().map(|piece| self.make_sure(id, piece))).await;
                all.into_iter().collect::<Result<(), Error>>()?;
            }
            Ok(())
        };
        try_join(self.ask(id, "writing", pinning), storing).await?;
        for piece in fresh.iter().rev() {
            self.make_sure(id, piece).await?;
        }
        Ok(())
    }

    /// Stores a piece unless it is there and nobody is about to erase it.
    async fn make_sure(&self, id: &str, piece: &Fresh) -> Result<(), Error> {
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

    /// A stored piece.
    pub(crate) async fn piece(&self, id: &str, key: Digest) -> Result<Option<Stored>, Error> {
        let text = piece_key(key);
        let found = self.memory.get(PIECES, &text, &[]);
        let Some(record) = self.ask(id, "reading", found).await?.record else {
            return Ok(None);
        };
        let stored = Stored::decode(key, &record.value);
        stored.map(Some).map_err(|why| self.unreadable(id, why))
    }

    /// The pins of a session, or some of them.
    pub(crate) async fn pins(&self, id: &str, page: Page<'_>) -> Result<Vec<Record>, Error> {
        let prefix = format!("{PIN}{id}/");
        let filter = Filter {
            prefix: &prefix,
            ..Filter::default()
        };
        let found = self.memory.find(PIECES, &filter, page);
        Ok(self.ask(id, "reading", found).await?.records)
    }

    /// Whether a session has other pins than this one.
    pub(crate) async fn has_other_pins(&self, id: &str, pin: u64) -> Result<bool, Error> {
        let (pins, kept) = (self.pins(id, Page::keys(2)).await?, pin_key(id, pin));
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

/// Of one length, so that none begins with another.
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
