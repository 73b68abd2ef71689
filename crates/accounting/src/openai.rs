//! OpenAI's prompt cache, in its two generations.
//!
//! Rules: <https://developers.openai.com/api/docs/guides/prompt-caching>. Up to GPT-5.5 a prompt is
//! cached by itself: prefixes match at regular intervals of tokens, wherever blocks end, and nothing is
//! charged for writing. From GPT-5.6 on prefixes match only at breakpoints, which lie at the ends of
//! blocks, and writing is charged. Both keep a cache per organisation, model and `prompt_cache_key`.

use std::collections::{HashMap, VecDeque};

use cachalot_core::{Digest, Millis};

use super::{Caching, Content, Lifetime, OpenAiModel, OpenAiRules, Running};

/// Where a message ends that an implicit breakpoint may follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Of a message that is no place for an implicit breakpoint.
    Other,
    /// Of a user message, or of the last tool result in a row.
    Eligible,
    /// Of the last of the developer messages at the beginning: eligible too, and always looked up.
    Beginning,
}

/// A block of the prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Block {
    /// What it says.
    pub content: Content,
    /// Whether it carries a `prompt_cache_breakpoint`.
    pub is_marked: bool,
    /// Whether a message ends with it.
    pub end: Option<End>,
}

/// Who places breakpoints (from GPT-5.6 on).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// OpenAI places one behind the newest eligible message, beside the explicit ones.
    #[default]
    Implicit,
    /// Only the request does.
    Explicit,
}

/// A request, as far as caching depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Who shares the cache: the organisation.
    pub namespace: Digest,
    /// The model, whose cache is its own.
    pub model: String,
    /// `prompt_cache_key`.
    pub cache_key: Option<String>,
    /// The settings that are rendered ahead of everything.
    pub settings: Content,
    /// Tools, then messages.
    pub blocks: Vec<Block>,
    /// Who places breakpoints.
    pub mode: Mode,
    /// `prompt_cache_retention` or `prompt_cache_options.ttl`, if the request says.
    pub lifetime: Option<String>,
}

impl Prompt {
    /// All its tokens.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        let contents = self.blocks.iter().map(|block| &block.content);
        let all = std::iter::once(&self.settings).chain(contents);
        all.map(Content::tokens).sum()
    }
}

/// Input tokens. Cached and written ones are part of the total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The whole input.
    pub total: u64,
    /// `cached_tokens`.
    pub cached: u64,
    /// `cache_write_tokens`: always 0 where writing is not charged.
    pub written: u64,
}

/// What a request costs, and what it will leave in the cache once its response has begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// What it costs.
    pub usage: Usage,
    started: Millis,
    lifetime: Lifetime,
    /// Written, or used again.
    kept: Vec<Digest>,
}

/// What earlier requests wrote.
#[derive(Debug, Clone, Default)]
pub struct Store {
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
    fn lives(&self, now: Millis) -> bool {
        let by_use = self.used.saturating_add(self.lifetime.idle);
        let by_age = self.written.saturating_add(self.lifetime.most);
        now < by_use && now < by_age
    }
}

/// A prefix at which the cache can match.
struct Boundary {
    digest: Digest,
    tokens: u64,
}

/// The machine that a request is sent to if its route is not crowded.
pub const FIRST_MACHINE: u64 = 0;
/// Tokens at the beginning of a prompt that decide, with the key, which machine gets it.
const ROUTED_BY: u64 = 256;
/// How many endings of earlier messages a lookup tries in implicit mode.
const EARLIER_ENDINGS: usize = 20;
/// How many explicit breakpoints a lookup tries.
const FIRST_EXPLICIT: usize = 2;
const LATEST_EXPLICIT: usize = 50;
/// How many writes a request may do.
const WRITES: usize = 4;

/// What `prompt` costs at `now`, the start of its request, on `machine` (see [`Store::route`]).
/// Changes nothing: see [`Store::begin`].
#[must_use]
pub fn charge(
    prompt: &Prompt,
    rules: &OpenAiRules,
    store: &Store,
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

fn start(prompt: &Prompt, machine: u64) -> Running {
    let key = prompt.cache_key.as_deref().unwrap_or_default();
    Running::new(&[
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
    store: &Store,
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
        .rfind(|boundary| store.lives(&boundary.digest, now));
    let usage = Usage {
        total,
        cached: hit.map_or(0, |hit| hit.tokens),
        written: 0,
    };
    let kept = cacheable.iter().map(|boundary| boundary.digest).collect();
    (usage, kept)
}

/// The prefixes of `prompt` that are multiples of `interval` tokens, and all its tokens. A token is
/// four bytes of a block's text; an image is tokens too, which cannot be told apart.
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
        for token in content.text.as_bytes().chunks(crate::tokens::BYTES) {
            running.bytes(token);
            tokens += 1;
            note(&mut boundaries, &running, tokens, interval);
        }
    }
    (boundaries, tokens)
}

fn note(boundaries: &mut Vec<Boundary>, running: &Running, tokens: u64, interval: u64) {
    if tokens.is_multiple_of(interval) {
        let digest =
            Digest::of_parts(&[running.now().as_bytes(), b"interval", &tokens.to_le_bytes()]);
        boundaries.push(Boundary { digest, tokens });
    }
}

fn exact(
    prompt: &Prompt,
    model: &OpenAiModel,
    store: &Store,
    machine: u64,
    now: Millis,
) -> (Usage, Vec<Digest>) {
    let (ends, total) = block_ends(prompt, machine);
    let cacheable = |at: &usize| ends[*at].tokens >= model.minimum;
    let explicit: Vec<usize> = places(prompt, |block| block.is_marked);
    let eligible: Vec<usize> = match prompt.mode {
        Mode::Implicit => places(prompt, |block| {
            matches!(block.end, Some(End::Eligible | End::Beginning))
        }),
        Mode::Explicit => Vec::new(),
    };
    let is_beginning = |at: &&usize| prompt.blocks[**at].end == Some(End::Beginning);
    let beginning = eligible.iter().find(is_beginning).copied();
    let lives = |at: &usize| store.lives(&ends[*at].digest, now);

    let hit = looked_up(&explicit, &eligible)
        .chain(beginning)
        .filter(cacheable)
        .filter(lives)
        .max();
    // What lies before the hit is read as a part of it: not written, used again if it is there.
    let written: Vec<usize> = written(&explicit, &eligible)
        .filter(cacheable)
        .filter(|at| Some(*at) > hit || lives(at))
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
        // The end of a message is part of its rendering: a longer message does not extend it.
        if block.end.is_some() {
            digest = Digest::of_parts(&[digest.as_bytes(), b"end"]);
        }
        Boundary { digest, tokens }
    });
    let ends: Vec<Boundary> = ends.collect();
    (ends, tokens)
}

fn places(prompt: &Prompt, is_place: impl Fn(&Block) -> bool) -> Vec<usize> {
    (0..prompt.blocks.len())
        .filter(|at| is_place(&prompt.blocks[*at]))
        .collect()
}

/// The boundaries that a lookup tries: the first two and latest fifty explicit ones; in implicit mode
/// also the implicit one and up to twenty eligible endings before it.
fn looked_up<'a>(explicit: &'a [usize], eligible: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    let first = explicit.iter().take(FIRST_EXPLICIT);
    let latest = explicit.iter().rev().take(LATEST_EXPLICIT);
    let endings = eligible.iter().rev().take(1 + EARLIER_ENDINGS);
    first.chain(latest).chain(endings).copied()
}

/// The boundaries that are written: the implicit one takes one of four places.
fn written<'a>(explicit: &'a [usize], eligible: &'a [usize]) -> impl Iterator<Item = usize> + 'a {
    let implicit = eligible.last();
    let places = WRITES - usize::from(implicit.is_some());
    explicit.iter().rev().take(places).chain(implicit).copied()
}

impl Store {
    /// The machine that `prompt` is sent to at `now`. Requests with the same beginning and key go to
    /// the same machine until more than `most` of them (if there is a limit) arrive within a minute:
    /// the others overflow to the next machine, whose cache is its own.
    pub fn route(&mut self, prompt: &Prompt, most: Option<u64>, now: Millis) -> u64 {
        let Some(most) = most.filter(|most| *most > 0) else {
            return FIRST_MACHINE;
        };
        let (beginnings, _) = intervals(prompt, ROUTED_BY, FIRST_MACHINE);
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
        (arrivals.len() as u64 - 1) / most
    }

    /// The response to the request of `charge` has begun: what it wrote can be read, what it used
    /// again lives on.
    pub fn begin(&mut self, charge: &Charge) {
        let now = charge.started;
        for digest in &charge.kept {
            let fresh = Entry {
                written: now,
                used: now,
                lifetime: charge.lifetime,
            };
            let entry = self.entries.entry(*digest).or_insert(fresh);
            if entry.lives(now) {
                entry.used = entry.used.max(now);
            } else if entry.used < now {
                *entry = fresh;
            }
        }
        if self.entries.len() > self.next_sweep.max(10_000) {
            self.entries.retain(|_, entry| entry.lives(now));
            self.next_sweep = self.entries.len() * 2;
        }
    }

    fn lives(&self, digest: &Digest, now: Millis) -> bool {
        self.entries
            .get(digest)
            .is_some_and(|entry| entry.lives(now))
    }
}
