//! The tree of prompts: common prefixes are stored once.
//!
//! A [`PrefixTreeBuilder`] collects prompts and stores a few numbers for each piece, never its bytes. A [`PrefixTree`] is
//! the result: runs of pieces without branches, and the prompts that end in each. Pieces are compared by
//! their [`NodeId`], as a provider's cache does: prompts share the pieces whose bytes are equal from the
//! first piece on. Sharing in a provider's cache also depends on the model and the parameters.

use std::collections::HashMap;
use std::sync::Arc;

use cachalot_core::SecretSet;
use cachalot_core::secret::mask_credentials;
use cachalot_core::text::head;
use cachalot_model::{Message, Role};

use crate::Level;
use crate::chain::{Node, NodeId, Prompt};
use crate::error::Error;

/// Estimated bytes per token.
const BYTES_PER_TOKEN: u64 = 4;

/// Maximum characters of a label, which is the beginning of the user's message.
const MAX_LABEL_CHARS: usize = 60;

/// The number of bytes of the user's message in which secrets are masked before the label is cut off.
const MAX_MASKED_BYTES: usize = 2_048;

/// A collection of prompts that is converted to a [`PrefixTree`]. Memory is proportional to the number of
/// different pieces, not to their bytes.
#[derive(Debug, Clone, Default)]
pub struct PrefixTreeBuilder {
    /// Each piece comes after the previous one in its prompt.
    pieces: Vec<Piece>,
    index: HashMap<NodeId, usize>,
    /// The names of the prompts by their last piece; `None` for empty prompts.
    ends: HashMap<Option<usize>, Vec<String>>,
    secret_set: Arc<SecretSet>,
}

/// The stored data of a piece.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) id: NodeId,
    pub(crate) level: Level,
    /// The number of pieces before it.
    pub(crate) depth: u32,
    before: Option<usize>,
    bytes: u64,
    /// The total bytes up to the end of this piece.
    total: u64,
    is_message: bool,
    words: Option<Box<str>>,
}

impl PrefixTreeBuilder {
    /// Creates an empty forest. The secrets in `secret_set`, and everything that looks like a credential, are
    /// masked in labels.
    #[must_use]
    pub fn new(secret_set: Arc<SecretSet>) -> Self {
        Self {
            secret_set,
            ..Self::default()
        }
    }

    /// Adds a prompt under the name of its session, or another name. The cost is proportional to the
    /// number of its new pieces. Names may repeat.
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

    /// Adds a prompt of another client, in which each message is one piece. `user_text` extracts the user's
    /// text from a piece.
    pub fn insert_request(
        &mut self,
        name: &str,
        prompt: &Prompt,
        user_text: impl Fn(&Node) -> Option<String>,
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
            // Known pieces, and the pieces before them, already have their label.
            let Some(piece) = piece.filter(|piece| !piece.is_message) else {
                break;
            };
            piece.is_message = true;
            piece.words = user_text(node).and_then(|text| label(&text, &self.secret_set));
        }
    }

    /// Adds a piece after another one, unless it is present; returns its index.
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
            words: source.and_then(|message| words(message, &self.secret_set)),
        });
        at
    }

    /// Records that a prompt ends with this piece.
    pub(crate) fn end(&mut self, name: &str, piece: Option<usize>) {
        self.ends.entry(piece).or_default().push(name.to_owned());
    }

    /// The number of different pieces.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    pub(crate) fn piece(&self, at: usize) -> &Piece {
        &self.pieces[at]
    }

    /// Builds the tree. Siblings are in the order of insertion.
    #[must_use]
    pub fn tree(&self) -> PrefixTree {
        let behind = Children::from_pieces(&self.pieces);
        let mut runs: Vec<TreeRun> = Vec::new();
        let mut waiting: Vec<(usize, Option<usize>)> = Vec::new();
        let wait = |waiting: &mut Vec<(usize, Option<usize>)>, before, run| {
            let from = waiting.len();
            waiting.extend(behind.iter(before).map(|piece| (piece, run)));
            // Reversed, because the last one is taken first: siblings stay in the order of insertion.
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
        // A run comes after its parent, so its own sum is complete when it is added to that of the parent.
        for at in (0..runs.len()).rev() {
            let run = &mut runs[at];
            run.prompts += run.ends.len() as u64;
            if let (prompts, Some(parent)) = (run.prompts, run.parent) {
                runs[parent].prompts += prompts;
            }
        }
        PrefixTree {
            sharing: self.sharing(&runs),
            runs,
            empty: self.ends.get(&None).cloned().unwrap_or_default(),
            unreadable: Vec::new(),
        }
    }

    /// Returns the run of pieces from `first` up to a branch or an end, and its last piece.
    fn run(
        &self,
        first: usize,
        parent: Option<usize>,
        runs: &[TreeRun],
        behind: &Children,
    ) -> (TreeRun, usize) {
        let before = parent.map(|parent| &runs[parent]);
        let mut run = TreeRun {
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
            run.ends.extend(names.iter().map(|name| PromptEnd {
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

    fn sharing(&self, runs: &[TreeRun]) -> TreeSharing {
        let ends = runs.iter().flat_map(|run| &run.ends);
        TreeSharing {
            prompts: self.ends.values().map(|names| names.len() as u64).sum(),
            leaves: runs.iter().filter(|run| run.children.is_empty()).count() as u64,
            pieces: self.pieces.len() as u64,
            sent_bytes: ends.map(|end| end.bytes).sum(),
            stored_bytes: self.pieces.iter().map(|piece| piece.bytes).sum(),
        }
    }
}

/// The children of each piece in the order of insertion: the first child of a piece, and the next
/// sibling of each piece.
struct Children {
    root: Option<usize>,
    first: Vec<Option<usize>>,
    next: Vec<Option<usize>>,
}

impl Children {
    fn from_pieces(pieces: &[Piece]) -> Self {
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

/// The common prefixes of prompts.
#[derive(Debug, Clone, Default)]
pub struct PrefixTree {
    /// The runs in depth-first order: each after its parent, siblings in the order of insertion.
    pub runs: Vec<TreeRun>,
    /// The names of the empty prompts.
    pub empty: Vec<String>,
    /// The names of sessions that could not be read, with the errors. They are not part of any number.
    pub unreadable: Vec<(String, Error)>,
    /// The totals.
    pub sharing: TreeSharing,
}

/// A maximal sequence of pieces without a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeRun {
    /// The parent run: an index into [`PrefixTree::runs`], less than the run's own.
    pub parent: Option<usize>,
    /// The child runs; none, or at least two.
    pub children: Vec<usize>,
    /// The levels of its first and its last piece.
    pub levels: (Level, Level),
    /// The number of pieces before it.
    pub pieces_before: u64,
    /// The number of messages before it.
    pub messages_before: u64,
    /// The number of its pieces.
    pub pieces: u64,
    /// The number of messages that begin in it.
    pub messages: u64,
    /// The total bytes of its pieces, without separators.
    pub bytes: u64,
    /// The estimated tokens of its pieces: four bytes per token, rounded up for each piece.
    pub tokens: u64,
    /// The beginning of the first user message in it.
    pub words: Option<String>,
    /// The number of prompts that contain this run or end in it.
    pub prompts: u64,
    /// The prompts that end in it, the shortest first.
    pub ends: Vec<PromptEnd>,
}

/// The end of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptEnd {
    /// The name of the prompt.
    pub name: String,
    /// The number of its pieces.
    pub pieces: u64,
    /// Their total bytes, without separators.
    pub bytes: u64,
}

/// The amount of sharing among prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeSharing {
    /// The number of prompts.
    pub prompts: u64,
    /// The number of conversations that no other prompt continues.
    pub leaves: u64,
    /// The number of different pieces.
    pub pieces: u64,
    /// The total bytes of all prompts.
    pub sent_bytes: u64,
    /// The total bytes of the different pieces.
    pub stored_bytes: u64,
}

impl TreeSharing {
    /// The bytes that are saved by storing shared pieces once.
    #[must_use]
    pub fn shared_bytes(&self) -> u64 {
        self.sent_bytes - self.stored_bytes
    }

    /// The ratio of sent to stored bytes; 1 if nothing is shared.
    #[must_use]
    pub fn dedup_ratio(&self) -> f64 {
        match self.stored_bytes {
            0 => 1.0,
            stored => self.sent_bytes as f64 / stored as f64,
        }
    }
}

impl PrefixTree {
    /// The prompts that no other one continues, in the order of the tree: for each such conversation,
    /// all identical prompts (at least one).
    pub fn leaves(&self) -> impl Iterator<Item = &[PromptEnd]> {
        let leaves = self.runs.iter().filter(|run| run.children.is_empty());
        leaves.map(|run| {
            let all = run.pieces_before + run.pieces;
            let inner = run.ends.partition_point(|end| end.pieces < all);
            &run.ends[inner..]
        })
    }
}

/// The label of a user message; `None` if there is no text.
fn words(message: &Message, secret_set: &SecretSet) -> Option<Box<str>> {
    if message.role != Role::User {
        return None;
    }
    label(&message.text(), secret_set)
}

/// Truncates a text to a label. Secrets are masked first, because a truncated secret would not be
/// recognized.
fn label(text: &str, secret_set: &SecretSet) -> Option<Box<str>> {
    let mut said = String::new();
    for word in text.split_whitespace() {
        if said.len() > MAX_MASKED_BYTES {
            break;
        }
        if !said.is_empty() {
            said.push(' ');
        }
        said.push_str(word);
    }
    let redacted = secret_set.redact(&said);
    let whole = mask_credentials(&redacted);
    let kept = head(&whole, MAX_LABEL_CHARS);
    let label = if kept.len() < whole.len() {
        format!("{}…", kept.trim_end())
    } else {
        whole.into_owned()
    };
    (!label.is_empty()).then(|| label.into())
}
