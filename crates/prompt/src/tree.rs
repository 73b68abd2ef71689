//! The tree of prompts: what several of them begin with is in it once.
//!
//! A [`Forest`] takes prompts from anywhere and keeps a few numbers for each piece, never its bytes. A
//! [`Tree`] is what it comes to: runs of pieces that nobody branches off from, and who ends where.
//! Pieces are told apart by their [`NodeId`], which is the test that a provider's cache makes, too:
//! prompts share what is the same bytes from the first piece on. Whether a provider's cache is shared
//! depends on the model and the parameters as well.

use std::collections::HashMap;
use std::sync::Arc;

use cachalot_core::Seals;
use cachalot_core::secret::mask_credentials;
use cachalot_model::{Message, Role};

use crate::chain::{Level, Node, NodeId, Prompt};
use crate::error::Error;

/// The stated estimate: so many bytes of a piece make a token.
const BYTES_PER_TOKEN: u64 = 4;

/// Characters of the user's words that are kept as a label.
const LABEL: usize = 60;

/// Of so many bytes of the user's words, secrets are masked before the label is cut out of them.
const SEARCHED: usize = 2_048;

/// Prompts that become a [`Tree`]. Needs memory by the number of different pieces, not by their bytes.
#[derive(Debug, Clone, Default)]
pub struct Forest {
    /// A piece stands behind the one before it in the prompt.
    pieces: Vec<Piece>,
    index: HashMap<NodeId, usize>,
    /// The names of the prompts that end with a piece; without a piece, of those that are empty.
    ends: HashMap<Option<usize>, Vec<String>>,
    seals: Arc<Seals>,
}

/// What is kept of a piece.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) id: NodeId,
    pub(crate) level: Level,
    /// How many pieces stand before it.
    pub(crate) depth: u32,
    before: Option<usize>,
    bytes: u64,
    /// Up to the end of this piece.
    total: u64,
    is_message: bool,
    words: Option<Box<str>>,
}

impl Forest {
    /// Without a prompt. What `seals` knows is masked in the words that are kept as labels, as is
    /// whatever looks like a credential.
    #[must_use]
    pub fn new(seals: Arc<Seals>) -> Self {
        Self {
            seals,
            ..Self::default()
        }
    }

    /// Adds a prompt: the name of a session, or whatever tells it apart. Costs as much as the prompt
    /// has pieces that are not there yet. Several may have the same name.
    pub fn insert(&mut self, name: &str, prompt: &Prompt) {
        let is_new = |node: &&Node| !self.index.contains_key(&node.id);
        let fresh: Vec<&Node> = prompt.backwards().take_while(is_new).collect();
        let first = fresh.last().map_or(prompt.tip(), |node| {
            node.parent.as_ref().map(|node| node.id)
        });
        let known = first.and_then(|id| self.index.get(&id).copied());
        let end = fresh.into_iter().rev().fold(known, |before, node| {
            let source = node.source.as_ref();
            Some(self.add(before, node.id, node.level, node.bytes.len(), source))
        });
        self.end(name, end);
    }

    /// Adds a prompt of another client, in which every message is one piece. What the user says in it
    /// is told by `said`.
    pub fn insert_request(
        &mut self,
        name: &str,
        prompt: &Prompt,
        said: impl Fn(&Node) -> Option<String>,
    ) {
        self.insert(name, prompt);
        let messages = prompt
            .backwards()
            .take_while(|node| node.level == Level::Message);
        for node in messages {
            let piece = self
                .index
                .get(&node.id)
                .and_then(|at| self.pieces.get_mut(*at));
            // What was there already, is told already, and so is what stands before it.
            let Some(piece) = piece.filter(|piece| !piece.is_message) else {
                break;
            };
            piece.is_message = true;
            piece.words = said(node).and_then(|text| label(&text, &self.seals));
        }
    }

    /// Adds a piece behind another one, unless it is there; where it is.
    pub(crate) fn add(
        &mut self,
        before: Option<usize>,
        id: NodeId,
        level: Level,
        bytes: usize,
        source: Option<&Arc<Message>>,
    ) -> usize {
        if let Some(known) = self.index.get(&id) {
            return *known;
        }
        let (depth, total) = before.map_or((0, 0), |before| {
            let before = &self.pieces[before];
            (before.depth + 1, before.total)
        });
        let at = self.pieces.len();
        self.index.insert(id, at);
        self.pieces.push(Piece {
            id,
            level,
            depth,
            before,
            bytes: bytes as u64,
            total: total + bytes as u64,
            is_message: source.is_some(),
            words: source.and_then(|message| words(message, &self.seals)),
        });
        at
    }

    /// Notes that a prompt ends with this piece.
    pub(crate) fn end(&mut self, name: &str, piece: Option<usize>) {
        self.ends.entry(piece).or_default().push(name.to_owned());
    }

    /// How many different pieces it has.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    pub(crate) fn piece(&self, at: usize) -> &Piece {
        &self.pieces[at]
    }

    /// The tree of what was inserted. What was inserted first stands first among its like.
    #[must_use]
    pub fn tree(&self) -> Tree {
        let behind = Behind::of(&self.pieces);
        let mut runs: Vec<Run> = Vec::new();
        let mut waiting: Vec<(usize, Option<usize>)> = Vec::new();
        let wait = |waiting: &mut Vec<(usize, Option<usize>)>, before, run| {
            let from = waiting.len();
            waiting.extend(behind.iter(before).map(|piece| (piece, run)));
            waiting[from..].reverse();
        };
        wait(&mut waiting, None, None);
        while let Some((first, parent)) = waiting.pop() {
            let at = runs.len();
            let (run, last) = self.run(first, parent, &runs, &behind);
            if let Some(parent) = parent {
                runs[parent].children.push(at);
            }
            runs.push(run);
            wait(&mut waiting, Some(last), Some(at));
        }
        for at in (0..runs.len()).rev() {
            let run = &mut runs[at];
            run.prompts += run.ends.len() as u64;
            if let (prompts, Some(parent)) = (run.prompts, run.parent) {
                runs[parent].prompts += prompts;
            }
        }
        Tree {
            sharing: self.sharing(&runs),
            runs,
            empty: self.ends.get(&None).cloned().unwrap_or_default(),
            unreadable: Vec::new(),
        }
    }

    /// The pieces from `first` on, up to where there is not exactly one behind.
    fn run(
        &self,
        first: usize,
        parent: Option<usize>,
        runs: &[Run],
        behind: &Behind,
    ) -> (Run, usize) {
        let before = parent.map(|parent| &runs[parent]);
        let mut run = Run {
            parent,
            children: Vec::new(),
            levels: (self.pieces[first].level, self.pieces[first].level),
            pieces_before: before.map_or(0, |run| run.pieces_before + run.pieces),
            messages_before: before.map_or(0, |run| run.messages_before + run.messages),
            pieces: 0,
            messages: 0,
            bytes: 0,
            tokens: 0,
            words: None,
            prompts: 0,
            ends: Vec::new(),
        };
        let mut at = first;
        loop {
            let piece = &self.pieces[at];
            run.levels.1 = piece.level;
            run.pieces += 1;
            run.messages += u64::from(piece.is_message);
            run.bytes += piece.bytes;
            run.tokens += piece.bytes.div_ceil(BYTES_PER_TOKEN);
            if run.words.is_none() {
                run.words = piece.words.as_deref().map(str::to_owned);
            }
            let names = self.ends.get(&Some(at)).map_or(&[][..], Vec::as_slice);
            run.ends.extend(names.iter().map(|name| End {
                name: name.clone(),
                pieces: u64::from(piece.depth) + 1,
                bytes: piece.total,
            }));
            match behind.only(at) {
                Some(next) => at = next,
                None => return (run, at),
            }
        }
    }

    fn sharing(&self, runs: &[Run]) -> Sharing {
        let ends = runs.iter().flat_map(|run| &run.ends);
        Sharing {
            prompts: self.ends.values().map(|names| names.len() as u64).sum(),
            leaves: runs.iter().filter(|run| run.children.is_empty()).count() as u64,
            pieces: self.pieces.len() as u64,
            sent_bytes: ends.map(|end| end.bytes).sum(),
            stored_bytes: self.pieces.iter().map(|piece| piece.bytes).sum(),
        }
    }
}

/// Which pieces stand behind a piece, in the order in which they came: the first of them, and for each
/// the next one with the same piece before it.
struct Behind {
    root: Option<usize>,
    first: Vec<Option<usize>>,
    next: Vec<Option<usize>>,
}

impl Behind {
    fn of(pieces: &[Piece]) -> Self {
        let mut this = Self {
            root: None,
            first: vec![None; pieces.len()],
            next: vec![None; pieces.len()],
        };
        for (at, piece) in pieces.iter().enumerate().rev() {
            let first = match piece.before {
                Some(before) => &mut this.first[before],
                None => &mut this.root,
            };
            this.next[at] = first.replace(at);
        }
        this
    }

    fn iter(&self, before: Option<usize>) -> impl Iterator<Item = usize> {
        let first = before.map_or(self.root, |before| self.first[before]);
        std::iter::successors(first, |at| self.next[*at])
    }

    fn only(&self, before: usize) -> Option<usize> {
        self.first[before].filter(|first| self.next[*first].is_none())
    }
}

/// What prompts have in common.
#[derive(Debug, Clone, Default)]
pub struct Tree {
    /// The runs, each behind its parent and before the next one at its parent.
    pub runs: Vec<Run>,
    /// The names of prompts without a piece.
    pub empty: Vec<String>,
    /// Sessions that could not be read, by their names, and why. They are in no figure.
    pub unreadable: Vec<(String, Error)>,
    /// What it comes to.
    pub sharing: Sharing,
}

/// Pieces one after the other that no prompt branches off from: as many as there are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Run {
    /// The run before: an index into [`Tree::runs`], less than its own.
    pub parent: Option<usize>,
    /// The runs behind; none, or at least two.
    pub children: Vec<usize>,
    /// Where its first and its last piece stand.
    pub levels: (Level, Level),
    /// How many pieces stand before it.
    pub pieces_before: u64,
    /// How many messages.
    pub messages_before: u64,
    /// How many pieces it has.
    pub pieces: u64,
    /// How many messages begin in it.
    pub messages: u64,
    /// How many bytes its pieces have, without what joins them.
    pub bytes: u64,
    /// How many tokens that is: an estimate, four bytes to a token, rounded up for each piece.
    pub tokens: u64,
    /// The beginning of what the user says in it first.
    pub words: Option<String>,
    /// How many prompts have this run, or end in it.
    pub prompts: u64,
    /// The prompts that end in it, the shortest first.
    pub ends: Vec<End>,
}

/// Where a prompt ends.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct End {
    /// What it was inserted as.
    pub name: String,
    /// How many pieces it has.
    pub pieces: u64,
    /// How many bytes they have, without what joins them.
    pub bytes: u64,
}

/// How much prompts have in common.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Sharing {
    /// How many prompts.
    pub prompts: u64,
    /// How many conversations that no other prompt continues.
    pub leaves: u64,
    /// How many different pieces.
    pub pieces: u64,
    /// How many bytes the prompts have, each counted for itself.
    pub sent_bytes: u64,
    /// How many bytes the different pieces have.
    pub stored_bytes: u64,
}

impl Sharing {
    /// The bytes that are there once instead of several times.
    #[must_use]
    pub fn shared_bytes(&self) -> u64 {
        self.sent_bytes - self.stored_bytes
    }

    /// How many times the different bytes are sent; 1 if nothing is shared.
    #[must_use]
    pub fn dedup_ratio(&self) -> f64 {
        match self.stored_bytes {
            0 => 1.0,
            stored => self.sent_bytes as f64 / stored as f64,
        }
    }
}

impl Tree {
    /// The prompts that no other one continues, in the order of the tree: for each such conversation
    /// those that are identical, at least one.
    pub fn leaves(&self) -> impl Iterator<Item = &[End]> {
        let leaves = self.runs.iter().filter(|run| run.children.is_empty());
        leaves.map(|run| {
            let all = run.pieces_before + run.pieces;
            let inner = run.ends.partition_point(|end| end.pieces < all);
            &run.ends[inner..]
        })
    }
}

/// The beginning of what the user says; `None` if that is nothing.
fn words(message: &Message, seals: &Seals) -> Option<Box<str>> {
    if message.role != Role::User {
        return None;
    }
    label(&message.text(), seals)
}

/// The first words of a text. Secrets are masked before anything is cut off: half a secret would not
/// be known for one.
fn label(text: &str, seals: &Seals) -> Option<Box<str>> {
    let mut said = String::new();
    for word in text.split_whitespace() {
        if said.len() > SEARCHED {
            break;
        }
        if !said.is_empty() {
            said.push(' ');
        }
        said.push_str(word);
    }
    let mut label = mask_credentials(&seals.redact(&said)).into_owned();
    if let Some((cut, _)) = label.char_indices().nth(LABEL) {
        label.truncate(cut);
        label.truncate(label.trim_end().len());
        label.push('…');
    }
    (!label.is_empty()).then(|| label.into())
}
