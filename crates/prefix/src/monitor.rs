//! Diagnosis of a running conversation: compares each request with the one before it.

use std::time::Duration;

use bytes::Bytes;
use cachalot_core::{Millis, SecretSet};
use cachalot_model::{ComparisonParameter, Format, Reply, Usage};

use crate::diagnosis::{
    ColdPrefix, CountedPrefixes, Diagnosis, Observations, ProviderVerdict, RequestView, Rules,
    cold_prefix, diagnose,
};
use crate::request::ComparedRequest;
use cachalot_prompt::Namespace;
use cachalot_prompt::Plan;
use cachalot_prompt::Prompt;
use cachalot_prompt::continuation::divergence;

/// A request, as far as the next one is compared with it.
#[derive(Debug, Clone)]
pub struct SentRequest {
    /// The pieces.
    pub prompt: Prompt,
    /// The parameters that the provider's cache depends on.
    pub namespace: Namespace,
    /// The cache markers.
    pub plan: Plan,
    /// The format of the pieces.
    pub format: Format,
    /// The body after the messages; `}` if it is unknown.
    pub tail: Bytes,
    /// The time when it was sent, if known.
    pub at: Option<Millis>,
}

impl SentRequest {
    /// Returns the request in the form that the provider compares.
    fn normal(&self) -> Self {
        let ComparedRequest { prompt, plan } =
            ComparedRequest::new(self.format, &self.prompt, &self.plan);
        Self {
            prompt,
            plan,
            ..self.clone()
        }
    }

    fn sending(&self) -> RequestView<'_> {
        RequestView {
            prompt: &self.prompt,
            namespace: &self.namespace,
            plan: &self.plan,
            tail: &self.tail,
        }
    }
}

/// Monitors the prefix of a conversation: diagnoses for each request why the provider could not read a prefix
/// that was sent before. A clone monitors a fork, whose first request is compared with the last request of
/// its parent.
#[derive(Debug, Clone, Default)]
pub struct PrefixMonitor {
    /// The last answered request, with its usage.
    last: Option<(SentRequest, Option<Usage>)>,
    /// The ID of its answer.
    answer: Option<String>,
    /// The request in flight.
    last_request: Option<SentRequest>,
    /// Prefixes whose tokens the provider has counted.
    counted: CountedPrefixes,
    /// Indexes of the pieces that were marked by the last request and by those that it continued.
    written: Vec<u32>,
    /// True if the provider has ever reported a cache read or write.
    reports_cache_reads: bool,
}

impl PrefixMonitor {
    /// Creates a monitor for a conversation whose last request was sent by this or another process. `usage` is that of
    /// its answer, if known.
    #[must_use]
    pub fn resumed(last: SentRequest, usage: Option<Usage>) -> Self {
        let written = last.plan.marks().iter().map(|mark| mark.node).collect();
        Self {
            last: Some((last, usage)),
            answer: None,
            last_request: None,
            counted: CountedPrefixes::default(),
            written,
            reports_cache_reads: false,
        }
    }

    /// Returns the ID of the last answer, with which the provider can be asked to compare the next request.
    #[must_use]
    pub fn last_answer(&self) -> Option<&str> {
        self.answer.as_deref()
    }

    /// Returns the request in flight.
    #[must_use]
    pub fn last_request(&self) -> Option<&SentRequest> {
        self.last_request.as_ref()
    }

    /// Records that a request is sent.
    pub fn ask(&mut self, request: SentRequest) {
        self.last_request = Some(request);
    }

    /// Returns the prefix that has expired before `next` is sent, with which the conversation would continue; see
    /// [`cold_prefix`]. `None` for a first request.
    #[must_use]
    pub fn cold(&self, next: &SentRequest, rules: &Rules) -> Option<ColdPrefix> {
        let (last, used) = self.last.as_ref()?;
        let observed = self.observations(last, *used, next);
        let rules = rules.clone().with_request_options(&next.tail);
        cold_prefix(&last.sending(), &next.sending(), &observed, &rules)
    }

    /// Returns what is known of `next`, which follows the request `last`, before its answer.
    fn observations(
        &self,
        last: &SentRequest,
        used: Option<Usage>,
        next: &SentRequest,
    ) -> Observations<'_> {
        let elapsed = last.at.zip(next.at).map(|(before, now)| {
            // The clock may have been set back in between.
            Duration::from_millis(now.saturating_sub(before).max(0).unsigned_abs())
        });
        Observations {
            written: &self.written,
            known: self.counted.known(),
            previous: used,
            reports_cache_reads: self.reports_cache_reads,
            elapsed,
            at: next.at,
            ..Observations::default()
        }
    }

    /// Diagnoses the request in flight by its answer. Returns `None` for a first request, which continues
    /// nothing. The provider's own comparison counts if the request named the last answer. If the provider
    /// does not report cache reads, breaks that only such a report could show are not diagnosed. Secrets
    /// known to `secret_set` are masked.
    pub fn answer(
        &mut self,
        reply: &Reply,
        rules: &Rules,
        secret_set: &SecretSet,
    ) -> Option<Diagnosis> {
        let last_request = self.last_request.take()?;
        let usage = reply.usage;
        let before = std::mem::replace(&mut self.answer, reply.id.clone());
        let is_named = |_: &ProviderVerdict| {
            before.is_some()
                && ComparisonParameter::previous_id_in_tail(&last_request.tail) == before
        };
        let verdict = ProviderVerdict::read(&reply.extra).filter(is_named);
        self.reports_cache_reads |=
            usage.is_some_and(|usage| usage.cache_read > 0 || usage.cache_write() > 0);
        let diagnosis = self.last.as_ref().map(|(last, used)| {
            let observed = Observations {
                usage,
                verdict,
                ..self.observations(last, *used, &last_request)
            };
            let rules = &rules.clone().with_request_options(&last_request.tail);
            if divergence(&last.prompt, &last_request.prompt).is_none() {
                return diagnose(
                    &last.sending(),
                    &last_request.sending(),
                    &observed,
                    rules,
                    secret_set,
                );
            }
            // The bytes differ, but the provider may not see the difference: compare the normal forms.
            let (before, now) = (last.normal(), last_request.normal());
            diagnose(
                &before.sending(),
                &now.sending(),
                &observed,
                rules,
                secret_set,
            )
        });
        if diagnosis.as_ref().is_some_and(|found| found.at.is_some()) {
            // Cached parts of the old prefix are not useful for the new one, as far as known.
            self.written.clear();
            self.counted = CountedPrefixes::default();
        }
        if let Some(usage) = usage {
            self.counted.add(&last_request.sending(), usage);
        }
        let marked = last_request.plan.marks().iter().map(|mark| mark.node);
        self.written.extend(marked);
        self.written.sort_unstable();
        self.written.dedup();
        self.last = Some((last_request, usage));
        diagnosis
    }
}
