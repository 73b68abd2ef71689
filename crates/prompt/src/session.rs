//! A session: a prompt that is saved before it is sent.

use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::{Digest, Millis};
use cachalot_model::Message;
use cachalot_model::wire::{Rendered, Wire};
use cachalot_store::Lease;
use futures_util::future::{join, try_join};
use serde_json::{Map, Value};

use crate::chain::{Node, Prompt};
use crate::continuation::{BreakCause, PrefixBreak, divergence};
use crate::error::{Error, ErrorKind};
use crate::head::{SessionHead, SessionTotals};
use crate::namespace::Namespace;
use crate::pins::PinNumbers;
use crate::record::{EncodedPiece, SessionRecord};
use crate::store::SessionStore;
use crate::tail::Tail;

/// A conversation, saved in a store as the bytes that are sent.
///
/// Once [`Session::append`] returns, the message is durable: every process that opens the session
/// afterwards has the identical prefix. An append that failed or was canceled is not part of this
/// session, and the next append replaces it. (It may have become durable; a process that opens the
/// session in between then sees it as the last message.)
///
/// Two open instances of the same session cannot interleave: the second one to make a change gets
/// [`ErrorKind::Conflict`], and nothing is written.
///
/// A session is the user's own record of the sent data and contains it unchanged, including secrets:
/// leaving them out would change the prefix. [`Session::holds_secrets`] reports if a known secret is in
/// it, for programs that show or export it.
pub struct Session {
    /// The metadata. Changes are saved with the next append or save; the name does not change.
    pub head: SessionHead,
    /// The conversation. May be replaced by a prompt made from it by appending; [`Session::save`] saves
    /// it.
    pub prompt: Prompt,
    /// The usage so far. Changes are saved with the next append or save.
    pub totals: SessionTotals,
    /// The cache-relevant parameters of the last request, to check if the next one continues it. Saved
    /// with the next append or save.
    pub namespace: Option<Namespace>,
    pub(crate) id: String,
    /// The prompt in the store.
    pub(crate) saved: Prompt,
    pub(crate) saved_at: Millis,
    /// The session's own record in the store, unless another writer changed it.
    pub(crate) record: Option<Bytes>,
    /// A record that may be in the store instead: the outcome of its write is unknown.
    pub(crate) attempted: Option<Bytes>,
    pub(crate) saves: u64,
    /// The number of the pin that holds the saved prompt; 0 if the prompt is empty.
    pub(crate) pin: u64,
    pub(crate) numbers: PinNumbers,
    pub(crate) pending_cleanup: PendingCleanup,
    pub(crate) holds_secrets: bool,
    pub(crate) lease: Option<Lease>,
    pub(crate) store: Arc<SessionStore>,
}

/// Data that may have to be erased, in addition to the pins in [`PinNumbers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PendingCleanup {
    Unknown,
    /// Void pins and the pieces that only they hold: a change was not completed, or it replaced the
    /// prompt.
    Yes,
    /// Only this void pin; the saved prompt needs the pieces that it holds.
    Pin(u64),
    No,
}

/// The provider and model that a conversation continues with.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The provider's name.
    pub provider: &'a str,
    /// The model name, as its provider knows it.
    pub model: &'a str,
    /// The base URL, if it differs from the provider's default.
    pub base_url: Option<&'a str>,
    /// The tools, rendered for the provider.
    pub tools: &'a [Rendered],
    /// The system text, rendered for the provider.
    pub system: &'a [Rendered],
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// The new prompt begins with the saved one.
    Extend,
    /// The new prompt replaces the saved one.
    Replace,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("head", &self.head)
            .field("prompt", &self.prompt)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// Appends a message, rendered as `pieces`, durably. Other changes (head, totals, namespace) are
    /// saved with it.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`], [`ErrorKind::Removed`], [`ErrorKind::TooLarge`], or an error of the
    /// store; the session is then unchanged.
    pub async fn append(
        &mut self,
        message: Arc<Message>,
        pieces: &[Rendered],
    ) -> Result<(), Error> {
        let longer = self.prompt.append(pieces, message);
        self.commit(longer, self.head.clone(), Change::Extend).await
    }

    /// Appends several messages, each rendered as pieces, atomically. `notes` replace those of the head.
    ///
    /// # Errors
    /// Those of [`Session::append`]; the session is then unchanged.
    pub async fn append_all(
        &mut self,
        messages: &[(Arc<Message>, Vec<Rendered>)],
        notes: Map<String, Value>,
    ) -> Result<(), Error> {
        let longer = with_all(self.prompt.clone(), messages);
        self.commit(longer, self.head_with(notes), Change::Extend)
            .await
    }

    fn head_with(&self, notes: Map<String, Value>) -> SessionHead {
        SessionHead {
            notes,
            ..self.head.clone()
        }
    }

    /// Saves all changes: the prompt (which may have been extended by several messages), head, totals
    /// and namespace.
    ///
    /// # Errors
    /// Those of [`Session::append`], and [`ErrorKind::NotAnExtension`].
    pub async fn save(&mut self) -> Result<(), Error> {
        self.commit(self.prompt.clone(), self.head.clone(), Change::Extend)
            .await
    }

    /// The end of the conversation: shows what has to be appended before it can be sent.
    #[must_use]
    pub fn tail(&self) -> Tail {
        Tail::of(&self.prompt)
    }

    /// True if a known secret was in the conversation when it was written.
    #[must_use]
    pub fn holds_secrets(&self) -> bool {
        self.holds_secrets
    }

    /// Renders the conversation again from its messages: for another format, provider or model, or with
    /// other tools or another system text. Saves the result, and returns the position at which it breaks
    /// the prefix that was sent before; `None` if it does not.
    ///
    /// Reasoning and other blocks that only another format can express stay in the messages. They are
    /// sent again if the conversation returns to that format.
    ///
    /// # Errors
    /// Those of [`Session::append`], and [`ErrorKind::Inexpressible`]; the session is then unchanged.
    pub async fn rerender(
        &mut self,
        wire: &dyn Wire,
        target: Target<'_>,
    ) -> Result<Option<PrefixBreak>, Error> {
        self.rerender_all(self.prompt.messages(), wire, target)
            .await
    }

    /// Like [`Session::rerender`], but with other messages, for targets that would refuse some of the
    /// session's own.
    ///
    /// # Errors
    /// Those of [`Session::rerender`].
    pub async fn rerender_as(
        &mut self,
        messages: Vec<Message>,
        wire: &dyn Wire,
        target: Target<'_>,
    ) -> Result<Option<PrefixBreak>, Error> {
        let messages = messages.into_iter().map(Arc::new).collect();
        self.rerender_all(messages, wire, target).await
    }

    async fn rerender_all(
        &mut self,
        messages: Vec<Arc<Message>>,
        wire: &dyn Wire,
        target: Target<'_>,
    ) -> Result<Option<PrefixBreak>, Error> {
        let mut prompt = Prompt::begin(target.tools, target.system);
        for message in messages {
            let pieces = wire
                .message(&message)
                .map_err(|error| self.inexpressible(wire, error))?;
            prompt = prompt.append(&pieces, message);
        }
        let mut head = self.head.clone();
        head.format = wire.format();
        head.provider = target.provider.to_owned();
        head.model = target.model.to_owned();
        head.base_url = target.base_url.map(str::to_owned);
        let broken = if uses_other_cache(&self.head, &head) {
            break_at_start(
                &self.prompt,
                BreakCause::Rerendered {
                    from: self.head.format,
                    to: head.format,
                },
            )
        } else {
            divergence(&self.prompt, &prompt)
        };
        self.commit(prompt, head, Change::Replace).await?;
        Ok(broken)
    }

    /// Removes all messages. The tools and the system text keep their bytes. `notes` replace those of
    /// the head in the same step.
    ///
    /// # Errors
    /// Those of [`Session::append`]; the session is then unchanged.
    pub async fn restart(&mut self, notes: Map<String, Value>) -> Result<(), Error> {
        let head = self.head_with(notes);
        self.commit(self.prompt.frozen(), head, Change::Replace)
            .await
    }

    /// Replaces the last `unsent` messages, which must never have been sent, by other messages, each
    /// rendered as pieces. Sent messages stay. `notes` replace those of the head in the same step.
    ///
    /// # Errors
    /// Those of [`Session::append`]; the session is then unchanged.
    pub async fn amend(
        &mut self,
        unsent: usize,
        messages: &[(Arc<Message>, Vec<Rendered>)],
        notes: Map<String, Value>,
    ) -> Result<(), Error> {
        let prompt = with_all(self.prompt.without_last(unsent), messages);
        self.commit(prompt, self.head_with(notes), Change::Replace)
            .await
    }

    /// Removes the last `messages` messages, sent or not. The pieces before them keep their bytes.
    /// `notes` replace those of the head in the same step.
    ///
    /// # Errors
    /// Those of [`Session::append`]; the session is then unchanged.
    pub async fn retract(
        &mut self,
        messages: usize,
        notes: Map<String, Value>,
    ) -> Result<(), Error> {
        let prompt = self.prompt.without_last(messages);
        self.commit(prompt, self.head_with(notes), Change::Replace)
            .await
    }

    fn inexpressible(&self, wire: &dyn Wire, error: cachalot_model::Error) -> Error {
        let (id, format) = (&self.id, wire.format());
        let message = format!(
            "the session `{id}` cannot go on in the format {format:?}: {error}; go on with the \
             provider that it was held with, or begin a new session"
        );
        Error {
            source: Some(Arc::new(error)),
            ..Error::new(ErrorKind::Inexpressible, id, message)
        }
    }

    /// Writes the prompt and the head to the store, then updates this session.
    pub(crate) async fn commit(
        &mut self,
        prompt: Prompt,
        head: SessionHead,
        change: Change,
    ) -> Result<(), Error> {
        let fresh = self.fresh(&prompt, change)?;
        // The lease of a canceled commit.
        if let Some(lease) = self.lease.clone() {
            self.store.release(lease).await?;
            self.lease = None;
        }
        let repin = !prompt.is_empty() && (!fresh.is_empty() || self.attempted.is_some());
        let (store, id) = (Arc::clone(&self.store), self.id.clone());
        let numbers = &mut self.numbers;
        let number = async {
            match repin {
                true => numbers.next(&store, &id).await,
                false => Ok(self.pin),
            }
        };
        let (lease, pin) = join(store.reserve(&id), number).await;
        let lease = lease?;
        self.lease = Some(lease.clone());
        let pin = pin?;
        let write = Write {
            prompt,
            head,
            fresh,
            repin,
            pin,
            change,
        };
        if let Err(error) = self.write(write, &lease).await {
            if store.release(lease).await.is_ok() {
                self.lease = None;
            }
            return Err(error);
        }
        self.lease = None;
        self.clean_up().await;
        Ok(())
    }

    /// Erases void data after a change was saved. A failure is ignored: the next change tries again.
    async fn clean_up(&mut self) {
        let tidied = match self.pending_cleanup {
            PendingCleanup::Unknown | PendingCleanup::No => return,
            PendingCleanup::Yes => self.store.clear(&self.id).await.map(drop),
            PendingCleanup::Pin(pin) => self.store.unpin(&self.id, pin).await,
        };
        if tidied.is_ok() {
            self.pending_cleanup = PendingCleanup::No;
        }
    }

    /// The records of the pieces that may be missing in the store.
    fn fresh(&self, prompt: &Prompt, change: Change) -> Result<Vec<EncodedPiece>, Error> {
        let base = match change {
            Change::Extend => &self.saved,
            Change::Replace => &Prompt::default(),
        };
        let nodes = prompt.since(base).ok_or_else(|| {
            let id = &self.id;
            Error::new(
                ErrorKind::NotAnExtension,
                id,
                format!(
                    "the session `{id}` can only be appended to: the prompt does not begin with \
                     what is saved"
                ),
            )
        })?;
        nodes
            .into_iter()
            .map(|node: &Arc<Node>| EncodedPiece::of(node))
            .collect::<Result<_, _>>()
            .map_err(|error| self.unwritable(error))
    }

    fn unwritable(&self, error: serde_json::Error) -> Error {
        let id = &self.id;
        let message = format!("the session `{id}` cannot be written as JSON: {error}");
        Error {
            source: Some(Arc::new(error)),
            ..Error::new(ErrorKind::Inexpressible, id, message)
        }
    }

    /// Writes under the session's lease, then updates this session.
    async fn write(&mut self, write: Write, lease: &Lease) -> Result<(), Error> {
        let store = Arc::clone(&self.store);
        self.check().await?;
        if self.pending_cleanup == PendingCleanup::Unknown {
            let others = store.has_other_pins(&self.id, self.pin).await?;
            self.pending_cleanup = if others {
                PendingCleanup::Yes
            } else {
                PendingCleanup::No
            };
        }
        // An incomplete write leaves data behind.
        let pending_cleanup = std::mem::replace(&mut self.pending_cleanup, PendingCleanup::Yes);
        if let (true, Some(tip)) = (write.repin, write.prompt.record()) {
            self.write_pieces(&write, tip, lease).await?;
        }
        let saved = self.saved(&write);
        let record = saved.encode().map_err(|error| self.unwritable(error))?;
        self.attempted = Some(record.clone());
        if !store.put_head(&saved, record.clone(), lease).await? {
            // The lease was lost. Reports the removal of the session if that was the cause.
            self.check().await?;
            return Err(store.lease_lost(&self.id));
        }
        self.attempted = None;
        self.record = Some(record);
        self.pending_cleanup = pending_cleanup;
        self.adopt(saved, write);
        Ok(())
    }

    /// Writes the pieces and their pin, and erases pins that are known to be void.
    async fn write_pieces(
        &mut self,
        write: &Write,
        tip: Digest,
        lease: &Lease,
    ) -> Result<(), Error> {
        let (store, id) = (&self.store, &self.id);
        let void = self.numbers.void(self.pin);
        let unpinning = async {
            match void {
                Some(ten) => store.unpin_ten(id, ten).await,
                None => Ok(()),
            }
        };
        let pinning = store.put_pieces(id, write.pin, tip, &write.fresh);
        store.holding(lease, try_join(pinning, unpinning)).await?;
        if void.is_some() {
            self.numbers.erased(self.pin);
        }
        Ok(())
    }

    /// Updates this session to the written state.
    fn adopt(&mut self, saved: SessionRecord, write: Write) {
        if write.repin {
            // Pieces that only the old pin held have to be erased, too. The pin of the opened session
            // was not allocated here, so it is erased separately.
            let foreign = self.pin != 0 && !self.numbers.was_allocated(self.pin);
            if write.change == Change::Replace {
                self.pending_cleanup = PendingCleanup::Yes;
            } else if foreign && self.pending_cleanup == PendingCleanup::No {
                self.pending_cleanup = PendingCleanup::Pin(self.pin);
            }
            self.pin = write.pin;
        }
        self.saves = saved.saves;
        self.saved_at = saved.saved;
        self.holds_secrets = saved.holds_secrets;
        self.head = saved.head;
        self.saved = write.prompt.clone();
        self.prompt = write.prompt;
    }

    fn saved(&self, write: &Write) -> SessionRecord {
        let prompt = &write.prompt;
        let secret_set = &self.store.secret_set;
        let secret = |piece: &EncodedPiece| secret_set.occurs_in(&piece.value);
        let holds_secrets =
            self.holds_secrets || (!secret_set.is_empty() && write.fresh.iter().any(secret));
        let mut head = write.head.clone();
        head.id.clone_from(&self.id);
        SessionRecord {
            head,
            tip: prompt.record(),
            prompt: prompt.tip().map(|id| id.0),
            pin: write.pin,
            pieces: prompt.len() as u64,
            messages: prompt.messages_count(),
            bytes: prompt.bytes(),
            totals: self.totals,
            namespace: self.namespace.clone(),
            holds_secrets,
            saves: self.saves + 1,
            saved: self.store.clock.now(),
        }
    }

    /// Checks that the store has the state that this session expects.
    async fn check(&mut self) -> Result<(), Error> {
        let found = self.store.head(&self.id).await?.map(|record| record.value);
        let id = &self.id;
        let (kind, message) = match (found, &self.record) {
            (None, None) => return Ok(()),
            (Some(found), Some(ours)) if found == *ours => return Ok(()),
            (Some(found), _) if self.attempted.as_ref() == Some(&found) => {
                self.record = Some(found);
                self.pending_cleanup = PendingCleanup::Yes;
                return Ok(());
            }
            (Some(_), None) => (
                ErrorKind::Exists,
                format!("there is a session `{id}` already: open it, or choose another name"),
            ),
            (None, Some(_)) => (
                ErrorKind::Removed,
                format!("the session `{id}` was removed after it was opened here"),
            ),
            (Some(_), Some(_)) => (
                ErrorKind::Conflict,
                format!(
                    "the session `{id}` was continued elsewhere after it was opened here; nothing \
                     was written: open it again"
                ),
            ),
        };
        Err(Error::new(kind, id, message))
    }
}

/// Appends messages to a prompt.
fn with_all(prompt: Prompt, messages: &[(Arc<Message>, Vec<Rendered>)]) -> Prompt {
    messages.iter().fold(prompt, |prompt, (message, pieces)| {
        prompt.append(pieces, Arc::clone(message))
    })
}

/// A change to write.
struct Write {
    prompt: Prompt,
    head: SessionHead,
    fresh: Vec<EncodedPiece>,
    /// True if a new pin is needed.
    repin: bool,
    pin: u64,
    change: Change,
}

/// True if the target has another provider cache.
fn uses_other_cache(from: &SessionHead, to: &SessionHead) -> bool {
    (from.format, &from.provider, &from.model, &from.base_url)
        != (to.format, &to.provider, &to.model, &to.base_url)
}

/// Returns a break at the first piece; `None` if nothing was sent.
fn break_at_start(prompt: &Prompt, cause: BreakCause) -> Option<PrefixBreak> {
    let first = prompt.backwards().last()?;
    Some(PrefixBreak {
        level: first.level,
        index: 0,
        cause,
    })
}
