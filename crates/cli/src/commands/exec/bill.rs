//! The bill of a command: what its requests have cost and saved, and why.

use std::collections::BTreeMap;

use cachalot_cache::{Explanation, LedgerRow, Reason};
use cachalot_core::{Cost, Spend};
use cachalot_gateway::{ModelPayments, Payments, RequestReport};

use super::mode::Mode;
use crate::commands::prefix::recorded_break::{cause, known, lost_cost};
use crate::render;
use crate::render::table::{Column, Stream, headline_on, table_on};
use crate::render::visible::on_one_line;

/// Maximum number of reasons that are listed, except those of a replay.
const MAX_REASONS: usize = 5;
/// The same for a replay, and the maximum number of different reasons that are counted.
const MAX_COUNTED: usize = 200;

/// Maximum number of differences between two requests that are named.
const MAX_POINTERS: usize = 3;

/// The words of the gateway in front of the reason of a request that the cache cannot answer.
const ONLY_FROM_CACHE: &str = "only an answer from the cache was asked for: ";

/// Requests of a model.
#[derive(Debug, Default)]
struct ModelRequests {
    requests: u64,
    hits: u64,
    saved: Spend,
}

/// Reasons, with the number of their requests.
type Reasons = BTreeMap<String, u64>;

/// Requests of the command, as the gateway has reported them.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// By upstream and model.
    models: BTreeMap<(String, String), ModelRequests>,
    total: ModelRequests,
    /// Requests that were asked anew, or not answered in a replay.
    missed: Reasons,
    /// Requests that were asked anew, and whose answers may not be stored.
    unstorable: Reasons,
    /// Requests that were passed on unread: their cost is not known.
    passed: Reasons,
    /// Requests that the gateway or an upstream has refused.
    refused: Reasons,
}

impl Requests {
    /// Adds a request.
    pub(super) fn add(&mut self, report: &RequestReport) {
        let is_hit = matches!(report.answered, "hit" | "stale" | "coalesced");
        let of_model = if report.model.is_empty() {
            None
        } else {
            let of = (report.upstream.clone(), report.model.clone());
            Some(self.models.entry(of).or_default())
        };
        for counted in of_model.into_iter().chain([&mut self.total]) {
            counted.requests += 1;
            counted.hits += u64::from(is_hit);
            if is_hit {
                counted.saved += report.saved;
            }
        }
        let reason = report.reason.as_deref().unwrap_or("no reason is known");
        let is_error = report.status >= 400;
        match report.answered {
            _ if is_hit => {}
            "refused" => match reason.strip_prefix(ONLY_FROM_CACHE) {
                Some(reason) => count(&mut self.missed, reason),
                None if report.model.is_empty() => {
                    let RequestReport { method, path, .. } = report;
                    count(&mut self.refused, &format!("{method} {path}: {reason}"));
                }
                None => count(&mut self.refused, reason),
            },
            _ if is_error => {
                let reason = format!("the upstream answered {}", report.status);
                count(&mut self.refused, &reason);
            }
            "passed" => count(&mut self.passed, reason),
            "bypass" => count(&mut self.unstorable, reason),
            _ => count(&mut self.missed, reason),
        }
    }

    /// Returns true if the gateway got no request.
    pub(super) fn are_none(&self) -> bool {
        self.total.requests == 0
    }
}

fn count(reasons: &mut Reasons, reason: &str) {
    if reasons.len() < MAX_COUNTED || reasons.contains_key(reason) {
        *reasons.entry(reason.to_owned()).or_default() += 1;
    }
}

/// Adds the numbers of requests.
fn add<'a>(reasons: &mut Reasons, added: impl IntoIterator<Item = (&'a String, &'a u64)>) {
    for (reason, number) in added {
        if *number > 0 {
            *reasons.entry(reason.clone()).or_default() += number;
        }
    }
}

/// Takes up to `number` requests off a reason. Returns how many there were.
fn take(reasons: &mut Reasons, reason: &str, number: u64) -> u64 {
    let Some(left) = reasons.get_mut(reason) else {
        return 0;
    };
    let taken = number.min(*left);
    *left -= taken;
    if *left == 0 {
        reasons.remove(reason);
    }
    taken
}

/// Takes up to `number` requests off the reasons of requests that no entry answers: with and without a possible cause.
fn take_absent(reasons: &mut Reasons, number: u64) -> u64 {
    let absent = Reason::Absent.to_string();
    let is_absent = |reason: &&String| {
        let rest = reason.strip_prefix(absent.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("; "))
    };
    let kinds: Vec<String> = reasons.keys().filter(is_absent).cloned().collect();
    let mut taken = 0;
    for kind in kinds {
        taken += take(reasons, &kind, number - taken);
    }
    taken
}

/// Prefix breaks that are one row.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct EqualBreaks {
    model: String,
    reason: String,
    remedy: Option<String>,
}

/// The sums of such breaks.
#[derive(Default)]
struct BreakSums {
    breaks: u64,
    /// Tokens that were paid for anew.
    tokens: u64,
    cost: Cost,
}

/// Everything that the bill says.
pub(super) struct Bill<'a> {
    pub(super) mode: &'a Mode,
    pub(super) requests: &'a Requests,
    pub(super) payments: &'a Payments,
    /// Prefix breaks of the command, oldest first.
    pub(super) breaks: &'a [LedgerRow],
    /// Requests that a replay did not answer, with their numbers.
    pub(super) unanswered: &'a [(Explanation, u64)],
    /// Reasons why answers of misses are not in the recording, with their numbers.
    pub(super) unrecorded: &'a [(String, u64)],
}

impl Bill<'_> {
    /// Formats the bill for standard error.
    pub(super) fn text(&self) -> String {
        let mut text = headline_on(Stream::Errors, &self.headline());
        text += &self.models();
        let missed = match self.mode {
            Mode::Replay(name) => format!("not in the recording `{name}`"),
            Mode::Record { .. } | Mode::Meter => "asked for".to_owned(),
        };
        let maximum = match self.mode {
            Mode::Replay(_) => MAX_COUNTED,
            Mode::Record { .. } | Mode::Meter => MAX_REASONS,
        };
        text += &reasons(&missed, &self.missed(), maximum);
        text += &reasons("not recorded", &self.unrecorded(), MAX_COUNTED);
        let passed = "passed on without an account of their cost";
        text += &reasons(passed, &self.requests.passed, MAX_REASONS);
        text += &reasons("refused", &self.requests.refused, MAX_REASONS);
        let mut unpriced = Reasons::new();
        for (reason, answers) in self.payments.values().flat_map(|paid| &paid.unpriced) {
            *unpriced.entry(reason.clone()).or_default() += answers;
        }
        text += &reasons("without a known price", &unpriced, MAX_REASONS);
        text + &self.breaks()
    }

    /// Returns the reasons for misses. Requests that were never recorded are compared with those that were.
    fn missed(&self) -> Reasons {
        let mut missed = self.requests.missed.clone();
        match self.mode {
            Mode::Replay(_) => self.explain(&mut missed),
            Mode::Meter => add(&mut missed, self.requests.unstorable.iter()),
            Mode::Record { .. } => {
                let unrecorded = self.unrecorded.iter().map(|(_, number)| number).sum();
                take_absent(&mut missed, unrecorded);
            }
        }
        missed
    }

    /// Puts the differences between requests and recorded ones in place of the reasons of the gateway.
    fn explain(&self, missed: &mut Reasons) {
        add(missed, self.requests.unstorable.iter());
        let has_cause = |(explanation, _): &&(Explanation, u64)| {
            explanation.same.is_some() || !explanation.differences.is_empty()
        };
        let (found, unknown): (Vec<_>, Vec<_>) = self.unanswered.iter().partition(has_cause);
        for (explanation, number) in found {
            let explained = take_absent(missed, *number);
            add(missed, [(&difference(explanation), &explained)]);
        }
        // A reason of the gateway that names a possible cause says more.
        let absent = Reason::Absent.to_string();
        for (explanation, number) in unknown {
            let explained = take(missed, &absent, *number);
            add(missed, [(&difference(explanation), &explained)]);
        }
    }

    /// Returns the reasons why answers that were paid for are not in the recording.
    fn unrecorded(&self) -> Reasons {
        let mut reasons = Reasons::new();
        if matches!(self.mode, Mode::Record { .. }) {
            add(&mut reasons, self.requests.unstorable.iter());
            let of_misses = self.unrecorded.iter();
            add(
                &mut reasons,
                of_misses.map(|(reason, number)| (reason, number)),
            );
        }
        reasons
    }

    fn paid(&self) -> ModelPayments {
        let mut sum = ModelPayments::default();
        for payments in self.payments.values() {
            sum.answers += payments.answers;
            sum.paid += payments.paid;
            sum.cache_read_tokens += payments.cache_read_tokens;
        }
        sum
    }

    /// One sentence: requests, answers from the cache, dollars, and the provider's cache.
    fn headline(&self) -> String {
        let ModelRequests {
            requests,
            hits,
            saved,
        } = &self.requests.total;
        let paid = self.paid();
        let requests = render::count(*requests, "request", "requests");
        let hits = render::grouped(*hits);
        let mut text = match self.mode {
            Mode::Meter => format!("cachalot: {requests}, {hits} answered from the cache"),
            Mode::Record { name, .. } => {
                format!("cachalot: {requests}, {hits} answered from the recording `{name}`")
            }
            Mode::Replay(name) => {
                format!("cachalot: {requests}, {hits} replayed from the recording `{name}`")
            }
        };
        text += &format!("; paid {}, saved {}", amount(&paid.paid), amount(saved));
        if paid.paid.input_tokens > 0 {
            text += &format!(
                "; provider cache: {} / {} tokens ({})",
                render::grouped(paid.cache_read_tokens),
                render::grouped(paid.paid.input_tokens),
                share(&paid)
            );
        }
        text
    }

    /// The table of models.
    fn models(&self) -> String {
        let columns = [
            Column::text("model"),
            Column::number("requests"),
            Column::number("hits"),
            Column::number("paid"),
            Column::number("saved"),
            Column::number("input"),
            Column::number("cached").optional(),
            Column::number("output").optional(),
            Column::number("saved tokens").optional(),
        ];
        let none = (ModelRequests::default(), ModelPayments::default());
        let mut keys: Vec<_> = self.requests.models.keys().collect();
        keys.extend(self.payments.keys());
        keys.sort();
        keys.dedup();
        let mut rows: Vec<Vec<String>> = Vec::new();
        for key in &keys {
            let requests = self.requests.models.get(*key).unwrap_or(&none.0);
            let payments = self.payments.get(*key).unwrap_or(&none.1);
            let (upstream, model) = key;
            let name = match (upstream.as_str(), model.as_str()) {
                ("", model) => on_one_line(model),
                (upstream, model) => format!("{upstream}/{}", on_one_line(model)),
            };
            rows.push(row(name, requests, payments));
        }
        if rows.len() > 1 {
            rows.push(row("total".to_owned(), &self.requests.total, &self.paid()));
        }
        if rows.is_empty() {
            return String::new();
        }
        table_on(Stream::Errors, &columns, &rows)
    }

    /// The prefix breaks: equal ones are one row, with the remedy below.
    fn breaks(&self) -> String {
        let mut found: BTreeMap<EqualBreaks, BreakSums> = BTreeMap::new();
        for broken in self.breaks {
            let likely = cause(broken);
            let reason = known(broken, "prefix").as_str().unwrap_or("broken");
            let what = likely.map(|cause| format!(": {}", cause.what()));
            let remedy = known(broken, "what_to_do").as_str();
            let remedy = remedy.or_else(|| likely.map(|cause| cause.remedy()));
            let equal = EqualBreaks {
                model: broken.name.clone(),
                reason: format!("{reason}{}", what.unwrap_or_default()),
                remedy: remedy.map(str::to_owned),
            };
            let sums = found.entry(equal).or_default();
            sums.breaks += 1;
            sums.tokens += known(broken, "lost_tokens").as_u64().unwrap_or(0);
            sums.cost += lost_cost(broken).unwrap_or_default();
        }
        let mut rows = Vec::new();
        for (equal, sums) in found {
            let EqualBreaks { model, reason, .. } = &equal;
            let tokens = render::count(sums.tokens, "token", "tokens");
            let text = format!("{model}: {reason} · {tokens} paid for anew · {}", sums.cost);
            rows.push(counted(sums.breaks, &text));
            let remedy = equal.remedy.iter();
            rows.extend(remedy.map(|remedy| vec![String::new(), on_one_line(remedy)]));
        }
        section("prefix breaks", &rows)
    }
}

/// Returns the reason why a request is not in a recording.
fn difference(explanation: &Explanation) -> String {
    if let Some(same) = &explanation.same {
        let reason = same.not_stored.as_ref();
        return match reason {
            Some(reason) => format!("the answer was not recorded: {reason}"),
            None => "the recorded answer was erased".to_owned(),
        };
    }
    if explanation.nearest.is_none() {
        return "no request of this kind was recorded".to_owned();
    }
    let pointers = explanation.differences.iter();
    let pointers: Vec<&str> = pointers.map(|one| one.pointer.as_str()).collect();
    match &pointers[..] {
        [] => "it differs from the recorded request in a part that the ledger does not show"
            .to_owned(),
        [.., _] if pointers.len() <= MAX_POINTERS => {
            format!(
                "it differs from the recorded request in {}",
                pointers.join(", ")
            )
        }
        _ => format!(
            "it differs from the nearest recorded request in {} and {} more",
            pointers[..MAX_POINTERS].join(", "),
            render::grouped((pointers.len() - MAX_POINTERS) as u64)
        ),
    }
}

fn row(name: String, requests: &ModelRequests, payments: &ModelPayments) -> Vec<String> {
    let tokens = requests.saved.input_tokens + requests.saved.output_tokens;
    vec![
        name,
        render::grouped(requests.requests),
        render::grouped(requests.hits),
        amount(&payments.paid),
        amount(&requests.saved),
        render::grouped(payments.paid.input_tokens),
        share(payments),
        render::grouped(payments.paid.output_tokens),
        render::grouped(tokens),
    ]
}

fn amount(spend: &Spend) -> String {
    spend.cost.to_string()
}

/// Returns the share of the input that the provider read from its prompt cache.
fn share(payments: &ModelPayments) -> String {
    match payments.paid.input_tokens {
        0 => "–".to_owned(),
        input => {
            let percent = u128::from(payments.cache_read_tokens) * 100 / u128::from(input);
            format!("{percent}%")
        }
    }
}

fn counted(number: u64, text: &str) -> Vec<String> {
    vec![format!("  {}", render::grouped(number)), on_one_line(text)]
}

/// Formats reasons with their counts, most frequent first.
fn reasons(title: &str, reasons: &Reasons, maximum: usize) -> String {
    let mut sorted: Vec<_> = reasons.iter().collect();
    sorted.sort_by(|(_, one), (_, other)| other.cmp(one));
    let shown = sorted.iter().take(maximum);
    let mut rows: Vec<_> = shown
        .map(|(reason, number)| counted(**number, reason))
        .collect();
    let others: u64 = sorted
        .iter()
        .skip(maximum)
        .map(|(_, number)| **number)
        .sum();
    if others > 0 {
        rows.push(counted(others, "for other reasons"));
    }
    section(title, &rows)
}

fn section(title: &str, rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let columns = [Column::number(""), Column::wrapped("")];
    format!("{title}:\n{}", table_on(Stream::Errors, &columns, rows))
}
