//! The sessions in a store.

use std::collections::HashMap;
use std::sync::Arc;

use cachalot_core::{Clock, Digest, Millis, SecretSet};
use cachalot_store::{LabelMatch, Order, PageRequest, Pages, Record, RecordFilter, Store};

use crate::chain::{NodeId, Prompt};
use crate::error::{Error, ErrorKind};
use crate::head::{SessionHead, SessionTotals, check_name};
use crate::record::{SessionRecord, StoredPiece, restore};
use crate::removal::{Removal, SweepReport};
use crate::session::{Change, Session};
use crate::store::{OPERATION_TIMEOUT, SESSIONS, SessionStore};
use crate::tree::{PrefixTree, PrefixTreeBuilder};

/// Maximum number of candidates in an error message.
const MAX_CANDIDATES: u32 = 10;

/// Maximum number of reads of a session that changes while it is read.
const MAX_READ_ATTEMPTS: usize = 8;

/// Keys of pieces that were already read, and their indexes in a [`PrefixTreeBuilder`].
type Known = HashMap<Digest, usize>;

/// A session that was read.
struct ReadSession {
    record: Record,
    saved: SessionRecord,
    pieces: Vec<StoredPiece>,
}

/// The sessions in a store, which may be shared with other processes.
#[derive(Clone)]
pub struct Sessions {
    store: Arc<SessionStore>,
}

/// Selects the sessions to list.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionFilter<'a> {
    /// Only sessions of this agent.
    pub agent: Option<&'a str>,
    /// Only sessions of this workspace.
    pub workspace: Option<&'a str>,
    /// Only sessions that were forked from this session, or to which it delegated.
    pub parent: Option<&'a str>,
    /// Maximum number of sessions; the most recently saved ones are listed.
    pub limit: Option<usize>,
}

/// A session in a list.
#[derive(Debug, Clone)]
pub struct SessionSummary {
    /// The name.
    pub id: String,
    /// The time of the last save.
    pub saved: Millis,
    /// The overview, or the reason why the session cannot be read; such a session can still be removed.
    pub state: Result<SessionOverview, Error>,
}

/// A session without its conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionOverview {
    /// The metadata.
    pub head: SessionHead,
    /// The usage so far.
    pub totals: SessionTotals,
    /// The number of messages.
    pub messages: u64,
    /// The number of pieces of its prompt.
    pub pieces: u64,
    /// Their total bytes.
    pub bytes: u64,
    /// The id of the whole prompt; `None` if it is empty.
    pub prompt: Option<NodeId>,
    /// True if a known secret was in the conversation when it was written.
    pub holds_secrets: bool,
}

impl Sessions {
    /// Opens the sessions in `backend`. `secret_set` only serve to record which sessions contain secrets.
    #[must_use]
    pub fn new(backend: Arc<dyn Store>, clock: Arc<dyn Clock>, secret_set: Arc<SecretSet>) -> Self {
        let store = SessionStore {
            backend,
            clock,
            secret_set,
        };
        Self {
            store: Arc::new(store),
        }
    }

    /// Creates a session without a prompt.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`], [`ErrorKind::BadName`], or an error of the store.
    pub async fn create(&self, head: SessionHead) -> Result<Session, Error> {
        self.create_from(head, Prompt::default()).await
    }

    /// Creates a session that begins with a prompt: a frozen part ([`Prompt::begin`]), or a fork of
    /// another session's prompt. Pieces that are already in the store are shared.
    ///
    /// # Errors
    /// Those of [`Sessions::create`].
    pub async fn create_from(
        &self,
        mut head: SessionHead,
        prompt: Prompt,
    ) -> Result<Session, Error> {
        check_name(&head.id)?;
        head.created = self.store.clock.now();
        let mut session = Session {
            id: head.id.clone(),
            head: head.clone(),
            prompt: Prompt::default(),
            totals: SessionTotals::default(),
            last_usage: None,
            namespace: None,
            saved: Prompt::default(),
            saved_at: head.created,
            record: None,
            attempted: Vec::new(),
            saves: 0,
            replaced: Vec::new(),
            has_pins: false,
            // Without randomness, the times of creation have to differ.
            instance: getrandom::u64().unwrap_or_default(),
            holds_secrets: false,
            store: Arc::clone(&self.store),
        };
        // The write expects no record: of two processes that create a session of this name, one fails.
        session.commit(prompt, head, Change::Extend).await?;
        Ok(session)
    }

    /// Opens the session with this name, or the only one whose name begins with it; `None` if there is
    /// none. Its prompt is the saved one, byte for byte.
    ///
    /// # Errors
    /// [`ErrorKind::Ambiguous`], [`ErrorKind::Damaged`], [`ErrorKind::TooNew`], or an error of the
    /// store.
    pub async fn open(&self, id: &str) -> Result<Option<Session>, Error> {
        let Some(id) = self.resolve(id).await? else {
            return Ok(None);
        };
        let Some(ReadSession {
            record,
            saved,
            pieces,
        }) = self.read(&id, &HashMap::new()).await?
        else {
            return Ok(None);
        };
        let prompt = pieces
            .into_iter()
            .fold(Prompt::default(), |prompt, piece| restore(&prompt, piece));
        self.is_named(&id, &saved, prompt.tip(), prompt.len() as u64)?;
        Ok(Some(self.session(id, saved, record, prompt)))
    }

    /// Reads a consistent state of the session with exactly this name; `None` if there is none. Only
    /// reads the pieces after the `known` ones.
    async fn read(&self, id: &str, known: &Known) -> Result<Option<ReadSession>, Error> {
        let mut missing = None;
        for _ in 0..MAX_READ_ATTEMPTS {
            let Some(record) = self.store.head(id).await? else {
                return Ok(None);
            };
            // Pieces may be erased while they are read, but then the record changes or disappears as
            // well.
            if missing.as_ref() == Some(&record.value) {
                break;
            }
            let saved = SessionRecord::decode(&record.value);
            let saved = saved.map_err(|why| self.store.unreadable(id, why))?;
            match self.pieces(id, &saved, known).await? {
                Some(pieces) => {
                    return Ok(Some(ReadSession {
                        record,
                        saved,
                        pieces,
                    }));
                }
                None => missing = Some(record.value),
            }
        }
        Err(self.damaged(id, "a piece of it is missing"))
    }

    fn damaged(&self, id: &str, what: &str) -> Error {
        Error::damaged(id, self.store.location(), what)
    }

    fn session(&self, id: String, saved: SessionRecord, record: Record, prompt: Prompt) -> Session {
        Session {
            id,
            head: saved.head,
            saved: prompt.clone(),
            saved_at: saved.saved,
            prompt,
            totals: saved.totals,
            last_usage: saved.last_usage,
            namespace: saved.namespace,
            record: Some(record.value),
            attempted: Vec::new(),
            saves: saved.saves,
            replaced: saved.replaced.into_iter().map(|tip| tip.0).collect(),
            has_pins: saved.pin != 0,
            instance: match saved.pin {
                0 => saved.instance,
                pin => pin,
            },
            holds_secrets: saved.holds_secrets,
            store: Arc::clone(&self.store),
        }
    }

    /// Reads the pieces of a saved prompt after the last known one, in order; `None` if one is missing.
    async fn pieces(
        &self,
        id: &str,
        saved: &SessionRecord,
        known: &Known,
    ) -> Result<Option<Vec<StoredPiece>>, Error> {
        let mut pieces: Vec<StoredPiece> = Vec::new();
        let mut next: Option<Digest> = saved.tip.map(|tip| tip.0);
        while let Some(key) = next.filter(|key| !known.contains_key(key)) {
            let Some(piece) = self.store.piece(id, key).await? else {
                return Ok(None);
            };
            next = piece.parent;
            pieces.push(piece);
            // Damaged records may refer to each other in a circle, so the number of pieces bounds the walk.
            if pieces.len() as u64 > saved.pieces {
                return Err(self.damaged(id, "it has more pieces than its record says"));
            }
        }
        pieces.reverse();
        if pieces.windows(2).any(|pair| pair[0].level > pair[1].level) {
            return Err(self.damaged(id, "its pieces are not in order"));
        }
        Ok(Some(pieces))
    }

    /// Checks that the pieces are the prompt that the session's record names.
    fn is_named(
        &self,
        id: &str,
        saved: &SessionRecord,
        tip: Option<NodeId>,
        pieces: u64,
    ) -> Result<(), Error> {
        if tip == saved.prompt_id() && pieces == saved.pieces {
            return Ok(());
        }
        Err(self.damaged(id, "its pieces are not those that its record names"))
    }

    /// Returns the full name of the session with this name, or of the only one whose name begins with
    /// it.
    ///
    /// # Errors
    /// [`ErrorKind::Ambiguous`], whose message lists candidates, or an error of the store.
    pub async fn resolve(&self, id: &str) -> Result<Option<String>, Error> {
        if check_name(id).is_err() {
            return Ok(None);
        }
        // An exact name is not ambiguous, also if other names begin with it.
        if self.store.head(id).await?.is_some() {
            return Ok(Some(id.to_owned()));
        }
        let filter = RecordFilter {
            prefix: id,
            ..RecordFilter::default()
        };
        let page = PageRequest::keys(MAX_CANDIDATES + 1);
        let found = self.store.backend.find(SESSIONS, &filter, page);
        let found = self.store.ask(id, "looking for", found).await?.records;
        let mut names = found.into_iter().map(|record| record.key);
        match (names.next(), names.len()) {
            (first, 0) => Ok(first),
            (first, _) => Err(ambiguous(id, first.into_iter().chain(names))),
        }
    }

    /// Lists sessions, the most recently saved first. A session with a damaged record is listed with its
    /// error.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn list(&self, listing: &SessionFilter<'_>) -> Result<Vec<SessionSummary>, Error> {
        let criteria = [
            ("agent", listing.agent),
            ("workspace", listing.workspace),
            ("parent", listing.parent),
        ];
        let labels: Vec<LabelMatch<'_>> = criteria
            .into_iter()
            .filter_map(|(name, value)| {
                Some(LabelMatch::Is {
                    name,
                    value: value?,
                })
            })
            .collect();
        let filter = RecordFilter {
            labels: &labels,
            ..RecordFilter::default()
        };
        let pages = Pages::new(
            &*self.store.backend,
            SESSIONS,
            filter,
            PageRequest::first(256),
        );
        let mut pages = pages.within(OPERATION_TIMEOUT);
        let mut summaries: Vec<SessionSummary> = Vec::new();
        while let Some(page) = pages
            .next()
            .await
            .map_err(|error| Error::store("", "listing the sessions", error))?
        {
            summaries.extend(page.records.into_iter().map(|record| self.summary(record)));
        }
        summaries.sort_by(|one, other| (other.saved, &one.id).cmp(&(one.saved, &other.id)));
        summaries.truncate(listing.limit.unwrap_or(usize::MAX));
        Ok(summaries)
    }

    /// True if the last saved session of the same agent used the same model, began with the same tools
    /// and system text, and was saved at most `within` milliseconds ago.
    ///
    /// # Errors
    /// An error of the store, or that session is damaged.
    pub async fn has_recent(
        &self,
        head: &SessionHead,
        prompt: &Prompt,
        within: Millis,
    ) -> Result<bool, Error> {
        let labels = [LabelMatch::Is {
            name: "agent",
            value: &head.agent,
        }];
        let filter = RecordFilter {
            labels: &labels,
            order: Order::Newest,
            ..RecordFilter::default()
        };
        let found = self
            .store
            .backend
            .find(SESSIONS, &filter, PageRequest::first(1));
        let found = self.store.ask("", "listing the sessions", found).await?;
        let Some(last) = found.records.into_iter().next() else {
            return Ok(false);
        };
        let SessionSummary { id, saved, state } = self.summary(last);
        let asked = |head: &SessionHead| (head.provider.clone(), head.model.clone(), head.format);
        let is_alike = state.is_ok_and(|last| asked(&last.head) == asked(head));
        if !is_alike || self.store.clock.now().saturating_sub(saved) > within {
            return Ok(false);
        }
        let frozen = |prompt: &Prompt| prompt.frozen().tip();
        let session = self.open(&id).await?;
        Ok(session.is_some_and(|session| {
            frozen(&session.prompt).is_some() && frozen(&session.prompt) == frozen(prompt)
        }))
    }

    fn summary(&self, record: Record) -> SessionSummary {
        match SessionRecord::decode(&record.value) {
            Ok(saved) => SessionSummary {
                id: record.key,
                saved: saved.saved,
                state: Ok(SessionOverview {
                    prompt: saved.prompt_id(),
                    head: saved.head,
                    totals: saved.totals,
                    messages: saved.messages,
                    pieces: saved.pieces,
                    bytes: saved.bytes,
                    holds_secrets: saved.holds_secrets,
                }),
            },
            Err(why) => SessionSummary {
                state: Err(self.store.unreadable(&record.key, why)),
                id: record.key,
                saved: record.updated,
            },
        }
    }

    /// Returns the prompts of sessions as a tree of their common prefixes, in the order of creation.
    /// Each piece is read once. At most the pieces that one session adds are in memory at a time; the
    /// memory of the result is proportional to the number of pieces, not to their bytes.
    ///
    /// # Errors
    /// Errors of the store. A damaged session is listed with its error.
    pub async fn tree(&self, listing: &SessionFilter<'_>) -> Result<PrefixTree, Error> {
        let mut listed = self.list(listing).await?;
        let created =
            |summary: &SessionSummary| summary.state.as_ref().map_or(0, |state| state.head.created);
        listed.sort_by(|one, other| (created(one), &one.id).cmp(&(created(other), &other.id)));
        let (mut tree_builder, mut known) = (
            PrefixTreeBuilder::new(Arc::clone(&self.store.secret_set)),
            Known::new(),
        );
        let mut unreadable = Vec::new();
        for SessionSummary { id, state, .. } in listed {
            let planted = match state {
                Ok(_) => self.add_to_tree(&id, &mut tree_builder, &mut known).await,
                Err(error) => Err(error),
            };
            match planted {
                Ok(()) => {}
                Err(error) if matches!(error.kind, ErrorKind::Damaged | ErrorKind::TooNew) => {
                    unreadable.push((id, error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(PrefixTree {
            unreadable,
            ..tree_builder.tree()
        })
    }

    /// Adds a session to a forest, if it still exists. `known` are the records that are already in it.
    async fn add_to_tree(
        &self,
        id: &str,
        tree_builder: &mut PrefixTreeBuilder,
        known: &mut Known,
    ) -> Result<(), Error> {
        let Some(ReadSession { saved, pieces, .. }) = self.read(id, known).await? else {
            return Ok(());
        };
        let tip = saved.tip.map(|tip| tip.0);
        let root = pieces.first().map_or(tip, |piece| piece.parent);
        let root = root.and_then(|key| known.get(&key).copied());
        let before = root.map(|root| tree_builder.piece(root));
        let in_order = match (before, pieces.first()) {
            (Some(before), Some(first)) => before.level <= first.level,
            _ => true,
        };
        if !in_order {
            return Err(self.damaged(id, "its pieces are not in order"));
        }
        let mut ids = Vec::with_capacity(pieces.len());
        let mut tip = before.map(|before| before.id);
        for piece in &pieces {
            let id = NodeId::new(tip, piece.level, &piece.bytes);
            ids.push(id);
            tip = Some(id);
        }
        let depth = before.map_or(0, |before| u64::from(before.depth) + 1);
        // Before the pieces are added: a damaged session leaves none in the tree.
        self.is_named(id, &saved, tip, depth + ids.len() as u64)?;
        let mut end = root;
        for (piece, id) in pieces.iter().zip(ids) {
            let (bytes, source) = (piece.bytes.len(), piece.source.as_ref());
            let at = tree_builder.add(end, id, piece.level, bytes, source);
            known.insert(piece.key, at);
            end = Some(at);
        }
        tree_builder.end(id, end);
        Ok(())
    }

    /// Removes the session with exactly this name, damaged or not, and every piece that no other session
    /// needs; returns true if it existed. Other open instances get [`ErrorKind::Removed`] at their next
    /// change.
    ///
    /// # Errors
    /// Errors of the store. Pieces that no session needs may then be left; [`Sessions::sweep`] erases
    /// them.
    pub async fn remove(&self, id: &str) -> Result<bool, Error> {
        if check_name(id).is_err() {
            return Ok(false);
        }
        Removal(&self.store).remove(id).await
    }

    /// Erases data left behind by crashed processes: pieces that no session needs. The cost is
    /// proportional to the number of pieces. Safe to run concurrently with all other operations.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn sweep(&self) -> Result<SweepReport, Error> {
        Removal(&self.store).sweep().await
    }
}

impl std::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sessions")
            .field("location", &self.store.location())
            .finish()
    }
}

fn ambiguous(id: &str, names: impl Iterator<Item = String>) -> Error {
    let mut names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if names.len() > MAX_CANDIDATES as usize {
        names.pop();
        names.push("…".to_owned());
    }
    let names = names.join(", ");
    Error::new(
        ErrorKind::Ambiguous,
        id,
        format!("several sessions begin with `{id}`: {names}; give more of the name"),
    )
}
