//! Why the provider could not read from its cache what it had been sent before.
//!
//! [`diagnose`] compares a request with the one that it should have continued: byte by byte, and by
//! the providers' rules. It computes from what it is given and looks at nothing else. Tokens are
//! those that the provider has reported, shared out by bytes; without a report, four bytes are taken
//! for a token.

mod causes;
mod detect;
mod lint;
mod messages;
mod reach;
mod rules;
mod snippet;
mod verdict;
mod volatile;

use std::fmt;
use std::time::Duration;

use cachalot_core::{Cost, Seals};
use cachalot_model::Usage;
use serde::Serialize;

use cachalot_prompt::Namespace;
use cachalot_prompt::Plan;
use cachalot_prompt::continuation::{Break, divergence};
use cachalot_prompt::{Level, Prompt};

pub use causes::LikelyCause;
pub use lint::{Finding, Suspect, lint, lint_text};
pub(crate) use messages::said_by_user;
pub use rules::Rules;
pub use verdict::Verdict;

/// A request, as far as the provider's cache looks at it.
#[derive(Debug, Clone, Copy)]
pub struct Sending<'a> {
    /// The pieces.
    pub prompt: &'a Prompt,
    /// The parameters that the provider's cache depends on.
    pub namespace: &'a Namespace,
    /// The cache markers.
    pub plan: &'a Plan,
    /// The body's other members; `}` if they are not known, and then no values of them are shown.
    pub tail: &'a [u8],
}

/// What is known of a request beside its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Observed<'a> {
    /// The pieces behind which the provider was asked to remember the prefix, by the request before
    /// and by those that it continued: the indexes of marked pieces. Of no account for providers
    /// that cache by themselves.
    pub written: &'a [u32],
    /// Prefixes of the request before whose tokens the provider has counted.
    pub known: &'a [Known],
    /// What the request before used.
    pub previous: Option<Usage>,
    /// What this request used.
    pub usage: Option<Usage>,
    /// The provider's own comparison of the two requests.
    pub verdict: Option<Verdict>,
    /// Whether the provider has ever told, of this request or an earlier one, that it read something
    /// from a cache or wrote it there. Where it has not, that it read nothing is not held against it:
    /// it may have no word for it.
    pub tells: bool,
    /// How long after the request before it was sent.
    pub elapsed: Option<Duration>,
}

/// A prefix whose tokens the provider has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Known {
    /// Its length in bytes of its pieces.
    pub bytes: u64,
    /// Its tokens.
    pub tokens: u64,
}

/// The prefixes of a conversation whose tokens the provider has counted: from the usage of its answers.
/// Tools, system text and messages have tokens of different lengths, so each stretch is measured by
/// itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted(Vec<Known>);

impl Counted {
    /// Prefixes that are kept at most.
    const MOST: usize = 256;

    /// The prefixes, shortest first.
    #[must_use]
    pub fn known(&self) -> &[Known] {
        &self.0
    }

    /// Forgets prefixes that are longer than this, in bytes: the conversation goes on differently.
    pub fn cut(&mut self, bytes: u64) {
        self.0.retain(|known| known.bytes <= bytes);
    }

    /// Adds what an answer to this request reports.
    pub fn add(&mut self, request: &Sending<'_>, usage: Usage) {
        let bytes = request.prompt.bytes();
        let frozen = request.prompt.frozen().bytes();
        self.insert(bytes, usage.total_input());
        // Everything up to the last marker was read or written.
        if let Some(mark) = request.plan.marks().last() {
            let mut nodes = request.prompt.backwards();
            let marked = nodes.find(|node| node.depth == mark.node);
            let bytes = marked.map_or(0, |node| node.total);
            self.insert(bytes, usage.cache_read + usage.cache_write());
        }
        // Two lengths of the messages give their density, and that the length of what stands before.
        let mut messages = self.0.iter().filter(|known| known.bytes > frozen);
        if let (Some(first), Some(last)) = (messages.next(), messages.next_back())
            && !self.0.iter().any(|known| known.bytes == frozen)
        {
            let over = u128::from(last.tokens.saturating_sub(first.tokens));
            let of = u128::from(last.bytes - first.bytes).max(1);
            let before = u128::from(first.bytes - frozen) * over / of;
            let before = u64::try_from(before).unwrap_or(u64::MAX);
            let tokens = first.tokens.saturating_sub(before);
            self.insert(frozen, tokens);
        }
    }

    fn insert(&mut self, bytes: u64, tokens: u64) {
        if bytes == 0 || tokens == 0 || self.0.len() == Self::MOST {
            return;
        }
        let at = self.0.partition_point(|known| known.bytes < bytes);
        let known = Known { bytes, tokens };
        match self.0.get_mut(at).filter(|other| other.bytes == bytes) {
            Some(other) => *other = known,
            None => self.0.insert(at, known),
        }
    }
}

/// Why the provider could not read from its cache what it might have, in the providers' words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// It could read everything, as far as is known.
    None,
    /// Another model.
    ModelChanged,
    /// Other tools.
    ToolsChanged,
    /// Another system text.
    SystemChanged,
    /// Something that had been sent among the messages is not what it was.
    MessagesChanged,
    /// Another parameter that the cache depends on.
    ParametersChanged,
    /// What was cached had been forgotten in the meantime.
    Expired,
    /// The prefix is too short to be cached.
    BelowMinimum,
    /// What was cached lies too far before the next marker.
    LookbackExceeded,
    /// The provider caches at markers only, and there were none.
    NotMarked,
    /// The provider read less than it might have; nothing in the request says why.
    EvictedOrUnknown,
}

impl Reason {
    /// As the providers write it: `system_changed`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ModelChanged => "model_changed",
            Self::ToolsChanged => "tools_changed",
            Self::SystemChanged => "system_changed",
            Self::MessagesChanged => "messages_changed",
            Self::ParametersChanged => "parameters_changed",
            Self::Expired => "expired",
            Self::BelowMinimum => "below_minimum",
            Self::LookbackExceeded => "lookback_exceeded",
            Self::NotMarked => "not_marked",
            Self::EvictedOrUnknown => "evicted_or_unknown",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The first place where two requests differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct At {
    /// `tools`, `system`, `messages` or `parameters`.
    pub level: &'static str,
    /// Which piece of its level, from 0; of a parameter, always 0.
    pub index: usize,
    /// The first byte that differs, within the piece; 0 if the whole piece is another.
    pub offset: usize,
    /// The same within the prefix: the bytes of all pieces before, without what joins them, count too.
    pub in_prefix: u64,
    /// The parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, index, .. } = self;
        match &self.parameter {
            Some(name) => write!(f, "the parameter `{name}`"),
            None => write!(f, "{level}[{index}], byte {}", self.offset),
        }
    }
}

/// What stood at the place where two requests differ, and what stands there now: at most 80
/// characters each, with secrets masked. Empty if nothing stood or stands there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Before.
    pub before: String,
    /// After.
    pub after: String,
}

/// What became of a cached prefix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// Why not everything could be read.
    pub reason: Reason,
    /// Where the requests differ first; `None` if this one continues the one before.
    pub at: Option<At>,
    /// What has probably caused it.
    pub cause: Option<LikelyCause>,
    /// What differs.
    pub change: Option<Change>,
    /// How many tokens the provider might have read, had the prefix stayed the same.
    pub expected_read_tokens: u64,
    /// How many it says that it has read.
    pub actual_read: Option<u64>,
    /// How many were paid for anew.
    pub lost_tokens: u64,
    /// What that cost, over reading them; `None` if nothing was lost or there is no price.
    pub lost_cost: Option<Cost>,
    /// True if the provider's own comparison gives the reason.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_provider: bool,
}

impl Diagnosis {
    /// Whether anything is wrong: with the request's bytes, or with what was read.
    #[must_use]
    pub fn is_break(&self) -> bool {
        !matches!(self.reason, Reason::None | Reason::BelowMinimum)
    }

    /// Whether the user is warned of it: it cost more than `warn_above`, in US dollars, or 20,000 tokens
    /// where there is no price. Never for an eviction by the provider, which the user cannot change.
    #[must_use]
    pub fn is_worth_warning(&self, warn_above: f64) -> bool {
        const MANY_TOKENS: u64 = 20_000;
        if self.reason == Reason::EvictedOrUnknown {
            return false;
        }
        match self.lost_cost.filter(|cost| cost.unpriced == 0) {
            Some(cost) => cost.dollars() > warn_above,
            None => self.lost_tokens >= MANY_TOKENS,
        }
    }
}

/// One sentence for a user.
impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the provider could not read what it had been sent before ({}",
            self.reason
        )?;
        if self.by_provider {
            f.write_str(" by its own comparison")?;
        }
        if let Some(at) = &self.at {
            write!(f, " at {at}")?;
        }
        f.write_str(")")?;
        if let Some(cause) = self.cause {
            write!(f, ": {}", cause.what())?;
        }
        if let Some(Change { before, after }) = &self.change {
            write!(f, " (`{before}` became `{after}`)")?;
        }
        write!(f, "; {} tokens were paid for anew", self.lost_tokens)?;
        match self.lost_cost {
            Some(cost) => write!(f, ", which cost {cost} more"),
            None => Ok(()),
        }
    }
}

/// Compares a request with the one before it.
///
/// A request that is shorter, and in which nothing differs, breaks nothing. Neither does a difference
/// behind which the provider has read all the same: then the place is told, and no reason. Secrets that `seals`
/// knows, and whatever looks like a credential, is masked in what is shown.
///
/// The provider's own comparison has precedence: what it finds equal is no difference, and what it finds
/// different is one, as long as tokens were lost.
#[must_use]
pub fn diagnose(
    previous: &Sending<'_>,
    next: &Sending<'_>,
    observed: &Observed<'_>,
    rules: &Rules,
    seals: &Seals,
) -> Diagnosis {
    let reach = reach::Reach {
        previous,
        next,
        observed,
        rules,
    };
    let own = compare(&reach, seals);
    match observed.verdict {
        Some(verdict) => verdict.applied_to(own, &reach),
        None => own,
    }
}

/// Diagnoses by the two requests alone.
fn compare(reach: &reach::Reach<'_>, seals: &Seals) -> Diagnosis {
    let reach::Reach {
        previous,
        next,
        rules,
        ..
    } = *reach;
    let parameter = previous.namespace.difference(next.namespace);
    let broken =
        divergence(previous.prompt, next.prompt).filter(|broken| !is_shorter(next.prompt, broken));
    // A parameter that costs a level costs it from its first piece on.
    let parameter = parameter.filter(|field| {
        broken
            .as_ref()
            .is_none_or(|broken| field.level <= broken.level)
    });
    let goes_on = parameter.is_none() && broken.is_none();
    if rules.images_apart && goes_on && messages::images_differ(previous, next) {
        let read = reach.before_level(Level::Message);
        let found = Found {
            reason: Reason::MessagesChanged,
            at: Some(At {
                level: "messages",
                index: 0,
                offset: 0,
                in_prefix: read.bytes,
                parameter: None,
            }),
            cause: Some(LikelyCause::FirstImage),
            change: None,
        };
        return found.with(reach, &read);
    }
    let dropped = rules
        .drops_thinking
        .then(|| messages::dropped_thinking(previous, next));
    let dropped = dropped.flatten().filter(|dropped| {
        let earlier = broken
            .as_ref()
            .is_none_or(|at| (at.level, at.index) > (Level::Message, dropped.index));
        parameter.is_none() && earlier
    });
    if let Some(dropped) = dropped {
        let read = reach.before_piece(dropped.depth);
        let found = Found {
            reason: Reason::MessagesChanged,
            at: Some(At {
                level: "messages",
                index: dropped.index,
                offset: 0,
                in_prefix: read.bytes,
                parameter: None,
            }),
            cause: Some(LikelyCause::ThinkingDropped),
            change: None,
        };
        return found.with(reach, &read);
    }
    if let Some(field) = parameter {
        let read = reach.before_level(field.level);
        let found = Found {
            reason: match field.name.as_str() {
                "model" => Reason::ModelChanged,
                _ => Reason::ParametersChanged,
            },
            at: Some(At {
                level: "parameters",
                index: 0,
                offset: 0,
                in_prefix: read.bytes,
                parameter: Some(field.name.clone()),
            }),
            cause: Some(detect::parameter(&field.name, next)),
            change: snippet::parameter(&field.name, previous.tail, next.tail, seals),
        };
        return found.with(reach, &read);
    }
    match broken {
        Some(broken) => of_bytes(&broken, reach, seals),
        None => without_break(reach),
    }
}

/// Whether the break is only that the request ends earlier.
fn is_shorter(next: &Prompt, broken: &Break) -> bool {
    broken.level == Level::Message
        && broken.cause == cachalot_prompt::continuation::Cause::Missing
        && next
            .backwards()
            .take_while(|node| node.level == Level::Message)
            .filter(|node| !node.bytes.is_empty())
            .count()
            <= broken.index
}

/// What is wrong, before it is counted what that costs.
struct Found {
    reason: Reason,
    at: Option<At>,
    cause: Option<LikelyCause>,
    change: Option<Change>,
}

impl Found {
    fn with(self, reach: &reach::Reach<'_>, read: &reach::Readable) -> Diagnosis {
        let Self {
            reason,
            at,
            cause,
            change,
        } = self;
        let expected = match reason {
            Reason::ModelChanged => reach.expected_of_another_model(),
            _ => reach.expected(),
        };
        let actual = reach.actual();
        if at.is_some() && reach.is_refuted(read) {
            return Diagnosis {
                reason: Reason::None,
                at,
                cause,
                change,
                expected_read_tokens: expected,
                actual_read: actual,
                lost_tokens: 0,
                lost_cost: None,
                by_provider: false,
            };
        }
        let lost = expected.saturating_sub(actual.unwrap_or_else(|| reach.tokens(read)));
        Diagnosis {
            reason,
            at,
            cause,
            change,
            expected_read_tokens: expected,
            actual_read: actual,
            lost_tokens: lost,
            lost_cost: reach.cost_of(lost),
            by_provider: false,
        }
    }
}

fn of_bytes(broken: &Break, reach: &reach::Reach<'_>, seals: &Seals) -> Diagnosis {
    let site = detect::Site::of(broken, reach.previous.prompt, reach.next.prompt);
    let read = reach.up_to(&site);
    let found = Found {
        reason: match broken.level {
            Level::Tool => Reason::ToolsChanged,
            Level::System => Reason::SystemChanged,
            Level::Message => Reason::MessagesChanged,
        },
        at: Some(At {
            level: match broken.level {
                Level::Tool => "tools",
                Level::System => "system",
                Level::Message => "messages",
            },
            index: broken.index,
            offset: site.offset,
            in_prefix: site.bytes_before + site.offset as u64,
            parameter: None,
        }),
        cause: detect::cause(&site),
        change: Some(snippet::change(&site, seals)),
    };
    found.with(reach, &read)
}

/// The bytes go on as they should: what the rules and the provider's report say.
fn without_break(reach: &reach::Reach<'_>) -> Diagnosis {
    let all = reach.everything();
    let (reason, cause) = reach.silent_loss();
    let found = Found {
        reason,
        at: None,
        cause,
        change: None,
    };
    let diagnosis = found.with(reach, &all);
    match reason {
        Reason::None | Reason::BelowMinimum => Diagnosis {
            lost_tokens: 0,
            lost_cost: None,
            ..diagnosis
        },
        Reason::EvictedOrUnknown => diagnosis,
        // Whether or not the provider has said so, this is what it could not read.
        _ => {
            let lost = match diagnosis.actual_read {
                Some(_) => diagnosis.lost_tokens,
                None => reach.lost_silently(reason),
            };
            Diagnosis {
                lost_tokens: lost,
                lost_cost: reach.cost_of(lost),
                ..diagnosis
            }
        }
    }
}
