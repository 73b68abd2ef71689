//! The sums of all policies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cachalot_core::{Cost, Millis};

use super::Sender;
use super::compaction::Compaction;
use super::lifetime::Provider;
use super::other_lifetime::{five_minutes, one_hour, twelve_hours};
use super::outcome::Outcome;
use super::policy::{Change, KEEP_ALIVE, Policy, PolicyKind};
use super::pricing::Pricing;
use super::renewal::kept_alive;
use super::request::AnsweredRequest;
use super::sub_agents::on_family;
use super::unchanged::unchanged;

/// A cent, in picodollars.
const CENT: u64 = 10_000_000_000;

/// The part of the cost that a recommended policy saves at least: a hundredth.
const MIN_SAVING: u64 = 100;

/// The costs of all policies.
#[derive(Debug, Clone, Default)]
pub struct Comparison {
    /// The requests of one program to one provider each.
    pub groups: Vec<Group>,
    /// The number of requests that cannot be compared, by reason.
    pub left_out: BTreeMap<String, u64>,
}

/// The requests of one program to one provider.
#[derive(Debug, Clone)]
pub struct Group {
    /// The program.
    pub sender: Sender,
    /// The provider.
    pub provider: Provider,
    /// The number of answers.
    pub answers: u64,
    /// The number of conversations; each sub-agent has its own.
    pub conversations: u64,
    /// The cost as paid.
    pub cost: Cost,
    /// The number of pauses that outlasted the cache.
    pub long_pauses: u64,
    /// The number of those after which tokens were written again.
    pub lossy_pauses: u64,
    /// These tokens.
    pub lost: u64,
    /// The number of answers of models for which the lifetime of the provider's cache is not known, so that no policy but
    /// a summary makes a difference.
    pub without_lifetime: u64,
    /// The number of answers and their cost, by model.
    pub models: BTreeMap<Arc<str>, (u64, Cost)>,
    /// The policies that make a difference, in the order of reports.
    pub rows: Vec<Row>,
}

/// The cost of a group under a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The policy.
    pub policy: Policy,
    /// The cost of all requests, with the additional ones.
    pub cost: Cost,
    /// The number of additional requests: renewals or summaries.
    pub requests: u64,
    /// Their cost.
    pub requests_cost: Cost,
    /// The largest cost of those that belong to one request: the renewals in a pause, or a summary.
    pub largest_cost: Cost,
    /// Tokens that are read instead of written.
    pub read_instead: u64,
}

impl Comparison {
    /// Compares all policies. The requests are in the order of their times; `end` is the
    /// end of the time of which all requests are known.
    pub(super) fn new(
        requests: &[AnsweredRequest],
        end: Millis,
        pricing: &Pricing<'_>,
        left_out: BTreeMap<String, u64>,
    ) -> Self {
        let mut groups: BTreeMap<(Sender, Provider), Group> = BTreeMap::new();
        for request in requests.iter().filter(|request| request.is_counted) {
            let key = (request.sender, request.provider);
            let group = groups.entry(key).or_insert_with(|| Group::new(request));
            group.add(request, requests);
        }
        for policy in Policy::all() {
            let mut compaction = Compaction::new(policy);
            for request in requests {
                let outcome = match policy {
                    Policy::OneHour => one_hour(request, pricing),
                    Policy::OneHourWithoutSubAgents if request.is_of_sub_agent() => {
                        Outcome::paid(request)
                    }
                    Policy::OneHourWithoutSubAgents => one_hour(request, pricing),
                    Policy::FiveMinutes => five_minutes(request, pricing),
                    Policy::TwelveHours => twelve_hours(request, pricing),
                    Policy::KeepAlive(index) => {
                        let (_, until) = KEEP_ALIVE[index];
                        kept_alive(requests, request, until, end, pricing)
                    }
                    Policy::CompactBeforePause | Policy::CompactAt(_) => {
                        compaction.next(requests, end, pricing)
                    }
                    Policy::SubAgentsOn(family) => on_family(request, family, pricing),
                    Policy::SameTools => unchanged(requests, request, Change::Tools, pricing),
                    Policy::SameModel => unchanged(requests, request, Change::Model, pricing),
                };
                let group = groups.get_mut(&(request.sender, request.provider));
                if let Some(group) = group.filter(|_| request.is_counted) {
                    group.add_outcome(policy, &outcome);
                }
            }
        }
        let mut groups: Vec<Group> = groups.into_values().collect();
        groups.iter_mut().for_each(Group::retain_different);
        Self { groups, left_out }
    }
}

impl Group {
    fn new(request: &AnsweredRequest) -> Self {
        Self {
            sender: request.sender,
            provider: request.provider,
            answers: 0,
            conversations: 0,
            cost: Cost::default(),
            long_pauses: 0,
            lossy_pauses: 0,
            lost: 0,
            without_lifetime: 0,
            models: BTreeMap::new(),
            rows: Vec::new(),
        }
    }

    fn add(&mut self, request: &AnsweredRequest, requests: &[AnsweredRequest]) {
        let linked = &request.linked;
        let previous = linked.previous.map(|previous| &requests[previous]);
        let lifetime = previous.and_then(|previous| previous.linked.lifetime);
        self.answers += 1;
        self.conversations += u64::from(previous.is_none());
        self.cost += request.cost;
        self.long_pauses += u64::from(lifetime.is_some_and(|life| linked.pause > life));
        self.lossy_pauses += u64::from(linked.lost > 0);
        self.lost = self.lost.saturating_add(linked.lost);
        self.without_lifetime += u64::from(linked.lifetime.is_none());
        let model = self.models.entry(Arc::clone(&request.model)).or_default();
        model.0 += 1;
        model.1 += request.cost;
    }

    fn add_outcome(&mut self, policy: Policy, outcome: &Outcome) {
        let known = self.rows.iter().position(|row| row.policy == policy);
        let index = known.unwrap_or_else(|| {
            self.rows.push(Row {
                policy,
                cost: Cost::default(),
                requests: 0,
                requests_cost: Cost::default(),
                largest_cost: Cost::default(),
                read_instead: 0,
            });
            self.rows.len() - 1
        });
        let row = &mut self.rows[index];
        row.cost += outcome.cost;
        row.cost += outcome.requests_cost;
        row.requests += outcome.requests;
        row.requests_cost += outcome.requests_cost;
        let largest = &mut row.largest_cost.picodollars;
        *largest = (*largest).max(outcome.requests_cost.picodollars);
        row.read_instead = row.read_instead.saturating_add(outcome.read_instead);
    }

    /// Removes policies that make no difference, or none to the one before.
    fn retain_different(&mut self) {
        let cost = self.cost;
        self.rows
            .retain(|row| row.cost != cost || row.requests > 0 || row.read_instead > 0);
        self.rows.dedup_by(|row, before| {
            let is_same = Row {
                policy: before.policy,
                ..*row
            } == *before;
            is_same && row.policy.kind() == before.policy.kind()
        });
    }

    /// True if the lifetime of the provider's cache is known for at least one answer.
    #[must_use]
    pub fn has_lifetime(&self) -> bool {
        self.without_lifetime < self.answers
    }

    /// Returns what a policy saves; `None` if it costs more, or its cost is not known.
    #[must_use]
    pub fn saving(&self, row: &Row) -> Option<Cost> {
        let saved = self.cost.picodollars.checked_sub(row.cost.picodollars)?;
        (row.cost.unpriced == 0 && saved > 0).then(|| Cost::from_picodollars(saved))
    }

    /// Returns the cheapest of the policies that change no content and that `is_setting` accepts, if it saves at least a
    /// cent and a hundredth of the cost.
    #[must_use]
    pub fn recommended(&self, is_setting: impl Fn(&Row) -> bool) -> Option<&Row> {
        let rows = self.rows.iter();
        let settings = rows.filter(|row| !row.policy.changes_content() && is_setting(row));
        self.cheapest(settings)
    }

    /// Returns the cheapest policy of each kind that saves at least a cent and a hundredth of the cost, the best first.
    #[must_use]
    pub fn savings(&self, is_known: impl Fn(&Row) -> bool) -> Vec<&Row> {
        let kinds: BTreeSet<PolicyKind> = self.rows.iter().map(|row| row.policy.kind()).collect();
        let cheapest = kinds.into_iter().filter_map(|kind| {
            let rows = self.rows.iter();
            self.cheapest(rows.filter(|row| row.policy.kind() == kind && is_known(row)))
        });
        let mut cheapest: Vec<&Row> = cheapest.collect();
        cheapest.sort_by_key(|row| row.cost.picodollars);
        cheapest
    }

    /// Returns the cheapest of the policies that summarize conversations, if it saves so much more than another row.
    #[must_use]
    pub fn compaction(&self, than: Option<&Row>) -> Option<&Row> {
        let rows = self.rows.iter();
        let is_compaction = |row: &&Row| row.policy.kind() == PolicyKind::Compaction;
        let row = self.cheapest(rows.filter(is_compaction))?;
        let other = than.map_or(self.cost, |row| row.cost);
        let more = other.picodollars.checked_sub(row.cost.picodollars)?;
        self.is_worthwhile(more).then_some(row)
    }

    fn cheapest<'r>(&self, rows: impl Iterator<Item = &'r Row>) -> Option<&'r Row> {
        let saved = |row: &Row| self.saving(row).map_or(0, |saved| saved.picodollars);
        rows.filter(|row| self.is_worthwhile(saved(row)))
            .min_by_key(|row| row.cost.picodollars)
    }

    fn is_worthwhile(&self, saved: u64) -> bool {
        is_worthwhile(Cost::from_picodollars(saved), self.cost)
    }
}

/// True if a saving is at least a cent and a hundredth of a cost.
#[must_use]
pub fn is_worthwhile(saved: Cost, of: Cost) -> bool {
    saved.picodollars >= CENT && saved.picodollars >= of.picodollars / MIN_SAVING
}
