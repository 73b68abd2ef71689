//! Diagnosis of prefixes, from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod diagnosis;
mod live;
mod log;
mod log_faults;
mod monitor;
mod normalization;
mod recorded;
mod request;
mod spend;
mod spend_agents;
mod spend_claude_code;
mod spend_codex;
mod token_counts;
mod transcript;
mod verdict;
mod walk;
mod what_if;

use cachalot_test_support::conversation;
use std::sync::Arc;

use cachalot_model::Message;
use cachalot_model::wire::{Rendered, Wire};
use cachalot_prompt::{Plan, PlanContext, Prompt, Rules, plan};

/// The markers of a first request by Anthropic's rules, except that nothing is too short.
fn marks(prompt: &Prompt) -> Plan {
    let rules = Rules {
        max_markers: 4,
        lookback: 20,
        runs_count_once: true,
        one_hour: true,
        twelve_hours: false,
        minimum: 0,
    };
    plan(prompt, &rules, &PlanContext::default()).plan
}

/// A frozen part of two tools and two pieces of system text.
fn frozen(wire: &dyn Wire) -> Prompt {
    let tools: Vec<Rendered> = ["grep", "read_file"]
        .map(|name| wire.tool(&conversation::tool(name)))
        .into();
    let system = ["You help.", "Today is a day."].map(|text| wire.system(text));
    Prompt::begin(&tools, &system)
}

fn said(prompt: &Prompt, wire: &dyn Wire, message: Message) -> Prompt {
    let message = Arc::new(message);
    prompt.append(&wire.message(&message).unwrap(), message)
}
