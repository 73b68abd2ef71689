//! The tables of the catalog, the planner and the simulator, against each other. They are made
//! independently: the catalog and the simulator's facts of models by two scripts, from the same data set and
//! with corrections of their own; the rules of caching by hand, from the providers' pages.

use std::collections::BTreeSet;
use std::fmt::Debug;

use cachalot_model::{
    Capabilities, Catalog, Format, MarkerRules, MarkerStyle, ModelLimits, Thinking,
};
use cachalot_prompt::Rules;
use cachalot_simulator::accounting::{self, Caching};
use cachalot_simulator::facts::{self, AnthropicFacts, OpenAiFacts};

/// Differences that are known, each with the sources of both values.
const KNOWN: [(&str, &str); 6] = [
    (
        "claude-mythos-preview: minimum is 512 (facts), 2048 (rules)",
        "the data set; platform.claude.com/docs/en/build-with-claude/prompt-caching",
    ),
    (
        "claude-mythos-preview: minimum is 512 (catalog), 2048 (rules)",
        "the data set; platform.claude.com/docs/en/build-with-claude/prompt-caching",
    ),
    (
        "claude-mythos-preview: minimum is 512 (planner), 2048 (rules)",
        "the planner takes the catalog's",
    ),
    (
        "claude-sonnet-5: system messages is true (facts), false (rules)",
        "the data set; platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages",
    ),
    (
        "gpt-4: output is 4096 (catalog), 8192 (facts)",
        "the data set; developers.openai.com/api/docs/models/gpt-4",
    ),
    (
        "gpt-4-0613: output is 4096 (catalog), 8192 (facts)",
        "the data set; developers.openai.com/api/docs/models/gpt-4",
    ),
];

/// Differences between two tables.
#[derive(Default)]
struct Differences(BTreeSet<String>);

impl Differences {
    /// Notes a difference if both tables have a value.
    fn compare<T: PartialEq + Debug>(
        &mut self,
        what: &str,
        one: (&str, Option<T>),
        other: (&str, Option<T>),
    ) {
        if let ((one, Some(left)), (other, Some(right))) = (one, other)
            && left != right
        {
            self.0
                .insert(format!("{what} is {left:?} ({one}), {right:?} ({other})"));
        }
    }
}

#[test]
fn catalog_planner_and_simulator_agree_except_for_known_differences() {
    let catalog = Catalog::built_in();
    let rules = accounting::Rules::published();
    let mut found = Differences::default();
    for name in facts::names("anthropic") {
        let facts = facts::anthropic(name).unwrap();
        let listed = catalog.find("anthropic", name).cloned().unwrap_or_default();
        anthropic_caching(&mut found, name, &rules, listed.limits, &facts);
        anthropic_requests(&mut found, name, &listed.capabilities, &facts);
        let output = (listed.limits.max_output, facts.max_output);
        found.compare(
            &format!("{name}: output"),
            ("catalog", output.0),
            ("facts", output.1),
        );
    }
    for name in facts::names("openai") {
        let facts = facts::openai(name).unwrap();
        let listed = catalog.find("openai", name).cloned().unwrap_or_default();
        openai_caching(&mut found, name, &rules, listed.limits);
        openai_requests(&mut found, name, &listed.capabilities, &facts);
        let output = (listed.limits.max_output, facts.max_output);
        found.compare(
            &format!("{name}: output"),
            ("catalog", output.0),
            ("facts", output.1),
        );
    }
    let known: BTreeSet<String> = KNOWN.iter().map(|(known, _)| (*known).to_owned()).collect();
    let new: Vec<&String> = found.0.difference(&known).collect();
    let gone: Vec<&String> = known.difference(&found.0).collect();
    assert!(
        new.is_empty() && gone.is_empty(),
        "new: {new:#?}\ngone: {gone:#?}"
    );
}

fn anthropic_caching(
    found: &mut Differences,
    name: &str,
    rules: &accounting::Rules,
    limits: ModelLimits,
    facts: &AnthropicFacts,
) {
    let ruled = rules.anthropic.model(name);
    let marker_rules = MarkerRules::find("anthropic", name, Format::Messages);
    let planned = Rules::new(marker_rules, &limits, name);
    let planned = limits.minimum_cacheable.map(|_| planned.minimum);
    for (table, minimum) in [
        ("facts", facts.minimum_cacheable),
        ("catalog", limits.minimum_cacheable),
        ("planner", planned),
    ] {
        let ruled = ("rules", Some(ruled.minimum));
        found.compare(&format!("{name}: minimum"), (table, minimum), ruled);
    }
    found.compare(
        &format!("{name}: system messages"),
        ("facts", Some(facts.system_messages)),
        ("rules", Some(ruled.system_messages)),
    );
    found.compare(
        &format!("{name}: lookback"),
        ("planner", Some(u64::from(marker_rules.lookback))),
        ("rules", Some(rules.anthropic.lookback)),
    );
    found.compare(
        &format!("{name}: runs count once"),
        ("planner", Some(marker_rules.runs_count_once)),
        ("rules", Some(rules.anthropic.runs_count_once)),
    );
    // The simulator's limit is tested with five markers.
    assert_eq!(
        (marker_rules.style, marker_rules.max_markers),
        (MarkerStyle::CacheControl, 4),
        "{name}"
    );
}

fn anthropic_requests(
    found: &mut Differences,
    name: &str,
    capabilities: &Capabilities,
    facts: &AnthropicFacts,
) {
    let thinking = match (facts.adaptive_thinking, facts.budgeted_thinking) {
        _ if facts.thinking_always_on => Thinking::AlwaysOn,
        (true, true) => Thinking::AdaptiveOrLegacy,
        (true, false) => Thinking::Adaptive,
        (false, true) => Thinking::Legacy,
        (false, false) => Thinking::None,
    };
    found.compare(
        &format!("{name}: thinking"),
        ("catalog", capabilities.thinking),
        ("facts", Some(thinking)),
    );
    found.compare(
        &format!("{name}: efforts"),
        ("catalog", sorted(capabilities.efforts.as_deref())),
        ("facts", sorted(Some(&facts.efforts))),
    );
    let default = (!facts.efforts.is_empty()).then(|| facts.default_effort.clone());
    found.compare(
        &format!("{name}: default effort"),
        ("catalog", capabilities.default_effort.clone()),
        ("facts", default),
    );
    found.compare(
        &format!("{name}: sampling"),
        ("catalog", capabilities.sampling),
        ("facts", Some(facts.sampling)),
    );
}

fn openai_caching(
    found: &mut Differences,
    name: &str,
    rules: &accounting::Rules,
    limits: ModelLimits,
) {
    let ruled = rules.openai.model(name);
    found.compare(
        &format!("{name}: minimum"),
        ("catalog", limits.minimum_cacheable),
        ("rules", Some(ruled.minimum)),
    );
    let marker_rules = MarkerRules::find("openai", name, Format::Responses);
    found.compare(
        &format!("{name}: breakpoints"),
        (
            "planner",
            Some(marker_rules.style == MarkerStyle::Breakpoints),
        ),
        ("rules", Some(ruled.caching == Caching::Exact)),
    );
}

fn openai_requests(
    found: &mut Differences,
    name: &str,
    capabilities: &Capabilities,
    facts: &OpenAiFacts,
) {
    for (format, served) in [
        (Format::Chat, facts.chat),
        (Format::Responses, facts.responses),
    ] {
        found.compare(
            &format!("{name}: {format:?}"),
            ("catalog", capabilities.takes(format)),
            ("facts", served),
        );
    }
    found.compare(
        &format!("{name}: efforts"),
        ("catalog", sorted(capabilities.efforts.as_deref())),
        ("facts", sorted(facts.efforts.as_deref())),
    );
    let default = facts.reasons.then(|| facts.default_effort.clone());
    found.compare(
        &format!("{name}: default effort"),
        ("catalog", capabilities.default_effort.clone()),
        ("facts", default),
    );
    found.compare(
        &format!("{name}: tools with an effort on Chat Completions"),
        ("catalog", capabilities.chat_tools_with_effort),
        ("facts", Some(!facts.tools_need_responses)),
    );
}

fn sorted(efforts: Option<&[String]>) -> Option<Vec<String>> {
    let mut efforts = efforts?.to_vec();
    efforts.sort();
    Some(efforts)
}
