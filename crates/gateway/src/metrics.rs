//! Statistics for Prometheus.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use cachalot_cache::StoreAccessState;
use cachalot_core::Spend;
use http::{HeaderValue, Response, header};
use parking_lot::Mutex;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};

use crate::billing::Charged;
use crate::body::{self, Body};
use crate::payments::Payments;
use crate::readiness::StoreState;
use crate::report::RequestReport;
use crate::settings::Settings;
use crate::store_metrics::StoreMetrics;

/// Media type of the statistics.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Maximum number of models that are counted by name; further ones are counted together.
const MAX_MODELS: usize = 256;
const OTHER_MODEL: &str = "(other)";

/// Upper bounds of the times until responses begin, in seconds.
const TIMES: [f64; 14] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0,
];

type Amount = Counter<f64, AtomicU64>;

/// Counters since the start.
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    times: Family<TimeLabels, Histogram>,
    saved_dollars: Family<MoneyLabels, Amount>,
    saved_tokens: Family<TokenLabels, Counter>,
    paid_dollars: Family<MoneyLabels, Amount>,
    paid_tokens: Family<TokenLabels, Counter>,
    unpriced: Family<MoneyLabels, Counter>,
    /// Runs in progress.
    pub(crate) runs: Gauge,
    left_out: Family<UpstreamLabels, Gauge>,
    store_up: Gauge,
    key_mismatch: Gauge,
    store_left_out: Family<AccessLabels, Gauge>,
    unsent_copies: Gauge,
    answers_of_copies: Counter,
    /// Spans that were not exported.
    pub(crate) spans_dropped: Counter,
    breaks: Family<BreakLabels, Counter>,
    lost_tokens: Family<BreakLabels, Counter>,
    /// Requests whose prefixes were not analyzed.
    pub(crate) prefix_skipped: Counter,
    /// Requests that were refused once, because they would write an expired prefix again.
    pub(crate) prefix_refusals: Counter,
    /// Requests that have renewed the prefix of an idle conversation.
    pub(crate) prefix_renewals: Counter,
    models: Mutex<HashSet<String>>,
    payments: Mutex<Payments>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    upstream: String,
    endpoint: &'static str,
    model: String,
    key: String,
    outcome: &'static str,
    error: &'static str,
    status: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TimeLabels {
    upstream: String,
    endpoint: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct MoneyLabels {
    upstream: String,
    model: String,
    key: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TokenLabels {
    #[prometheus(flatten)]
    of: MoneyLabels,
    direction: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BreakLabels {
    #[prometheus(flatten)]
    of: MoneyLabels,
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct UpstreamLabels {
    upstream: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AccessLabels {
    access: &'static str,
}

/// Upstream, model and key of a payment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payment<'a> {
    pub(crate) upstream: &'a str,
    pub(crate) model: &'a str,
    /// Empty for a client without a key of the gateway.
    pub(crate) key: &'a str,
}

impl Metrics {
    /// Creates counters, which are shown together with those of the store.
    pub(crate) fn new(store: &StoreMetrics) -> Self {
        let mut registry = Registry::with_prefix("cachalot");
        let all = &mut registry;
        store.register(all);
        Self {
            requests: registered(all, "requests", "Requests"),
            times: {
                let times = Family::<_, Histogram>::new_with_constructor(|| Histogram::new(TIMES));
                let help = "Time until responses began";
                all.register("response_start_seconds", help, times.clone());
                times
            },
            saved_dollars: registered(
                all,
                "saved_dollars",
                "Dollars that answers from the cache saved",
            ),
            saved_tokens: registered(
                all,
                "saved_tokens",
                "Tokens that answers from the cache saved",
            ),
            paid_dollars: registered(
                all,
                "paid_dollars",
                "Dollars paid to upstreams, as far as prices are known",
            ),
            paid_tokens: registered(all, "paid_tokens", "Tokens paid for"),
            unpriced: registered(all, "unpriced_answers", "Answers whose price is not known"),
            runs: registered(
                all,
                "runs",
                "Requests to upstreams in progress whose answers may be shared",
            ),
            left_out: registered(
                all,
                "upstream_left_out",
                "1 while the upstream is left out after failures",
            ),
            store_up: registered(all, "store_up", "1 while the store answers"),
            key_mismatch: registered(
                all,
                "digest_key_mismatch",
                "1 if the digest key is not that of the store",
            ),
            store_left_out: registered(
                all,
                "store_left_out",
                "1 while calls do not wait for the store, because it did not answer several times in a row",
            ),
            unsent_copies: registered(
                all,
                "store_copies_waiting",
                "1 while answers wait on this machine for the store",
            ),
            answers_of_copies: registered(
                all,
                "store_copy_answers",
                "Answers from copies on this machine, because the store did not answer",
            ),
            spans_dropped: registered(all, "spans_dropped", "Spans that were not exported"),
            breaks: registered(
                all,
                "prefix_breaks",
                "Requests whose prefix the provider could not read although it was sent before",
            ),
            lost_tokens: registered(
                all,
                "prefix_lost_tokens",
                "Tokens paid for again after prefix breaks",
            ),
            prefix_skipped: registered(
                all,
                "prefix_skipped",
                "Requests whose prefixes were not analyzed: too long, or too many at the same time",
            ),
            prefix_refusals: registered(
                all,
                "prefix_refusals",
                "Requests that were refused once, because they would write an expired prefix again",
            ),
            prefix_renewals: registered(
                all,
                "prefix_renewals",
                "Requests that have renewed the prefix of an idle conversation",
            ),
            models: Mutex::default(),
            payments: Mutex::default(),
            registry,
        }
    }

    /// Counts a request.
    pub(crate) fn count(&self, report: &RequestReport) {
        let (model, key) = (
            self.model(&report.model, report.status < 400),
            report.key.clone().unwrap_or_default(),
        );
        let requests = self.requests.get_or_create(&RequestLabels {
            upstream: report.upstream.clone(),
            endpoint: report.endpoint,
            model: model.clone(),
            key: key.clone(),
            outcome: report.answered,
            error: report.error,
            status: report.status.into(),
        });
        requests.inc();
        drop(requests);
        let times = self.times.get_or_create(&TimeLabels {
            upstream: report.upstream.clone(),
            endpoint: report.endpoint,
            outcome: report.answered,
        });
        times.observe(report.elapsed.as_secs_f64());
        drop(times);
        if !report.saved.is_free() {
            let payment = Payment {
                upstream: &report.upstream,
                model: &model,
                key: &key,
            };
            add(
                &self.saved_dollars,
                &self.saved_tokens,
                payment,
                report.saved,
            );
        }
    }

    /// Counts a payment to an upstream.
    pub(crate) fn pay(&self, payment: Payment<'_>, charged: &Charged) {
        let (model, paid) = (self.model(payment.model, true), charged.spend);
        if !paid.is_free() {
            let of = (payment.upstream.to_owned(), model.clone());
            self.payments.lock().entry(of).or_default().add(charged);
        }
        let payment = Payment {
            model: &model,
            ..payment
        };
        add(&self.paid_dollars, &self.paid_tokens, payment, paid);
        if paid.cost.unpriced > 0 {
            let unpriced = self.unpriced.get_or_create(&payment.labels());
            unpriced.inc_by(paid.cost.unpriced);
        }
    }

    /// Returns the payments since the start.
    pub(crate) fn payments(&self) -> Payments {
        self.payments.lock().clone()
    }

    /// Counts a break of a prefix.
    pub(crate) fn count_break(&self, of: Payment<'_>, reason: &'static str, lost_tokens: u64) {
        let labels = BreakLabels {
            of: MoneyLabels {
                model: self.model(of.model, true),
                ..of.labels()
            },
            reason,
        };
        self.lost_tokens.get_or_create(&labels).inc_by(lost_tokens);
        self.breaks.get_or_create(&labels).inc();
    }

    /// Returns the statistics in the text format of OpenMetrics.
    pub(crate) fn text(
        &self,
        settings: &Settings,
        store: StoreState,
        access: &StoreAccessState,
    ) -> String {
        let now = Instant::now();
        self.store_up.set(store.is_answering().into());
        self.key_mismatch
            .set((store == StoreState::OtherKey).into());
        let left_out = [
            ("read", access.are_reads_left_out),
            ("write", access.are_writes_left_out),
        ];
        for (access, is_left_out) in left_out {
            let labels = AccessLabels { access };
            let gauge = self.store_left_out.get_or_create(&labels);
            gauge.set(is_left_out.into());
        }
        self.unsent_copies.set(access.has_unsent_copies.into());
        let answers = &self.answers_of_copies;
        answers.inc_by(access.answers_of_copies.saturating_sub(answers.get()));
        self.left_out.clear();
        for upstream in settings.upstreams() {
            let labels = UpstreamLabels {
                upstream: upstream.name().to_owned(),
            };
            let left_out = self.left_out.get_or_create(&labels);
            left_out.set(upstream.breaker.is_open(now).into());
        }
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }

    /// Returns the label of a model. A new one is added only if it has answered: others are names that clients invent.
    fn model(&self, model: &str, has_answered: bool) -> String {
        let mut models = self.models.lock();
        if models.contains(model) {
            return model.to_owned();
        }
        if has_answered && models.len() < MAX_MODELS {
            models.insert(model.to_owned());
            model.to_owned()
        } else {
            OTHER_MODEL.to_owned()
        }
    }
}

/// Registers a metric, and returns it.
fn registered<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

impl Payment<'_> {
    fn labels(self) -> MoneyLabels {
        MoneyLabels {
            upstream: self.upstream.to_owned(),
            model: self.model.to_owned(),
            key: self.key.to_owned(),
        }
    }
}

/// Returns the response with the statistics.
pub(crate) fn response(text: String) -> Response<Body> {
    let mut response = Response::new(body::full(text));
    let kind = HeaderValue::from_static(CONTENT_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn add(
    dollars: &Family<MoneyLabels, Amount>,
    tokens: &Family<TokenLabels, Counter>,
    payment: Payment<'_>,
    spend: Spend,
) {
    let labels = payment.labels();
    let amount = spend.cost.picodollars as f64 / 1e12;
    dollars.get_or_create(&labels).inc_by(amount);
    for (direction, count) in [
        ("input", spend.input_tokens),
        ("output", spend.output_tokens),
    ] {
        let labels = TokenLabels {
            of: labels.clone(),
            direction,
        };
        tokens.get_or_create(&labels).inc_by(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_are_named_once_they_have_answered() {
        let metrics = Metrics::new(&StoreMetrics::default());
        assert_eq!(metrics.model("invented", false), OTHER_MODEL);
        for number in 0..MAX_MODELS {
            let name = number.to_string();
            assert_eq!(metrics.model(&name, true), name);
        }
        assert_eq!(metrics.model("0", false), "0");
        assert_eq!(metrics.model("one too many", true), OTHER_MODEL);
    }
}
