//! OpenAI's prompt cache, in its two generations.
//!
//! Rules: <https://developers.openai.com/api/docs/guides/prompt-caching>. Up to GPT-5.5, caching is
//! automatic: prefixes match at regular intervals of tokens, independent of block boundaries, and writes
//! are free. From GPT-5.6 on, prefixes match only at breakpoints, which are at the ends of blocks, and
//! writes are charged. Both generations have a separate cache per organization, model and
//! `prompt_cache_key`.

use std::collections::{HashMap, VecDeque};

use cachalot_core::{Digest, Millis};

use super::{Caching, Content, Lifetime, OpenAiModel, OpenAiRules, PrefixHasher};

/// The end of a message that an implicit breakpoint may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// A message that allows no implicit breakpoint.
    Other,
    /// A user message, or the last of consecutive tool results.
    Eligible,
    /// The last of the developer messages at the beginning: allows a breakpoint, and is always looked
    /// up.
    Beginning,
}

/// A block of the prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Block {
    /// The content.
    pub content: Content,
    /// Set if the block has a `prompt_cache_breakpoint`.
    pub is_marked: bool,
    /// The kind of message that ends with this block, if one does.
    pub end: Option<End>,
}

/// The source of breakpoints (from GPT-5.6 on).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// OpenAI places one after the newest eligible message, in addition to the explicit ones.
    #[default]
    Implicit,
    /// Explicit breakpoints of the request only.
    Explicit,
}

/// The parts of a request that caching depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The scope of the cache: the organization.
    pub namespace: Digest,
    /// The model. Each model has a cache of its own.
    pub model: String,
    /// `prompt_cache_key`.
    pub cache_key: Option<String>,
    /// The settings that are rendered before everything else.
    pub settings: Content,
    /// The tools, then the messages.
    pub blocks: Vec<Block>,
    /// The source of breakpoints.
    pub mode: Mode,
    /// `prompt_cache_retention` or `prompt_cache_options.ttl`, if the request contains it.
    pub lifetime: Option<String>,
}

impl Prompt {
    /// The total tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let contents = self.blocks.iter().map(|block| &block.content);
        let all = std::iter::once(&self.settings).chain(contents);
        all.map(Content::tokens).sum()
    }
}

/// Input tokens. The total includes cached and written tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The whole input.
    pub total: u64,
    /// `cached_tokens`.
    pub cached: u64,
    /// `cache_write_tokens`; 0 if writes are free.
    pub written: u64,
}

/// The cost of a request, and the entries that it leaves in the cache once its response has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The charged tokens.
    pub usage: Usage,
    started: Millis,
    lifetime: Lifetime,
    /// Entries that were written or read.
    kept: Vec<Digest>,
}

/// The cache entries of earlier requests.
#[derive(Debug, Clone, Default)]
pub struct ProviderCache {
    entries: HashMap<Digest, Entry>,
    next_sweep: usize,
    routes: HashMap<Digest, VecDeque<Millis>>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    written: Millis,
    used: Millis,
    lifetime: Lifetime,
}

impl Entry {
    fn is_alive(&self, now: Millis) -> bool {
        let by_use = self.used.saturating_add(self.lifetime.idle);
        let by_age = self.written.saturating_add(self.lifetime.maximum);
        now < by_use && now < by_age
    }
}

/// A prefix at which the cache can match.
struct Boundary {
    digest: Digest,
    tokens: u64,
}

/// The machine that receives a request if its route is not overloaded.
pub const FIRST_MACHINE: u64 = 0;
/// The number of tokens at the beginning of a prompt that determine the machine, together with the key.
const ROUTING_PREFIX_TOKENS: u64 = 256;
/// The number of earlier message ends that a lookup tries in implicit mode.
const MAX_EARLIER_ENDINGS: usize = 20;
/// The number of explicit breakpoints that a lookup tries: the first ones and the latest ones.
const MAX_FIRST_BREAKPOINTS: usize = 2;
const MAX_LATEST_BREAKPOINTS: usize = 50;
/// The maximum number of writes of a request.
const MAX_WRITES: usize = 4;

/// Charges `prompt` at `now`, the start of its request, on `machine` (see [`ProviderCache::route`]). Does not
/// change the store: see [`ProviderCache::begin`].
#[must_use]
pub fn charge(
    prompt: &Prompt,
    rules: &OpenAiRules,
    store: &ProviderCache,
    machine: u64,
    now: Millis,
) -> Charge {
    let model = rules.model(&prompt.model);
    let asked = prompt.lifetime.as_deref().unwrap_or(&model.lifetime);
    let lifetime = rules.lifetime(asked);
    let (usage, kept) = match model.caching {
        Caching::Automatic { interval } => automatic(prompt, model, interval, store, machine, now),
        Caching::Exact => exact(prompt, model, store, machine, now),
    };
    Charge {
        usage,
        started: now,
        lifetime,
        kept,
    }
}

fn start(prompt: &Prompt, machine: u64) -> PrefixHasher {
    let key = prompt.cache_key.as_deref().unwrap_or_default();
    PrefixHasher::new(&[
        b"openai",
        prompt.namespace.as_bytes(),
        prompt.model.as_bytes(),
        key.as_bytes(),
        &machine.to_le_bytes(),
    ])
}

fn automatic(
    prompt: &Prompt,
    model: &OpenAiModel,
    interval: u64,
    store: &ProviderCache,
    machine: u64,
    now: Millis,
) -> (Usage, Vec<Digest>) {
    let (boundaries, total) = intervals(prompt, interval, machine);
    let cacheable: Vec<&Boundary> = boundaries
        .iter()
        .filter(|boundary| boundary.tokens >= model.minimum)
        .collect();
    let hit = cacheable
        .iter()
        .rfind(|boundary| store.is_alive(&boundary.digest, now));
    let usage = Usage {
        total,
        cached: hit.map_or(0, |hit| hit.tokens),
        written: 0,
    };
    let kept = cacheable.iter().map(|boundary| boundary.digest).collect();
    (usage, kept)
}

/// Returns the prefixes of `prompt` whose length is a multiple of `interval` tokens, and the total
/// tokens. A token is four bytes of a block's text. Images count as tokens, too, which are all alike.
fn intervals(prompt: &Prompt, interval: u64, machine: u64) -> (Vec<Boundary>, u64) {
    let interval = interval.max(1);
    let mut running = start(prompt, machine);
    let mut boundaries = Vec::new();
    let mut tokens = 0;
    let contents = prompt.blocks.iter().map(|block| &block.content);
    for content in std::iter::once(&prompt.settings).chain(contents) {
        running.frame(&content.frame);
        for _ in 0..content.images {
            tokens += 1;
            note(&mut boundaries, &running, tokens, interval);
        }
        for token in content
            .text
            .as_bytes()
            .chunks(crate::tokens::BYTES_PER_TOKEN)
        {
            running.bytes(token);
            tokens += 1;
            note(&mut boundaries, &running, tokens, interval);
        }
    }
    (boundaries, tokens)
}

fn note(boundaries: &mut Vec<Boundary>, running: &PrefixHasher, tokens: u64, interval: u64) {
    if tokens.is_multiple_of(interval) {
        let digest = Digest::sha256_of_parts(&[
            running.now().as_bytes(),
            b"interval",
            &tokens.to_le_bytes(),
        ]);
        boundaries.push(Boundary { digest, tokens });
    }
}

fn exact(
    prompt: &Prompt,
    model: &OpenAiModel,
    store: &ProviderCache,
    machine: u64,
    now: Millis,
) -> (Usage, Vec<Digest>) {
    let (ends, total) = block_ends(prompt, machine);
    let cacheable = |at: &usize| ends[*at].tokens >= model.minimum;
    let explicit: Vec<usize> = breakpoint_positions(prompt, |block| block.is_marked);
    let eligible: Vec<usize> = match prompt.mode {
        Mode::Implicit => breakpoint_positions(prompt, |block| {
            matches!(block.end, Some(End::Eligible | End::Beginning))
        }),
        Mode::Explicit => Vec::new(),
    };
    let is_beginning = |at: &&usize| prompt.blocks[**at].end == Some(End::Beginning);
    let beginning = eligible.iter().find(is_beginning).copied();
    let is_alive = |at: &usize| store.is_alive(&ends[*at].digest, now);

    let hit = lookup_candidates(&explicit, &eligible)
        .chain(beginning)
        .filter(cacheable)
        .filter(is_alive)
        .max();
    // Entries before the hit are read as a part of it: they are not written, but refreshed if they
    // exist.
    let written: Vec<usize> = written(&explicit, &eligible)
        .filter(cacheable)
        .filter(|at| Some(*at) > hit || is_alive(at))
        .collect();
    let last = written.iter().copied().max().max(hit);
    let tokens_at = |at: Option<usize>| at.map_or(0, |at| ends[at].tokens);
    let usage = Usage {
        total,
        cached: tokens_at(hit),
        written: tokens_at(last) - tokens_at(hit),
    };
    let kept = written.into_iter().chain(hit);
    (usage, kept.map(|at| ends[at].digest).collect())
}

fn block_ends(prompt: &Prompt, machine: u64) -> (Vec<Boundary>, u64) {
    let mut digest = prompt.settings.digest(&start(prompt, machine).now());
    let mut tokens = prompt.settings.tokens();
    let ends = prompt.blocks.iter().map(|block| {
        digest = block.content.digest(&digest);
        tokens += block.content.tokens();
        // The end of a message is part of its rendering: a longer message does not extend a shorter one.
        if block.end.is_some() {
            digest = Digest::sha256_of_parts(&[digest.as_bytes(), b"end"]);
        }
        Boundary { digest, tokens }
    });
    let ends: Vec<Boundary> = ends.collect();
    (ends, tokens)
}

fn breakpoint_positions(prompt: &Prompt, is_breakpoint: impl Fn(&Block) -> bool) -> Vec<usize> {
    (0..prompt.blocks.len())
        .filter(|at| is_breakpoint(&prompt.blocks[*at]))
        .collect()
}

/// The boundaries that a lookup tries: the first two and the latest fifty explicit ones; in implicit
/// mode also the implicit one and up to twenty eligible message ends before it.
fn lookup_candidates<'a>(
    explicit: &'a [usize],
    eligible: &'a [usize],
) -> impl Iterator<Item = usize> + 'a {
    let first = explicit.iter().take(MAX_FIRST_BREAKPOINTS);
    let latest = explicit.iter().rev().take(MAX_LATEST_BREAKPOINTS);
    let endings = eligible.iter().rev().take(1 + MAX_EARLIER_ENDINGS);
    first.chain(latest).chain(endings).copied()
}

/// The boundaries that are written. The implicit one uses one of the four writes.
fn written<'a>(explicit: &'a [usize], eligible: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    let implicit = eligible.last();
    let breakpoint_positions = MAX_WRITES - usize::from(implicit.is_some());
    explicit
        .iter()
        .rev()
        .take(breakpoint_positions)
        .chain(implicit)
        .copied()
}

impl ProviderCache {
    /// Returns the machine that receives `prompt` at `now`. Requests with the same beginning and key go
    /// to the same machine until more than `most` of them (if there is a limit) arrive within a minute.
    /// Further ones overflow to the next machine, which has a cache of its own.
    pub fn route(&mut self, prompt: &Prompt, maximum: Option<u64>, now: Millis) -> u64 {
        let Some(maximum) = maximum.filter(|maximum| *maximum > 0) else {
            return FIRST_MACHINE;
        };
        let (beginnings, _) = intervals(prompt, ROUTING_PREFIX_TOKENS, FIRST_MACHINE);
        let short = || block_ends(prompt, FIRST_MACHINE).0.pop();
        let Some(route) = beginnings.into_iter().next().or_else(short) else {
            return FIRST_MACHINE;
        };
        self.routes.retain(|_, arrivals| {
            arrivals.retain(|at| now - at < 60_000);
            !arrivals.is_empty()
        });
        let arrivals = self.routes.entry(route.digest).or_default();
        arrivals.push_back(now);
        (arrivals.len() as u64 - 1) / maximum
    }

    /// Records that the response to the request of `charge` has begun: its writes become readable, and
    /// the entries that it read are refreshed.
    pub fn begin(&mut self, charge: &Charge) {
        let now = charge.started;
        for digest in &charge.kept {
            let fresh = Entry {
                written: now,
                used: now,
                lifetime: charge.lifetime,
            };
            let entry = self.entries.entry(*digest).or_insert(fresh);
            // An expired entry is written anew, but not one that a later request has used.
            if entry.is_alive(now) {
                entry.used = entry.used.max(now);
            } else if entry.used < now {
                *entry = fresh;
            }
        }
        if self.entries.len() > self.next_sweep.max(10_000) {
            self.entries.retain(|_, entry| entry.is_alive(now));
            self.next_sweep = self.entries.len() * 2;
        }
    }

    fn is_alive(&self, digest: &Digest, now: Millis) -> bool {
        self.entries
            .get(digest)
            .is_some_and(|entry| entry.is_alive(now))
    }
}
