//! Each request of a conversation, compared with the one before it.

use std::time::Duration;

use bytes::Bytes;
use cachalot_core::{Millis, Seals};
use cachalot_model::{Comparison, Format, Reply, Usage};

use crate::diagnosis::{Counted, Diagnosis, Observed, Rules, Sending, Verdict, diagnose};
use crate::request::Compared;
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
    /// The markers.
    pub plan: Plan,
    /// The format of the pieces.
    pub format: Format,
    /// What stands behind the messages; `}` if it is not known.
    pub tail: Bytes,
    /// When it was sent, if that is known.
    pub at: Option<Millis>,
}

impl SentRequest {
    /// The same as the provider compares it.
    fn normal(&self) -> Self {
        let Compared { prompt, plan } = Compared::new(self.format, &self.prompt, &self.plan);
        Self {
            prompt,
            plan,
            ..self.clone()
        }
    }

    fn sending(&self) -> Sending<'_> {
        Sending {
            prompt: &self.prompt,
            namespace: &self.namespace,
            plan: &self.plan,
            tail: &self.tail,
        }
    }
}

/// Watches over the prefix of a conversation: says of each request why the provider could not read
/// what it had been sent before. A clone watches over a fork, whose first request is compared with
/// the last one of its parent.
#[derive(Debug, Clone, Default)]
pub struct PrefixMonitor {
    /// The last request that was answered, and what it used.
    last: Option<(SentRequest, Option<Usage>)>,
    /// The id of its answer.
    answer: Option<String>,
    /// The request under way.
    asked: Option<SentRequest>,
    /// What the provider has counted of it.
    counted: Counted,
    /// The pieces that were marked by the last request and by those that it continued.
    written: Vec<u32>,
    /// Whether the provider has ever told that it read something from a cache, or wrote it there.
    tells: bool,
}

impl PrefixMonitor {
    /// Over a conversation whose last request was this one, in whichever process.
    #[must_use]
    pub fn resumed(last: SentRequest) -> Self {
        let written = last.plan.marks().iter().map(|mark| mark.node).collect();
        Self {
            last: Some((last, None)),
            answer: None,
            asked: None,
            counted: Counted::default(),
            written,
            tells: false,
        }
    }

    /// Returns the id of the last answer, by which the provider can be asked to compare the next request.
    #[must_use]
    pub fn last_answer(&self) -> Option<&str> {
        self.answer.as_deref()
    }

    /// Returns the request under way.
    #[must_use]
    pub fn asked(&self) -> Option<&SentRequest> {
        self.asked.as_ref()
    }

    /// A request is sent.
    pub fn ask(&mut self, request: SentRequest) {
        self.asked = Some(request);
    }

    /// It was answered. What became of the prefix; `None` of a first request, which continues nothing.
    /// The provider's own comparison counts if the request named the last answer. Of a provider that has no word for what it read from a cache, nothing
    /// is said that its words alone would show. Secrets that `seals` knows are masked in what is shown.
    pub fn answer(&mut self, reply: &Reply, rules: &Rules, seals: &Seals) -> Option<Diagnosis> {
        let asked = self.asked.take()?;
        let usage = reply.usage;
        let before = std::mem::replace(&mut self.answer, reply.id.clone());
        let is_named =
            |_: &Verdict| before.is_some() && Comparison::named_in_tail(&asked.tail) == before;
        let verdict = Verdict::read(&reply.extra).filter(is_named);
        self.tells |= usage.is_some_and(|usage| usage.cache_read > 0 || usage.cache_write() > 0);
        let diagnosis = self.last.as_ref().map(|(last, used)| {
            let elapsed = last.at.zip(asked.at).map(|(before, now)| {
                Duration::from_millis(now.saturating_sub(before).max(0).unsigned_abs())
            });
            let observed = Observed {
                written: &self.written,
                known: self.counted.known(),
                previous: *used,
                usage,
                verdict,
                tells: self.tells,
                elapsed,
            };
            let rules = &rules.clone().asked_by(&asked.tail);
            if divergence(&last.prompt, &asked.prompt).is_none() {
                return diagnose(&last.sending(), &asked.sending(), &observed, rules, seals);
            }
            // The bytes differ; whether the provider sees that is another question.
            let (before, now) = (last.normal(), asked.normal());
            diagnose(&before.sending(), &now.sending(), &observed, rules, seals)
        });
        if diagnosis.as_ref().is_some_and(|found| found.at.is_some()) {
            // What was kept of the old prefix is of no use to the new one, as far as is known.
            self.written.clear();
            self.counted = Counted::default();
        }
        if let Some(usage) = usage {
            self.counted.add(&asked.sending(), usage);
        }
        let marked = asked.plan.marks().iter().map(|mark| mark.node);
        self.written.extend(marked);
        self.written.sort_unstable();
        self.written.dedup();
        self.last = Some((asked, usage));
        diagnosis
    }
}
