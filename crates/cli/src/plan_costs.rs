//! Costs of a conversation under other plans: the same requests with other cache markers, charged by the
//! provider's published rules.

mod recommendation;
mod recorded_times;
mod steps;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use bytes::Bytes;
use cachalot_core::{Cost, Digest, Millis};
use cachalot_model::marker_rules::MarkerStyle;
use cachalot_model::wire::{FormatWire, for_format};
use cachalot_model::{
    Catalog, Format, MarkerRules, ModelLimits, Price, Terms, Unpriced, Usage, price,
};
use cachalot_prompt::{
    Level, NodeId, Pauses, Plan, PlanContext, PrefixLifetime, Prompt, Rules, contiguous, normal,
    plan,
};
use cachalot_simulator::accounting::Rules as Published;
use cachalot_simulator::{Accountant, Format as Api, InputTokens};
use serde_json::Value;

pub(crate) use recommendation::Recommendation;
pub(crate) use recorded_times::RecordedTimes;
pub(crate) use steps::{from_log, from_session};

/// A request that was sent, with everything that affects its price.
pub(crate) struct Step {
    pub(crate) format: Format,
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) prompt: Prompt,
    /// Digest of the parameters besides the model that separate the provider's caches.
    pub(crate) settings: Digest,
    /// The cache markers that it was sent with, if they are known.
    pub(crate) sent: Option<Plan>,
    /// Part of the request body after the messages.
    pub(crate) tail: Bytes,
    pub(crate) at: Millis,
}

/// A way to place cache markers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// With the original markers.
    AsSent,
    /// With the markers of Cachalot's planner and this cache lifetime.
    Planned(PrefixLifetime),
    /// Without markers: the provider caches automatically.
    Automatic,
    /// Without reading the provider's cache.
    Without,
}

impl Scheme {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::AsSent => "as sent",
            Self::Planned(PrefixLifetime::FiveMinutes) => "5m",
            Self::Planned(PrefixLifetime::OneHour) => "1h",
            Self::Planned(PrefixLifetime::TwelveHours) => "12h",
            Self::Planned(PrefixLifetime::Auto) => "auto",
            Self::Automatic => "automatic",
            Self::Without => "without",
        }
    }

    /// Returns the schemes that are possible with this kind of markers, for a model with these rules.
    fn all(style: MarkerStyle, rules: &Rules, are_marks_known: bool) -> Vec<Self> {
        let planned: &[PrefixLifetime] = match style {
            MarkerStyle::None => return vec![Self::Automatic, Self::Without],
            _ if rules.one_hour => &[
                PrefixLifetime::FiveMinutes,
                PrefixLifetime::OneHour,
                PrefixLifetime::Auto,
            ],
            _ if rules.twelve_hours => &[
                PrefixLifetime::FiveMinutes,
                PrefixLifetime::TwelveHours,
                PrefixLifetime::Auto,
            ],
            MarkerStyle::CacheControl | MarkerStyle::CachePoint => &[PrefixLifetime::FiveMinutes],
            // There is only one lifetime.
            MarkerStyle::Breakpoints => &[PrefixLifetime::Auto],
        };
        let sent = are_marks_known.then_some(Self::AsSent);
        let planned = planned.iter().copied().map(Self::Planned);
        let schemes = sent.into_iter().chain(planned);
        schemes.chain([Self::Without]).collect()
    }
}

/// Costs of all requests under one scheme.
pub(crate) struct Column {
    pub(crate) scheme: Scheme,
    /// Usage of the input only: output costs the same under every scheme.
    pub(crate) usage: Usage,
    pub(crate) cost: Cost,
    /// The number of requests that the provider would refuse; `refusal` is the reason of the first.
    pub(crate) refused: u64,
    pub(crate) refusal: Option<String>,
    /// The part of a price that is not known, of the first request without a price.
    pub(crate) unpriced: Option<Unpriced>,
    /// The number of requests that were charged.
    pub(crate) charged: u64,
    accountant: Accountant,
    /// End of the planned part of each request that was sent, by the last piece of its prompt.
    ends: HashMap<NodeId, u32>,
    /// Index in `pauses` of the conversation of each message.
    conversations: HashMap<NodeId, usize>,
    pauses: Vec<Pauses>,
}

/// Costs of one model in one format, under every scheme.
pub(crate) struct Estimate {
    pub(crate) provider: String,
    pub(crate) model: String,
    format: Format,
    pub(crate) requests: u64,
    pub(crate) columns: Vec<Column>,
    marker_rules: &'static MarkerRules,
    rules: Rules,
    price: Option<Price>,
}

/// Charges requests under every scheme.
pub(crate) struct PlanCosts<'a> {
    catalog: &'a Catalog,
    /// The model that replaces the original one, if one is set.
    other: Option<(String, String)>,
    pub(crate) estimates: Vec<Estimate>,
    /// The number of requests in a format that the other model does not support.
    pub(crate) untranslated: u64,
}

impl<'a> PlanCosts<'a> {
    pub(crate) fn new(catalog: &'a Catalog, other: Option<(String, String)>) -> Self {
        Self {
            catalog,
            other,
            estimates: Vec::new(),
            untranslated: 0,
        }
    }

    /// Charges a request. Callers pass requests in the order in which they were sent.
    pub(crate) fn take(&mut self, step: &Step) {
        let (provider, model) = match &self.other {
            Some((provider, model)) => (provider.as_str(), model.as_str()),
            None => (step.provider.as_str(), step.model.as_str()),
        };
        let Some(provider) = provider_for_format(step.format, provider) else {
            self.untranslated += 1;
            return;
        };
        let is_it = |estimate: &Estimate| {
            (estimate.provider.as_str(), estimate.model.as_str()) == (provider, model)
                && estimate.format == step.format
        };
        let known = self.estimates.iter().position(is_it);
        let at = known.unwrap_or_else(|| {
            let made = Estimate::new(self.catalog, provider, model, step);
            self.estimates.push(made);
            self.estimates.len() - 1
        });
        self.estimates[at].take(step);
    }
}

impl Estimate {
    fn new(catalog: &Catalog, provider: &str, model: &str, step: &Step) -> Self {
        let marker_rules = MarkerRules::find(provider, model, step.format);
        let listed = catalog.find(provider, model);
        let listed = listed.or_else(|| catalog.find_by_name(model));
        let limits = listed.map_or_else(ModelLimits::default, |listed| listed.limits);
        let rules = Rules::new(marker_rules, &limits, model);
        let columns = Scheme::all(marker_rules.style, &rules, step.sent.is_some());
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            format: step.format,
            requests: 0,
            columns: columns.into_iter().map(Column::new).collect(),
            marker_rules,
            rules,
            price: listed.and_then(|listed| listed.price.clone()),
        }
    }

    fn take(&mut self, step: &Step) {
        self.requests += 1;
        let request_tail = UnmarkedRequest::new(step, &self.model, self.marker_rules);
        for column in &mut self.columns {
            let plan = column.plan(&request_tail.prompt, step, &self.rules);
            let body = request_tail.body(&plan);
            column.charge(step, &body, |usage| {
                let terms = Terms::default();
                price(usage, &self.model, self.price.as_ref(), step.at, &terms)
            });
        }
    }
}

/// A request to a model, before markers are placed.
struct UnmarkedRequest {
    format: Format,
    prompt: Prompt,
    tail: Bytes,
    marker_rules: &'static MarkerRules,
}

impl UnmarkedRequest {
    fn new(step: &Step, model: &str, marker_rules: &'static MarkerRules) -> Self {
        Self {
            format: step.format,
            prompt: match step.sent {
                Some(_) => steps::markable(&step.prompt, step.format, marker_rules),
                None => step.prompt.clone(),
            },
            tail: request_tail(&step.tail, model, marker_rules, step.format),
            marker_rules,
        }
    }

    fn body(&self, plan: &Plan) -> Bytes {
        let wire = FormatWire::marked(self.format, self.marker_rules);
        contiguous(&self.prompt, &*wire, plan, &self.tail)
    }
}

impl Column {
    fn new(scheme: Scheme) -> Self {
        Self {
            scheme,
            usage: Usage::default(),
            cost: Cost::default(),
            refused: 0,
            refusal: None,
            unpriced: None,
            charged: 0,
            accountant: Accountant::new(Published::published()),
            ends: HashMap::new(),
            conversations: HashMap::new(),
            pauses: Vec::new(),
        }
    }

    fn plan(&mut self, prompt: &Prompt, step: &Step, rules: &Rules) -> Plan {
        let keep = match self.scheme {
            Scheme::AsSent => return step.sent.clone().unwrap_or_default(),
            Scheme::Automatic | Scheme::Without => return Plan::none(),
            Scheme::Planned(keep) => keep,
        };
        let ends = prompt.backwards().map(|node| self.ends.get(&node.id));
        let plan_context = PlanContext {
            previous_end: ends.flatten().next().copied(),
            human_paced: true,
            pauses: self.pauses(prompt, step.at),
            is_last: false,
            keep,
        };
        let planned = plan(prompt, rules, &plan_context).plan;
        if let (Some(tip), Some(end)) = (prompt.tip(), planned.end()) {
            self.ends.insert(tip, end);
        }
        planned
    }

    /// Returns the pauses of the request's conversation: the conversation of the last message that was sent
    /// before. It stays the same if its last messages are edited.
    fn pauses(&mut self, prompt: &Prompt, at: Millis) -> Pauses {
        let messages = || {
            let nodes = prompt.backwards();
            nodes.take_while(|node| node.level == Level::Message)
        };
        let known = messages().find_map(|node| self.conversations.get(&node.id).copied());
        let conversation = known.unwrap_or_else(|| {
            self.pauses.push(Pauses::default());
            self.pauses.len() - 1
        });
        for node in messages() {
            if self.conversations.insert(node.id, conversation) == Some(conversation) {
                break;
            }
        }
        let pauses = &mut self.pauses[conversation];
        pauses.count(prompt, at);
        *pauses
    }

    /// `price` returns the standard price of a usage at the time of the step.
    fn charge(
        &mut self,
        step: &Step,
        body: &[u8],
        price: impl Fn(&Usage) -> Result<Cost, Unpriced>,
    ) {
        let accounted = match api(step.format) {
            Some(api) => {
                let accounted = self.accountant.account(api, body, step.at, step.settings);
                accounted.map_err(|refused| refused.0)
            }
            None => Err(format!(
                "the format `{}` is not charged",
                step.format.name()
            )),
        };
        let accounted = match accounted {
            Ok(accounted) => accounted,
            Err(refusal) => {
                self.refused += 1;
                self.refusal.get_or_insert(refusal);
                return;
            }
        };
        let usage = self.usage_of(accounted, step.format);
        self.charged += 1;
        self.usage += usage;
        self.cost += price(&usage).unwrap_or_else(|unknown| {
            self.unpriced.get_or_insert(unknown);
            Cost::UNPRICED
        });
    }

    fn usage_of(&self, accounted: InputTokens, format: Format) -> Usage {
        let InputTokens {
            uncached,
            read,
            written,
            written_1h,
            written_12h,
        } = accounted;
        if self.scheme == Scheme::Without {
            return Usage::from_counts(accounted.total(), 0);
        }
        let has_lifetimes = for_format(format).request_rules().counts_write_lifetimes;
        let (write_5m, write_other) = if has_lifetimes {
            (written, 0)
        } else {
            (0, written)
        };
        Usage {
            uncached_input: uncached,
            cache_read: read,
            cache_write_5m: write_5m,
            cache_write_1h: written_1h,
            cache_write_12h: written_12h,
            cache_write_other: write_other,
            ..Usage::default()
        }
    }
}

/// Returns the provider that serves a provider's models in a format: the provider itself, or a gateway;
/// `None` if there is none.
fn provider_for_format(format: Format, provider: &str) -> Option<&str> {
    let rules = for_format(format).request_rules();
    match rules.served_by {
        Some(providers) => providers.contains(&provider).then_some(provider),
        None if provider == "anthropic" => rules.marking_gateway,
        None => Some(provider),
    }
}

/// The APIs of the simulator, which charges requests, by the names of their formats.
const APIS: [(&str, Api); 6] = [
    ("chat", Api::Chat),
    ("responses", Api::Responses),
    ("messages", Api::Messages),
    ("gemini", Api::Gemini),
    ("interactions", Api::Interactions),
    ("converse", Api::Converse),
];

fn api(format: Format) -> Option<Api> {
    let named = APIS.iter().find(|(name, _)| *name == format.name());
    named.map(|(_, api)| *api)
}

/// Returns the tail of the same request to this model: without parameters that only other models accept, and
/// with the parameters that it requires. A tail that is not JSON is unchanged, and the request is refused.
fn request_tail(tail: &Bytes, model: &str, marker_rules: &MarkerRules, format: Format) -> Bytes {
    let members = tail.strip_prefix(b",").unwrap_or(tail);
    let object = [b"{", members].concat();
    let Ok(Value::Object(mut object)) = serde_json::from_slice(&object) else {
        return tail.clone();
    };
    let said = std::mem::take(&mut object).into_iter();
    object.extend(said.filter_map(|(name, value)| {
        let value = normal::member(format, model, &name, value)?;
        Some((name, value))
    }));
    object.insert("model".to_owned(), model.into());
    if marker_rules.style != MarkerStyle::Breakpoints {
        object.shift_remove("prompt_cache_options");
    }
    if for_format(format).request_rules().needs_output_limit && !object.contains_key("max_tokens") {
        object.insert("max_tokens".to_owned(), 1_024.into());
    }
    let object = Value::Object(object).to_string();
    Bytes::from(format!(",{}", &object[1..]))
}
