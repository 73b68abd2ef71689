//! Diagnosis of prefix breaks: reasons why the provider could not read a prefix from its cache although it
//! was sent before.
//!
//! [`diagnose`] compares a request with the one that it should have continued: byte by byte, and by the
//! providers' rules. It uses only its arguments. Token counts are those that the provider has reported,
//! distributed by bytes; without a report, four bytes count as one token.

mod causes;
mod cold;
mod detect;
mod lint;
mod messages;
mod reach;
mod rules;
mod site;
mod snippet;
mod spelling;
mod tool_lists;
mod verdict;
mod volatile;
mod volatile_cause;

use std::fmt;
use std::time::Duration;

use cachalot_core::{Cost, Millis, SecretSet};
use cachalot_model::Usage;
use serde::Serialize;
use strum::{Display, IntoStaticStr};

use cachalot_prompt::continuation::{PrefixBreak, divergence};
use cachalot_prompt::{Level, Prompt};

pub use crate::request_view::RequestView;
pub use causes::LikelyCause;
pub use cold::{CachedPrefix, ColdPrefix, cached_prefix, cold_prefix, renewal_interval};
pub use lint::{LintFinding, SuspectText, lint, lint_text};
pub(crate) use messages::user_text;
pub use rules::Rules;
pub(crate) use rules::openai_lifetime;
pub use verdict::ProviderVerdict;

/// Facts about a request in addition to its bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Observations<'a> {
    /// Indexes of the pieces that the previous request, and those that it continued, marked as ends of cached
    /// prefixes. Ignored for providers that cache without markers.
    pub written: &'a [u32],
    /// Prefixes of the previous request whose tokens the provider has counted.
    pub known: &'a [CountedPrefix],
    /// Usage of the previous request.
    pub previous: Option<Usage>,
    /// Usage of this request.
    pub usage: Option<Usage>,
    /// The provider's own comparison of the two requests.
    pub verdict: Option<ProviderVerdict>,
    /// True if the provider has ever reported, for this request or an earlier one, that it read from a cache
    /// or wrote to one. If false, a report of no cache read is not evidence of a break: the provider may not
    /// report cache reads at all.
    pub reports_cache_reads: bool,
    /// Time between the previous request and this one.
    pub elapsed: Option<Duration>,
    /// True if the client recorded that it had replaced the conversation by a summary in between.
    pub is_summarized: bool,
    /// Indexes of the messages that both requests contain, once with a string as the content and once with a list.
    pub respelled: &'a [usize],
    /// Time of this request.
    pub at: Option<Millis>,
}

/// A prefix whose tokens the provider has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CountedPrefix {
    /// Its length in bytes of its pieces.
    pub bytes: u64,
    /// Its tokens.
    pub tokens: u64,
}

/// The prefixes of a conversation whose tokens the provider has counted, from the usage of its answers.
/// Tools, system text and messages differ in bytes per token, so each stretch is measured separately.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CountedPrefixes(Vec<CountedPrefix>);

impl CountedPrefixes {
    /// Maximum number of prefixes.
    const MAX_PREFIXES: usize = 256;

    /// The prefixes, shortest first.
    #[must_use]
    pub fn known(&self) -> &[CountedPrefix] {
        &self.0
    }

    /// Removes prefixes longer than `bytes`: the conversation continues differently after them.
    pub fn cut(&mut self, bytes: u64) {
        self.0.retain(|known| known.bytes <= bytes);
    }

    /// Adds the counts that an answer to this request reports.
    pub fn add(&mut self, request: &RequestView<'_>, usage: Usage) {
        let bytes = request.prompt.bytes();
        let frozen = request.prompt.frozen().bytes();
        self.insert(bytes, usage.total_input());
        // Everything up to the last marker was read or written.
        if let Some(mark) = request.plan.marks().last() {
            let mut nodes = request.prompt.backwards();
            let marked = nodes.find(|node| node.depth == mark.node);
            let bytes = marked.map_or(0, |node| node.total);
            self.insert(bytes, usage.cache_read.saturating_add(usage.cache_write()));
        }
        // Two prefixes that end in the messages give the tokens per byte of messages, and thereby the tokens
        // of tools and system text.
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
        if bytes == 0 || tokens == 0 || self.0.len() == Self::MAX_PREFIXES {
            return;
        }
        let at = self.0.partition_point(|known| known.bytes < bytes);
        let known = CountedPrefix { bytes, tokens };
        match self.0.get_mut(at).filter(|other| other.bytes == bytes) {
            Some(other) => *other = known,
            None => self.0.insert(at, known),
        }
    }
}

/// Reasons why the provider did not read as much from its cache as it might have, in the providers' terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[derive(Display, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// It could read everything, as far as known.
    None,
    /// The model changed.
    ModelChanged,
    /// The tools changed.
    ToolsChanged,
    /// The system text changed.
    SystemChanged,
    /// A message that was sent before changed.
    MessagesChanged,
    /// Another parameter on which the cache depends changed.
    ParametersChanged,
    /// The cached prefix had expired.
    Expired,
    /// The prefix is too short to be cached.
    BelowMinimum,
    /// The cached prefix ends too many blocks before the next marker.
    LookbackExceeded,
    /// The provider caches only at markers, and there were none.
    NotMarked,
    /// The provider read less than it might have, and the request does not show why.
    EvictedOrUnknown,
}

impl Reason {
    /// The reason in the providers' spelling: `system_changed`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The first place where two requests differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BreakPosition {
    /// `tools`, `system`, `messages` or `parameters`.
    pub level: &'static str,
    /// Index of the piece within its level, from 0; always 0 for a parameter.
    pub index: usize,
    /// The first byte within the piece that differs; 0 if the whole piece was replaced.
    pub offset: usize,
    /// The same position within the prefix: bytes of all pieces before it count, without separators.
    pub in_prefix: u64,
    /// The name of the parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
}

impl fmt::Display for BreakPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { level, index, .. } = self;
        match &self.parameter {
            Some(name) => write!(f, "the parameter `{name}`"),
            None => write!(f, "{level}[{index}], byte {}", self.offset),
        }
    }
}

/// The text at the place where two requests differ, before and after: at most 80 characters each, with
/// secrets masked. Empty if there was or is no text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TextChange {
    /// Before.
    pub before: String,
    /// After.
    pub after: String,
}

/// The diagnosis of a cached prefix.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The reason why not everything could be read.
    pub reason: Reason,
    /// The first difference; `None` if this request continues the previous one.
    pub at: Option<BreakPosition>,
    /// The likely cause.
    pub cause: Option<LikelyCause>,
    /// The difference itself.
    pub change: Option<TextChange>,
    /// Tokens that the provider might have read if the prefix had stayed the same.
    pub expected_read_tokens: u64,
    /// Tokens that the provider reports as read.
    pub actual_read: Option<u64>,
    /// Tokens that were paid for again.
    pub lost_tokens: u64,
    /// The additional cost of these tokens compared with reading them; `None` if nothing was lost or there is
    /// no price.
    pub lost_cost: Option<Cost>,
    /// True if the provider's own comparison gives the reason.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_provider: bool,
}

impl Diagnosis {
    /// True if something is wrong with the request's bytes or with the amount that was read.
    #[must_use]
    pub fn is_break(&self) -> bool {
        !matches!(self.reason, Reason::None | Reason::BelowMinimum)
    }

    /// True if the user should be warned: the break cost more than `warn_above`, in US dollars, or 20,000
    /// tokens where there is no price. Always false for an eviction by the provider, which the user cannot
    /// influence.
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

/// Renders one sentence for a user.
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
        if let Some(TextChange { before, after }) = &self.change {
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
/// A request that is shorter, and otherwise equal, is no break. Neither is a difference behind which the
/// provider has read anyway: the diagnosis then has a place, but no reason. Secrets known to `secret_set`, and
/// text that looks like a credential, are masked.
///
/// The provider's own comparison takes precedence: a difference that it does not report is ignored, and one
/// that it reports counts if tokens were lost.
#[must_use]
pub fn diagnose(
    previous: &RequestView<'_>,
    next: &RequestView<'_>,
    observed: &Observations<'_>,
    rules: &Rules,
    secret_set: &SecretSet,
) -> Diagnosis {
    let reach = reach::ReadEstimator {
        previous,
        next,
        observed,
        rules,
    };
    let own = compare(&reach, secret_set);
    match observed.verdict {
        Some(verdict) => verdict.applied_to(own, &reach),
        None => own,
    }
}

/// Compares the two requests, without the provider's comparison.
fn compare(reach: &reach::ReadEstimator<'_>, secret_set: &SecretSet) -> Diagnosis {
    let reach::ReadEstimator {
        previous,
        next,
        rules,
        ..
    } = *reach;
    let parameter = previous.namespace.difference(next.namespace);
    let broken =
        divergence(previous.prompt, next.prompt).filter(|broken| !is_shorter(next.prompt, broken));
    // A changed parameter that invalidates a level invalidates it from its first piece on.
    let parameter = parameter.filter(|field| {
        broken
            .as_ref()
            .is_none_or(|broken| field.level <= broken.level)
    });
    let message_changed = |index, in_prefix, cause| {
        let found = PartialDiagnosis {
            reason: Reason::MessagesChanged,
            at: Some(BreakPosition {
                level: Level::Message.name(),
                index,
                offset: 0,
                in_prefix,
                parameter: None,
            }),
            cause: Some(cause),
            change: None,
        };
        found.with(reach, in_prefix)
    };
    let is_continuation = parameter.is_none() && broken.is_none();
    if rules.images_apart && is_continuation && messages::images_differ(previous, next) {
        let read = reach.before_level(Level::Message);
        return message_changed(0, read, LikelyCause::FirstImage);
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
        return message_changed(dropped.index, read, LikelyCause::ThinkingDropped);
    }
    if let Some(field) = parameter {
        let read = reach.before_level(field.level);
        let found = PartialDiagnosis {
            reason: match field.name.as_str() {
                "model" => Reason::ModelChanged,
                _ => Reason::ParametersChanged,
            },
            at: Some(BreakPosition {
                level: "parameters",
                index: 0,
                offset: 0,
                in_prefix: read,
                parameter: Some(field.name.clone()),
            }),
            cause: Some(detect::parameter(&field.name, next)),
            change: snippet::parameter(&field.name, previous.tail, next.tail, secret_set),
        };
        return found.with(reach, read);
    }
    // The provider has the messages before those of a request that continues a thread.
    let broken = broken
        .filter(|broken| broken.level != Level::Message || !detect::continues_thread(next.tail));
    match broken {
        Some(broken) => diagnose_difference(&broken, reach, secret_set),
        None => without_break(reach),
    }
}

/// True if the only difference is that the request ends earlier.
fn is_shorter(next: &Prompt, broken: &PrefixBreak) -> bool {
    broken.level == Level::Message
        && broken.cause == cachalot_prompt::continuation::BreakCause::Missing
        && next
            .backwards()
            .take_while(|node| node.level == Level::Message)
            .filter(|node| !node.bytes.is_empty())
            .count()
            <= broken.index
}

/// A diagnosis before its tokens and costs are computed.
struct PartialDiagnosis {
    reason: Reason,
    at: Option<BreakPosition>,
    cause: Option<LikelyCause>,
    change: Option<TextChange>,
}

impl PartialDiagnosis {
    /// Returns the diagnosis of a request of which this number of bytes can be read.
    fn with(self, reach: &reach::ReadEstimator<'_>, read: u64) -> Diagnosis {
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
        let (reason, lost) = if at.is_some() && reach.is_refuted(read) {
            (Reason::None, 0)
        } else {
            let read = actual.unwrap_or_else(|| reach.tokens(read));
            (reason, expected.saturating_sub(read))
        };
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

fn diagnose_difference(
    broken: &PrefixBreak,
    reach: &reach::ReadEstimator<'_>,
    secret_set: &SecretSet,
) -> Diagnosis {
    let site = site::DifferenceSite::new(broken, reach.previous.prompt, reach.next.prompt);
    let read = reach.up_to(&site);
    let found = PartialDiagnosis {
        reason: match broken.level {
            Level::Tool => Reason::ToolsChanged,
            Level::System if tool_lists::gives_tools(&site) => Reason::ToolsChanged,
            Level::System => Reason::SystemChanged,
            Level::Message => Reason::MessagesChanged,
        },
        at: Some(BreakPosition {
            level: broken.level.name(),
            index: broken.index,
            offset: site.offset,
            in_prefix: site.bytes_before + site.offset as u64,
            parameter: None,
        }),
        cause: match broken.level {
            Level::Message if reach.observed.is_summarized => Some(LikelyCause::Compaction),
            _ => detect::cause(&site),
        },
        change: Some(snippet::change(&site, secret_set)),
    };
    found.with(reach, read)
}

/// Diagnoses two requests whose bytes do not differ, by the rules and the provider's report.
fn without_break(reach: &reach::ReadEstimator<'_>) -> Diagnosis {
    let all = reach.everything();
    let (reason, cause) = reach.reason_without_change();
    let found = PartialDiagnosis {
        reason,
        at: None,
        cause,
        change: None,
    };
    let diagnosis = found.with(reach, all);
    match reason {
        Reason::None | Reason::BelowMinimum => Diagnosis {
            lost_tokens: 0,
            lost_cost: None,
            ..diagnosis
        },
        Reason::EvictedOrUnknown => diagnosis,
        // The provider could not read these tokens, even if it does not report cache reads.
        _ => {
            let lost = match diagnosis.actual_read {
                Some(_) => diagnosis.lost_tokens,
                None => reach.lost_without_change(reason),
            };
            let respelled = reach.respelled();
            let respelled = respelled.filter(|_| cause == Some(LikelyCause::StringOrParts));
            Diagnosis {
                at: respelled.map(|index| reach.message(index)),
                lost_tokens: lost,
                lost_cost: reach.cost_of(lost),
                ..diagnosis
            }
        }
    }
}
