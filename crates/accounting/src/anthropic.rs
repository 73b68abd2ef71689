//! Anthropic's prompt cache: breakpoints, lookback, minimum lengths, two lifetimes.
//!
//! Rules: <https://platform.claude.com/docs/en/build-with-claude/prompt-caching>. Where they are silent,
//! the interpretation with fewer hits is used:
//! - An entry is written at each breakpoint after the highest hit, and at no other.
//! - A read refreshes the entry that it hits and the entries at this request's breakpoints before it.
//!   The lifetime of an entry stays the one that it was written with.
//! - An entry expires exactly 5 minutes or 1 hour after the start of the request that wrote or last read
//!   it.

use std::collections::HashMap;

use cachalot_core::{Digest, Millis};

use super::{AnthropicModel, AnthropicRules, Content};

/// The lifetime of an entry after its last use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ttl {
    /// `5m`, the default.
    FiveMinutes,
    /// `1h`.
    OneHour,
}

impl Ttl {
    /// The lifetime in milliseconds.
    #[must_use]
    pub fn millis(self) -> Millis {
        match self {
            Self::FiveMinutes => 5 * 60_000,
            Self::OneHour => 60 * 60_000,
        }
    }
}

/// The way in which a block counts in the lookback.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LookbackUnit {
    /// One position.
    #[default]
    Alone,
    /// One position together with the adjacent `tool_use` blocks.
    ToolUses,
    /// One position together with the adjacent `tool_result` blocks.
    ToolResults,
}

/// A block of the prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Block {
    /// The content.
    pub content: Content,
    /// The lifetime of the breakpoint at the end of the block, if there is one.
    pub breakpoint: Option<Ttl>,
    /// The way in which the block counts in the lookback.
    pub run: LookbackUnit,
}

/// The tools, the system text or the messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Level {
    /// The settings whose change invalidates this level and the following ones.
    pub settings: Content,
    /// The blocks, in order.
    pub blocks: Vec<Block>,
}

/// The parts of a request that caching depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The scope of the cache: organization or workspace.
    pub namespace: Digest,
    /// The model. Each model has a cache of its own.
    pub model: String,
    /// Tools, system, messages.
    pub levels: [Level; 3],
}

impl Prompt {
    /// The total tokens, as `count_tokens` counts them.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        positions(self).1
    }
}

/// Input tokens by price category. Their sum is the whole input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// `input_tokens`: after the last breakpoint.
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

/// The cost of a request, and the entries that it leaves in the cache once its response has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The charged tokens.
    pub usage: Usage,
    started: Millis,
    writes: Vec<(Digest, Ttl)>,
    reads: Vec<Digest>,
}

/// The cache entries of earlier requests.
#[derive(Debug, Clone, Default)]
pub struct ProviderCache {
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
    run: LookbackUnit,
}

/// Charges `prompt` at `now`, the start of its request. Does not change the store: see [`ProviderCache::begin`].
#[must_use]
pub fn charge(
    prompt: &Prompt,
    rules: &AnthropicRules,
    store: &ProviderCache,
    now: Millis,
) -> Charge {
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
    let mut digest = Digest::sha256_of_parts(&[
        b"anthropic",
        prompt.namespace.as_bytes(),
        prompt.model.as_bytes(),
    ]);
    let mut tokens = 0;
    let mut positions = Vec::new();
    for level in &prompt.levels {
        let settings = level.settings.digest(&digest);
        digest = Digest::sha256_of_parts(&[settings.as_bytes(), b"level"]);
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

/// The breakpoints whose prefix has the minimum length for caching.
fn eligible(positions: &[Position], model: &AnthropicModel) -> Vec<usize> {
    let long_enough =
        |position: &Position| position.breakpoint.is_some() && position.tokens >= model.minimum;
    (0..positions.len())
        .filter(|at| long_enough(&positions[*at]))
        .collect()
}

/// The longest prefix that a lookback from one of the breakpoints finds.
fn find(
    positions: &[Position],
    breakpoints: &[usize],
    rules: &AnthropicRules,
    store: &ProviderCache,
    now: Millis,
) -> Option<usize> {
    breakpoints.iter().rev().find_map(|breakpoint| {
        window(positions, *breakpoint, rules).find(|at| store.is_alive(&positions[*at].digest, now))
    })
}

/// The positions that a lookback from `breakpoint` visits, starting with the last one.
fn window<'a>(
    positions: &'a [Position],
    breakpoint: usize,
    rules: &'a AnthropicRules,
) -> impl Iterator<Item = usize> + 'a {
    let mut counted = 0;
    let mut behind = LookbackUnit::Alone;
    (0..=breakpoint).rev().take_while(move |at| {
        let run = positions[*at].run;
        let is_same_run = rules.runs_count_once && run != LookbackUnit::Alone && run == behind;
        behind = run;
        if !is_same_run {
            counted += 1;
        }
        counted <= rules.lookback
    })
}

impl ProviderCache {
    /// Records that the response to the request of `charge` has begun: its writes become readable, and
    /// the entries that it read are refreshed.
    pub fn begin(&mut self, charge: &Charge) {
        for digest in &charge.reads {
            if let Some(entry) = self.entries.get_mut(digest) {
                // Responses may begin in another order than their requests, so the time of use never goes back.
                entry.used = entry.used.max(charge.started);
            }
        }
        for (digest, ttl) in &charge.writes {
            let written = Entry {
                used: charge.started,
                ttl: *ttl,
            };
            // Two requests may write the same prefix: the entry that expires later stays.
            let entry = self.entries.entry(*digest).or_insert(written);
            if written.ends() > entry.ends() {
                *entry = written;
            }
        }
        self.sweep(charge.started);
    }

    fn is_alive(&self, digest: &Digest, now: Millis) -> bool {
        self.entries
            .get(digest)
            .is_some_and(|entry| now < entry.ends())
    }

    /// Removes expired entries each time the store has doubled in size.
    fn sweep(&mut self, now: Millis) {
        if self.entries.len() > self.next_sweep.max(1_000) {
            self.entries.retain(|_, entry| now < entry.ends());
            self.next_sweep = self.entries.len() * 2;
        }
    }
}
