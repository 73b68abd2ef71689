//! Computation of the prefix that a provider can read: in bytes by its rules, in tokens by its reports.

use std::time::Duration;

use cachalot_core::Cost;
use cachalot_model::wire::MarkerTime;
use cachalot_model::{Terms, Usage, price};
use serde_json::Value;

use super::site::DifferenceSite;
use super::{
    BreakPosition, CountedPrefix, LikelyCause, Observations, Reason, RequestView, Rules, detect,
};
use cachalot_prompt::Mark;
use cachalot_prompt::{Level, Node};

/// Estimated bytes per token, where no provider has reported counts.
const BYTES_PER_TOKEN: u64 = 4;

/// Tolerance for differences of providers' counts beyond their granularity, such as message frames and hidden
/// prompts.
const SLACK: u64 = 128;

/// Maximum error of an estimated stretch in tokens; below it, the error is a tenth of the stretch.
const MAX_ESTIMATE_ERROR: u64 = 1_000;

/// A request that follows within this many seconds may have been sent before the previous one was answered.
const MAX_CONCURRENT_SECONDS: u64 = 2;

/// Computes the part of a request that could be read, in bytes, and compares it with the part that was.
pub(super) struct ReadEstimator<'a> {
    pub(super) previous: &'a RequestView<'a>,
    pub(super) next: &'a RequestView<'a>,
    pub(super) observed: &'a Observations<'a>,
    pub(super) rules: &'a Rules,
}

impl ReadEstimator<'_> {
    /// The readable part before the first piece of a level.
    pub(super) fn before_level(&self, level: Level) -> u64 {
        let nodes = self.next.prompt.backwards();
        let mut before = nodes.skip_while(|node| node.level >= level);
        self.limited(before.next())
    }

    /// The readable part before a piece of the request.
    pub(super) fn before_piece(&self, depth: u32) -> u64 {
        let mut nodes = self.next.prompt.backwards();
        self.limited(nodes.find(|node| node.depth < depth))
    }

    /// The readable part before the difference.
    pub(super) fn up_to(&self, site: &DifferenceSite<'_>) -> u64 {
        let read = self.limited(site.last_common);
        if self.rules.lookback.is_some() {
            return read;
        }
        // A provider that caches without markers reads into the differing piece.
        read + site.offset as u64
    }

    pub(super) fn everything(&self) -> u64 {
        self.limited(self.previous.prompt.last().map(AsRef::as_ref))
    }

    /// The readable part of a prefix that ends with this piece.
    fn limited(&self, last: Option<&Node>) -> u64 {
        let Some(last) = last else {
            return 0;
        };
        let Some(lookback) = self.rules.lookback else {
            return last.total;
        };
        let read = self.read_at(last.depth, lookback);
        read.map_or(0, |node| node.total)
    }

    /// Returns the last piece, up to the one at `depth`, that ends a cached prefix and is within the
    /// look-back of a marker.
    fn read_at(&self, depth: u32, lookback: u32) -> Option<&Node> {
        let mut marks = self.next.plan.marks().iter().rev().peekable();
        let mut left = 0;
        for node in self.next.prompt.backwards() {
            if marks.next_if(|mark| mark.node == node.depth).is_some() {
                left = lookback;
            }
            if left > 0 && node.depth <= depth && self.observed.written.contains(&node.depth) {
                return Some(node);
            }
            if left > 0 {
                left = left.saturating_sub(blocks(node, self.rules));
            } else if marks.peek().is_none() {
                return None;
            }
        }
        None
    }

    /// Tokens that the provider reports as read; `None` for a provider that does not report cache reads,
    /// because its zero has no meaning.
    pub(super) fn actual(&self) -> Option<u64> {
        let usage = self
            .observed
            .usage
            .filter(|_| self.observed.reports_cache_reads)?;
        Some(usage.cache_read)
    }

    /// True if the provider has read beyond a place and as much as it might have: the difference there does
    /// not affect its cache.
    pub(super) fn is_refuted(&self, place: u64) -> bool {
        let (expected, place) = (self.expected(), self.tokens(place));
        // If the two are close, the count must be closer to the whole.
        let is_nearer =
            |actual: u64| actual.saturating_sub(place) > expected.saturating_sub(actual);
        self.has_read_enough() && self.actual().is_some_and(is_nearer)
    }

    /// True if the provider reports that it has read what it might have.
    pub(super) fn has_read_enough(&self) -> bool {
        let enough = self.enough(self.expected_bytes());
        self.actual().is_some_and(|actual| actual >= enough)
    }

    /// Tokens that the provider might have read without any change.
    pub(super) fn expected(&self) -> u64 {
        self.tokens(self.expected_bytes())
    }

    /// The same for a changed model: tokens count even if the prefix is too short for the new model's cache,
    /// because they are paid for again.
    pub(super) fn expected_of_another_model(&self) -> u64 {
        let was_cached = self
            .observed
            .previous
            .is_some_and(|usage| usage.cache_read > 0 || usage.cache_write() > 0);
        if was_cached {
            self.scaled(self.expected_bytes())
        } else {
            self.expected()
        }
    }

    fn expected_bytes(&self) -> u64 {
        let bytes = match self.rules.lookback {
            None => self.previous.prompt.bytes(),
            Some(_) => {
                let last = self.observed.written.iter().max();
                last.map_or(0, |node| total_at(self.previous, *node))
            }
        };
        bytes.min(self.next.prompt.bytes())
    }

    /// Tokens of the prefix; 0 if it is too short to be cached.
    pub(super) fn tokens(&self, bytes: u64) -> u64 {
        let tokens = self.scaled(bytes);
        match self.rules.minimum {
            Some(minimum) if tokens < minimum => 0,
            _ => tokens,
        }
    }

    fn scaled(&self, bytes: u64) -> u64 {
        self.estimated(bytes).0
    }

    /// Estimates the tokens of a prefix and the error of the estimate. Between two prefixes that the provider
    /// has counted, tokens are interpolated by bytes.
    fn estimated(&self, bytes: u64) -> (u64, u64) {
        let known = self.observed.known;
        let total = |sending: &RequestView<'_>, usage: Option<Usage>| {
            let tokens = usage?.total_input();
            let bytes = sending.prompt.bytes();
            (tokens > 0 && bytes > 0).then_some(CountedPrefix { bytes, tokens })
        };
        let whole = total(self.previous, self.observed.previous)
            .or_else(|| total(self.next, self.observed.usage));
        // For two prefixes with the same length, the one up to a marker is exact.
        let points = || whole.into_iter().chain(known.iter().copied());
        let before = points().filter(|point| point.bytes <= bytes);
        let before = before.max_by_key(|point| point.bytes).unwrap_or_default();
        if before.bytes == bytes {
            return (before.tokens, 0);
        }
        let behind = points().filter(|point| point.bytes > bytes && point.tokens >= before.tokens);
        let behind = behind.min_by_key(|point| point.bytes);
        // Beyond the counted prefixes, the average density applies.
        let (over, of) = match (behind, whole) {
            (Some(behind), _) => (behind.tokens - before.tokens, behind.bytes - before.bytes),
            (None, Some(whole)) => (whole.tokens, whole.bytes),
            (None, None) => (1, BYTES_PER_TOKEN),
        };
        let rest = u128::from(bytes - before.bytes) * u128::from(over) / u128::from(of);
        let rest = u64::try_from(rest).unwrap_or(u64::MAX);
        let error = match (behind, whole) {
            (None, None) => rest / 20,
            _ => (rest / 10).min(MAX_ESTIMATE_ERROR),
        };
        (before.tokens.saturating_add(rest), error)
    }

    /// Tokens that must have been read for nothing to be lost.
    fn enough(&self, bytes: u64) -> u64 {
        let (tokens, error) = self.estimated(bytes);
        let expected = self.tokens(bytes);
        // Without any count, the estimate is a guess.
        let error = match self.observed.previous.or(self.observed.usage) {
            None => error.max(tokens / 20),
            Some(_) => error,
        };
        expected.saturating_sub(error + self.rules.granularity + SLACK)
    }

    /// The additional cost of `lost` tokens compared with reading them.
    pub(super) fn cost_of(&self, lost: u64) -> Option<Cost> {
        if lost == 0 {
            return None;
        }
        let all = match self.observed.usage {
            Some(usage) => usage.total_input(),
            None => self.scaled(self.next.prompt.bytes()),
        };
        let others = Usage::from_counts(all.saturating_sub(lost), 0);
        let read = Usage {
            cache_read: lost,
            ..others
        };
        let paid = self.rewritten_usage(lost, others);
        let (paid, read) = (self.standard_cost(&paid)?, self.standard_cost(&read)?);
        let cost = paid.picodollars.saturating_sub(read.picodollars);
        Some(Cost::from_picodollars(cost))
    }

    /// Returns the cost of a usage at the standard price: the terms of an answer are not part of a diagnosis.
    pub(super) fn standard_cost(&self, usage: &Usage) -> Option<Cost> {
        let listed = self.rules.price.as_ref()?;
        let at = self.observed.at.unwrap_or_default();
        price(
            usage,
            &self.rules.model,
            Some(listed),
            at,
            &Terms::default(),
        )
        .ok()
    }

    /// Usage as it was paid for tokens that might have been read: written as the provider reports it, or as
    /// the request's markers asked for.
    fn rewritten_usage(&self, lost: u64, others: Usage) -> Usage {
        let mut paid = others;
        if let Some(usage) = self.observed.usage.filter(|usage| usage.cache_write() > 0) {
            let all = usage.cache_write();
            let written = lost.min(all);
            let share = |of: u64| {
                let share = u128::from(written) * u128::from(of) / u128::from(all);
                u64::try_from(share).unwrap_or(u64::MAX)
            };
            paid.cache_write_1h = share(usage.cache_write_1h);
            paid.cache_write_12h = share(usage.cache_write_12h);
            paid.cache_write_other = share(usage.cache_write_other);
            let others = paid.cache_write_1h + paid.cache_write_12h + paid.cache_write_other;
            paid.cache_write_5m = written - others;
            paid.uncached_input += lost - written;
            return paid;
        }
        let Some(last) = self.next.plan.marks().last() else {
            if self.rules.lookback.is_some() {
                paid.uncached_input += lost;
            } else {
                paid.cache_write_other = lost;
            }
            return paid;
        };
        // Each marker requests the lifetime of the part between the previous marker and itself. The lost tokens are
        // the last ones of those that might have been read.
        let mut rest = lost;
        let mut begin = self.expected().saturating_sub(lost);
        for mark in self.next.plan.marks() {
            let end = self.scaled(total_at(self.next, mark.node));
            let part = if mark == last {
                rest
            } else {
                end.saturating_sub(begin).min(rest)
            };
            match mark.time {
                MarkerTime::TwelveHours => paid.cache_write_12h += part,
                MarkerTime::OneHour => paid.cache_write_1h += part,
                MarkerTime::FiveMinutes => paid.cache_write_5m += part,
            }
            rest -= part;
            begin = begin.max(end);
        }
        paid
    }

    /// Returns the reason why less than everything was or can be read, although the bytes do not differ.
    pub(super) fn reason_without_change(&self) -> (Reason, Option<LikelyCause>) {
        let actual = self.actual();
        let could = self.scaled(self.next.prompt.bytes());
        if self.rules.minimum.is_some_and(|minimum| could < minimum) {
            return (Reason::BelowMinimum, Some(LikelyCause::BelowMinimum));
        }
        let expected = self.expected();
        let enough = self.enough(self.expected_bytes());
        if expected > 0 && self.has_read_enough() {
            return (Reason::None, None);
        }
        if self.rules.lookback.is_some() {
            if self.next.plan.marks().is_empty() && actual.unwrap_or(0) == 0 {
                let cause = if self.previous.plan.marks().is_empty() {
                    LikelyCause::NoMarkers
                } else {
                    LikelyCause::MarkersDropped
                };
                return (Reason::NotMarked, Some(cause));
            }
            if self.has_expired() {
                return (Reason::Expired, Some(LikelyCause::Expired));
            }
            if expected > 0 && self.tokens(self.everything()) < enough {
                return (Reason::LookbackExceeded, Some(LikelyCause::Lookback));
            }
        }
        let has_marks = !self.next.plan.marks().is_empty();
        if self.rules.explicit_only && !has_marks && actual.unwrap_or(0) == 0 {
            let cause = LikelyCause::ExplicitWithoutBreakpoints;
            return (Reason::NotMarked, Some(cause));
        }
        if expected == 0 || actual.is_none() {
            return (Reason::None, None);
        }
        if self.respelled().is_some() {
            return (Reason::MessagesChanged, Some(LikelyCause::StringOrParts));
        }
        let at_once = |elapsed: Duration| elapsed.as_secs() < MAX_CONCURRENT_SECONDS;
        if self.observed.elapsed.is_some_and(at_once) {
            return (Reason::EvictedOrUnknown, Some(LikelyCause::FanOut));
        }
        let over = self.observed.elapsed.zip(self.rules.lifetime);
        if over.is_some_and(|(elapsed, lifetime)| elapsed > lifetime) && self.has_read_long_marks()
        {
            return (Reason::Expired, Some(LikelyCause::RetentionExpired));
        }
        // Providers are not known to read these, so that they explain only what nothing else does.
        match detect::unread_parameter(self.previous.tail, self.next.tail) {
            Some(cause) => (Reason::ParametersChanged, Some(cause)),
            None => (Reason::EvictedOrUnknown, None),
        }
    }

    /// Returns the first message in another spelling before which the provider has read all that is cached, and behind
    /// which nothing. Spellings before and after that were read anyway make no difference to the provider.
    pub(super) fn respelled(&self) -> Option<usize> {
        let actual = self.actual().filter(|actual| *actual > 0)?;
        let frozen = self.next.prompt.frozen().len();
        let tokens_at = |node: u32| self.scaled(total_at(self.previous, node));
        let ends_at = |index: &usize| {
            let depth = u32::try_from(frozen + index).unwrap_or(u32::MAX);
            if self.rules.lookback.is_none() {
                let before = depth.checked_sub(1);
                let before = before.map_or(0, |node| total_at(self.previous, node));
                return actual >= self.enough(before) && actual < tokens_at(depth);
            }
            // The cached prefix with the nearest number of tokens was read.
            let written = self.observed.written.iter();
            let read = written.min_by_key(|node| tokens_at(**node).abs_diff(actual));
            let before = self.observed.written.iter().filter(|node| **node < depth);
            read.is_some() && read == before.max()
        };
        self.observed.respelled.iter().copied().find(ends_at)
    }

    /// Returns the place of a message.
    pub(super) fn message(&self, index: usize) -> BreakPosition {
        let depth = self.next.prompt.frozen().len() + index;
        let mut nodes = self.next.prompt.backwards();
        let before = nodes.find(|node| (node.depth as usize) < depth);
        BreakPosition {
            level: Level::Message.name(),
            index,
            offset: 0,
            in_prefix: before.map_or(0, |node| node.total),
            parameter: None,
        }
    }

    /// True if the lifetime of the last marker is over. Each marker has its own lifetime: the prefix of a
    /// marker that is still alive must have been read, if the provider reports cache reads.
    fn has_expired(&self) -> bool {
        let marks = self.previous.plan.marks();
        let last = marks.last();
        last.is_some_and(|mark| self.is_over(mark))
            && self
                .actual()
                .is_none_or(|actual| actual >= self.enough(self.kept_bytes()))
    }

    /// True if everything was read that the previous request marked for twelve hours, while that lasts.
    fn has_read_long_marks(&self) -> bool {
        let mut marks = self.previous.plan.marks().iter().rev();
        let long = marks.find(|mark| mark.time == MarkerTime::TwelveHours && !self.is_over(mark));
        let bytes = long.map_or(0, |mark| total_at(self.previous, mark.node));
        bytes == 0
            || self
                .actual()
                .is_none_or(|actual| actual >= self.enough(bytes))
    }

    fn is_over(&self, mark: &Mark) -> bool {
        let elapsed = self.observed.elapsed;
        elapsed.is_some_and(|elapsed| elapsed > lifetime(mark))
    }

    /// Returns the lifetime of the previous request's prefix, and the tokens of it that live longer, if `idle` exceeds that
    /// lifetime.
    pub(super) fn expired(&self, idle: Duration) -> Option<(Duration, u64)> {
        let lifetime = self.lifetime()?;
        (idle > lifetime).then(|| (lifetime, self.kept()))
    }

    /// Returns the published lifetime of the previous request's prefix.
    pub(super) fn lifetime(&self) -> Option<Duration> {
        let last = self.previous.plan.marks().last();
        let of_prefix = match self.rules.lookback {
            Some(_) => Some(lifetime(last?)),
            None if self.rules.is_lifetime_assumed => None,
            None => self.rules.lifetime,
        }?;
        Some(of_prefix.max(last.map_or(of_prefix, lifetime)))
    }

    /// Tokens before the last marker of the previous request whose lifetime is not over.
    fn kept(&self) -> u64 {
        self.tokens(self.kept_bytes())
    }

    fn kept_bytes(&self) -> u64 {
        let mut marks = self.previous.plan.marks().iter().rev();
        let last = marks.find(|mark| !self.is_over(mark));
        last.map_or(0, |mark| total_at(self.previous, mark.node))
    }

    /// Tokens that a request loses for a reason that its bytes do not show.
    pub(super) fn lost_without_change(&self, reason: Reason) -> u64 {
        match reason {
            Reason::NotMarked => {
                let bytes = self.previous.prompt.bytes().min(self.next.prompt.bytes());
                self.tokens(bytes)
            }
            Reason::LookbackExceeded => {
                let read = self.tokens(self.everything());
                self.expected().saturating_sub(read)
            }
            Reason::Expired => self.expected().saturating_sub(self.kept()),
            _ => self.expected(),
        }
    }
}

/// Returns the lifetime of what a marker ends.
fn lifetime(mark: &Mark) -> Duration {
    match mark.time {
        MarkerTime::TwelveHours => Duration::from_hours(12),
        MarkerTime::OneHour => Duration::from_hours(1),
        MarkerTime::FiveMinutes => Duration::from_mins(5),
    }
}

fn total_at(sending: &RequestView<'_>, index: u32) -> u64 {
    let mut nodes = sending.prompt.backwards();
    let node = nodes.find(|node| node.depth <= index);
    node.map_or(0, |node| node.total)
}

/// Number of blocks of a piece that count in a look-back: the elements of its content, or 1.
fn blocks(node: &Node, rules: &Rules) -> u32 {
    let message: Value = match node.level {
        Level::Message => serde_json::from_slice(&node.bytes).unwrap_or_default(),
        Level::Tool | Level::System => Value::Null,
    };
    let content = message.get("content").and_then(Value::as_array);
    let mut before = None;
    let counted = content.into_iter().flatten().filter(|block| {
        let kind = block.get("type").and_then(Value::as_str);
        let kind = kind.filter(|kind| ["tool_use", "tool_result"].contains(kind));
        let is_continuation = rules.runs_count_once && kind.is_some() && kind == before;
        before = kind;
        !is_continuation
    });
    u32::try_from(counted.count()).unwrap_or(u32::MAX).max(1)
}
