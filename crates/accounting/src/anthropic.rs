//! Anthropic's prompt cache: breakpoints, look-back, minimum lengths, two lifetimes.
//!
//! Rules: <https://platform.claude.com/docs/en/build-with-claude/prompt-caching>. Where they are
//! silent, the reading that hits less is taken:
//! - An entry is written at each breakpoint behind the highest hit, and at no other.
//! - A read refreshes the entry that it hits and those at this request's breakpoints before it; the
//!   lifetime of an entry stays the one it was written with.
//! - Life ends exactly 5 minutes or 1 hour after the start of the request that wrote or last read it.

use std::collections::HashMap;

use cachalot_core::{Digest, Millis};

use super::{AnthropicModel, AnthropicRules, Content};

/// How long an entry lives after its last use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ttl {
    /// `5m`, the default.
    FiveMinutes,
    /// `1h`.
    OneHour,
}

impl Ttl {
    /// In milliseconds.
    #[must_use]
    pub fn millis(self) -> Millis {
        match self {
            Self::FiveMinutes => 5 * 60_000,
            Self::OneHour => 60 * 60_000,
        }
    }
}

/// Whether blocks in a row count as one position of the look-back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Run {
    /// A position of its own.
    #[default]
    Alone,
    /// One with the `tool_use` blocks next to it.
    ToolUses,
    /// One with the `tool_result` blocks next to it.
    ToolResults,
}

/// A block of the prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Block {
    /// What it says.
    pub content: Content,
    /// Whether a breakpoint lies behind it, and with which lifetime.
    pub breakpoint: Option<Ttl>,
    /// How it counts in the look-back.
    pub run: Run,
}

/// Tools, system or messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Level {
    /// The settings whose change loses this level and those behind it.
    pub settings: Content,
    /// Its blocks, in order.
    pub blocks: Vec<Block>,
}

/// A request, as far as caching depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Who shares the cache: organisation or workspace.
    pub namespace: Digest,
    /// The model, whose cache is its own.
    pub model: String,
    /// Tools, system, messages.
    pub levels: [Level; 3],
}

impl Prompt {
    /// All its tokens, as `count_tokens` counts them.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        positions(self).1
    }
}

/// Input tokens by what they cost. Their sum is the whole input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// `input_tokens`: behind the last breakpoint.
    pub uncached: u64,
    /// `cache_read_input_tokens`.
    pub read: u64,
    /// `cache_creation.ephemeral_5m_input_tokens`.
    pub written_5m: u64,
    /// `cache_creation.ephemeral_1h_input_tokens`.
    pub written_1h: u64,
}

impl Usage {
    /// The whole input.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.uncached + self.read + self.written_5m + self.written_1h
    }
}

/// What a request costs, and what it will leave in the cache once its response has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// What it costs.
    pub usage: Usage,
    started: Millis,
    writes: Vec<(Digest, Ttl)>,
    reads: Vec<Digest>,
}

/// What earlier requests wrote.
#[derive(Debug, Clone, Default)]
pub struct Store {
    entries: HashMap<Digest, Entry>,
    next_sweep: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    used: Millis,
    ttl: Ttl,
}

impl Entry {
    fn ends(&self) -> Millis {
        self.used.saturating_add(self.ttl.millis())
    }
}

/// A prefix that ends with a block.
struct Position {
    digest: Digest,
    tokens: u64,
    breakpoint: Option<Ttl>,
    run: Run,
}

/// What `prompt` costs at `now`, the start of its request. Changes nothing: see [`Store::begin`].
#[must_use]
pub fn charge(prompt: &Prompt, rules: &AnthropicRules, store: &Store, now: Millis) -> Charge {
    let (positions, total) = positions(prompt);
    let eligible = eligible(&positions, rules.model(&prompt.model));
    let hit = find(&positions, &eligible, rules, store, now);
    let tokens_at = |at: Option<usize>| at.map_or(0, |at| positions[at].tokens);
    let (passed, behind): (Vec<usize>, Vec<usize>) = eligible
        .iter()
        .partition(|at| hit.is_some_and(|hit| **at <= hit));

    // Positions A, B and C of the published billing rule.
    let is_one_hour = |at: &&usize| positions[**at].breakpoint == Some(Ttl::OneHour);
    let a = tokens_at(hit);
    let b = behind
        .iter()
        .rfind(is_one_hour)
        .map_or(a, |at| positions[*at].tokens);
    let c = behind.last().map_or(a, |at| positions[*at].tokens);

    let entry = |at: &usize| Some((positions[*at].digest, positions[*at].breakpoint?));
    Charge {
        usage: Usage {
            uncached: total - c,
            read: a,
            written_5m: c - b,
            written_1h: b - a,
        },
        started: now,
        writes: behind.iter().filter_map(entry).collect(),
        reads: passed
            .into_iter()
            .chain(hit)
            .map(|at| positions[at].digest)
            .collect(),
    }
}

fn positions(prompt: &Prompt) -> (Vec<Position>, u64) {
    let mut digest = Digest::of_parts(&[
        b"anthropic",
        prompt.namespace.as_bytes(),
        prompt.model.as_bytes(),
    ]);
    let mut tokens = 0;
    let mut positions = Vec::new();
    for level in &prompt.levels {
        let settings = level.settings.digest(&digest);
        digest = Digest::of_parts(&[settings.as_bytes(), b"level"]);
        tokens += level.settings.tokens();
        for block in &level.blocks {
            digest = block.content.digest(&digest);
            tokens += block.content.tokens();
            positions.push(Position {
                digest,
                tokens,
                breakpoint: block.breakpoint,
                run: block.run,
            });
        }
    }
    (positions, tokens)
}

/// The breakpoints whose prefix is long enough to be cached at all.
fn eligible(positions: &[Position], model: &AnthropicModel) -> Vec<usize> {
    let long_enough =
        |position: &Position| position.breakpoint.is_some() && position.tokens >= model.minimum;
    (0..positions.len())
        .filter(|at| long_enough(&positions[*at]))
        .collect()
}

/// The longest prefix that a look-back from one of the breakpoints finds.
fn find(
    positions: &[Position],
    breakpoints: &[usize],
    rules: &AnthropicRules,
    store: &Store,
    now: Millis,
) -> Option<usize> {
    breakpoints.iter().rev().find_map(|breakpoint| {
        window(positions, *breakpoint, rules).find(|at| store.lives(&positions[*at].digest, now))
    })
}

/// The positions that a look-back from `breakpoint` visits, the last first.
fn window<'a>(
    positions: &'a [Position],
    breakpoint: usize,
    rules: &'a AnthropicRules,
) -> impl Iterator<Item = usize> + 'a {
    let mut counted = 0;
    let mut behind = Run::Alone;
    (0..=breakpoint).rev().take_while(move |at| {
        let run = positions[*at].run;
        let is_same_run = rules.runs_count_once && run != Run::Alone && run == behind;
        behind = run;
        if !is_same_run {
            counted += 1;
        }
        counted <= rules.lookback
    })
}

impl Store {
    /// The response to the request of `charge` has begun: what it wrote can be read, what it read
    /// lives on.
    pub fn begin(&mut self, charge: &Charge) {
        for digest in &charge.reads {
            if let Some(entry) = self.entries.get_mut(digest) {
                entry.used = entry.used.max(charge.started);
            }
        }
        for (digest, ttl) in &charge.writes {
            let written = Entry {
                used: charge.started,
                ttl: *ttl,
            };
            // Two requests may write the same prefix: the one that lives longer stays.
            let entry = self.entries.entry(*digest).or_insert(written);
            if written.ends() > entry.ends() {
                *entry = written;
            }
        }
        self.sweep(charge.started);
    }

    fn lives(&self, digest: &Digest, now: Millis) -> bool {
        self.entries
            .get(digest)
            .is_some_and(|entry| now < entry.ends())
    }

    /// Forgets what has died, each time the store has doubled.
    fn sweep(&mut self, now: Millis) {
        if self.entries.len() > self.next_sweep.max(1_000) {
            self.entries.retain(|_, entry| now < entry.ends());
            self.next_sweep = self.entries.len() * 2;
        }
    }
}
