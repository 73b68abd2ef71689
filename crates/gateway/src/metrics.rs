//! Statistics in the text format of Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cachalot_core::Spend;
use parking_lot::Mutex;

use crate::report::RequestReport;

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Mutex<BTreeMap<RequestLabels, RequestSum>>,
    payments: Mutex<BTreeMap<String, Spend>>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RequestLabels {
    upstream: String,
    endpoint: &'static str,
    answered: &'static str,
    status: u16,
}

#[derive(Debug, Default)]
struct RequestSum {
    count: u64,
    seconds: f64,
    saved: Spend,
}

impl Metrics {
    /// Counts a request.
    pub(crate) fn count(&self, report: &RequestReport) {
        let labels = RequestLabels {
            upstream: report.upstream.clone(),
            endpoint: report.endpoint,
            answered: report.answered,
            status: report.status,
        };
        let mut requests = self.requests.lock();
        let sum = requests.entry(labels).or_default();
        sum.count += 1;
        sum.seconds += report.elapsed.as_secs_f64();
        sum.saved += report.saved;
    }

    /// Counts a payment to an upstream.
    pub(crate) fn pay(&self, upstream: &str, paid: Spend) {
        *self.payments.lock().entry(upstream.to_owned()).or_default() += paid;
    }

    /// Returns the statistics.
    pub(crate) fn text(&self) -> String {
        let requests = self.requests.lock();
        let labels = |it: &RequestLabels| {
            // Names of upstreams need no escapes.
            format!(
                "upstream=\"{}\",endpoint=\"{}\",outcome=\"{}\",status=\"{}\"",
                it.upstream, it.endpoint, it.answered, it.status
            )
        };
        let mut out = String::new();
        family(
            &mut out,
            "cachalot_requests_total",
            "Requests.",
            requests
                .iter()
                .map(|(it, sum)| (labels(it), sum.count as f64)),
        );
        family(
            &mut out,
            "cachalot_response_start_seconds_total",
            "Time until responses began.",
            requests.iter().map(|(it, sum)| (labels(it), sum.seconds)),
        );
        family(
            &mut out,
            "cachalot_saved_dollars_total",
            "Dollars that answers from the cache saved.",
            requests
                .iter()
                .map(|(it, sum)| (labels(it), dollars(sum.saved))),
        );
        family(
            &mut out,
            "cachalot_saved_tokens_total",
            "Tokens that answers from the cache saved.",
            requests.iter().map(|(it, sum)| {
                (
                    labels(it),
                    (sum.saved.input_tokens + sum.saved.output_tokens) as f64,
                )
            }),
        );
        let payments = self.payments.lock();
        let upstream = |name: &str, kind: &str| format!("upstream=\"{name}\",direction=\"{kind}\"");
        family(
            &mut out,
            "cachalot_paid_dollars_total",
            "Dollars paid to upstreams, as far as prices are known.",
            payments
                .iter()
                .map(|(name, paid)| (format!("upstream=\"{name}\""), dollars(*paid))),
        );
        family(
            &mut out,
            "cachalot_paid_tokens_total",
            "Tokens paid for.",
            payments.iter().flat_map(|(name, paid)| {
                [
                    (upstream(name, "input"), paid.input_tokens as f64),
                    (upstream(name, "output"), paid.output_tokens as f64),
                ]
            }),
        );
        out
    }
}

fn dollars(spend: Spend) -> f64 {
    spend.cost.picodollars as f64 / 1e12
}

fn family(out: &mut String, name: &str, help: &str, samples: impl Iterator<Item = (String, f64)>) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
    for (labels, value) in samples {
        let _ = writeln!(out, "{name}{{{labels}}} {value}");
    }
}
