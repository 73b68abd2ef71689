//! What a fork takes over, and what its first request costs by it: measured with the simulator, whose
//! figures the documentation has.

use std::sync::Arc;

use cachalot_agent::Inherit;
use cachalot_core::{Cost, Digest};
use cachalot_model::{Catalog, Terms, Usage, price};
use cachalot_simulator::accounting::Rules;
use cachalot_simulator::{Accountant, Format, ReceivedRequest, ScriptedReply};
use serde_json::{Value, json};

use super::{Recording, forked, review, spec, whale_agent};
use crate::fixture::{Fixture, NOW, Wire};

/// Somebody who reads what was sent before: a format, and what decides how it is cached.
struct Provider {
    wire: Wire,
    name: &'static str,
    model: &'static str,
    /// The name in the documented table.
    shown: &'static str,
}

const PROVIDERS: [Provider; 4] = [
    Provider {
        wire: Wire::Chat,
        name: "openai",
        model: "gpt-4o-mini",
        shown: "`chat`, gpt-4o-mini",
    },
    Provider {
        wire: Wire::Responses,
        name: "openai",
        model: "gpt-5-mini",
        shown: "`responses`, gpt-5-mini",
    },
    Provider {
        wire: Wire::Responses,
        name: "openai",
        model: "gpt-5.6-terra",
        shown: "`responses`, gpt-5.6-terra",
    },
    Provider {
        wire: Wire::Messages,
        name: "anthropic",
        model: "claude-sonnet-4-5",
        shown: "`messages`, claude-sonnet-4-5",
    },
];

const OPTIONS: [(Inherit, &str); 4] = [
    (Inherit::Full, "full"),
    (Inherit::Prompt, "prompt"),
    (Inherit::Session, "session"),
    (Inherit::None, "none"),
];

impl Provider {
    async fn fixture(&self, file: &str, replies: Vec<ScriptedReply>) -> Fixture {
        let file = file.replace("model: test", "model: measured");
        let mut fixture = Fixture::new(self.wire, &file, replies).await;
        let known = self.wire.model(&fixture.simulator.url());
        // Of two models with one format, the other one.
        let measured = known.replace("gpt-5-mini", self.model);
        assert!(measured.contains(self.model), "{measured}");
        fixture.model_keys = format!("}}\n  measured: {{{measured}, token_key: TEST_KEY");
        fixture
    }

    /// The cost of the sent requests.
    fn cost(&self, usage: Usage) -> Cost {
        let catalog = Catalog::built_in();
        let listed = catalog.find(self.name, self.model).unwrap().price.as_ref();
        let sent = Usage { output: 0, ..usage };
        price(&sent, self.model, listed, NOW, &Terms::default()).unwrap()
    }
}

/// How much of the last request the provider would read if the same bytes were sent once more: by its
/// published rules, from the bytes alone.
fn cached_prefix(requests: &[ReceivedRequest]) -> u64 {
    let mut accountant = Accountant::new(Rules::published());
    let format = |path: &str| match path {
        "/v1/chat/completions" => Format::Chat,
        "/v1/responses" => Format::Responses,
        "/v1/messages" => Format::Messages,
        other => panic!("nobody asks {other}"),
    };
    let again = requests.iter().chain(requests.last());
    let read = again.map(|request| {
        let (format, namespace) = (format(&request.path), Digest::sha256(&[]));
        let accounted = accountant.account(format, &request.body, NOW, namespace);
        accounted.unwrap().read
    });
    read.last().unwrap()
}

fn has_tool(body: &Value, name: &str) -> bool {
    let tools = body["tools"].as_array().unwrap().iter();
    let mut names = tools.map(|tool| tool.get("function").unwrap_or(tool)["name"].as_str());
    names.any(|found| found == Some(name))
}

/// A fork, and what is told of it.
struct Measured {
    parent: u64,
    first: Usage,
    cost: Cost,
    is_shown: bool,
    runs: usize,
}

/// A fork that may read files, and that calls a shell.
async fn measure(provider: &Provider, inherit: Inherit) -> Measured {
    let replies = vec![
        ScriptedReply::call("read_file", json!({"path": "depths"})),
        ScriptedReply::text("1,200 m."),
        ScriptedReply::call("shell", json!({"what": "rm depths"})),
        ScriptedReply::text("Nothing to keep."),
    ];
    let file = whale_agent("").replace("[safe, danger]", "['*']");
    let mut fixture = provider.fixture(&file, replies).await;
    let shell = Recording::new("shell");
    fixture.tools = vec![Arc::clone(&shell) as _];
    fixture.write("depths", &"The cachalot dived 1,200 m.\n".repeat(300));
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "How deep?").await;
    let parent = cached_prefix(&fixture.simulator.received());
    let report = forked(&chat, spec(&["read_file", "grep"], inherit), "Look back.").await;
    assert_eq!(
        (report.text.as_str(), report.denied.as_slice()),
        ("Nothing to keep.", &["shell".to_owned()][..])
    );
    let first = report.first.unwrap();
    let measured = Measured {
        parent,
        first,
        cost: provider.cost(first),
        is_shown: has_tool(&fixture.bodies()[2], "shell"),
        runs: shell.times(),
    };
    fixture.check_between(&[2]);
    measured
}

/// With a comma behind the thousands.
fn tokens(count: u64) -> String {
    match count {
        0..1_000 => count.to_string(),
        _ => format!("{},{:03}", count / 1_000, count % 1_000),
    }
}

fn row(provider: &Provider, option: &str, measured: &Measured, full: Cost) -> String {
    let Measured {
        parent,
        first,
        cost,
        is_shown,
        runs,
    } = measured;
    let [parent, read, written, uncached] = [
        *parent,
        first.cache_read,
        first.cache_write(),
        first.uncached_input,
    ]
    .map(tokens);
    let dollars = |cost: &Cost| cost.picodollars as f64 / 1e12;
    let times = dollars(cost) / dollars(&full);
    let shown = if *is_shown { "yes" } else { "no" };
    let runs = if *runs > 0 { "yes" } else { "no" };
    format!(
        "| {} | `{option}` | {parent} | {read} | {written} | {uncached} | ${:.6} | {times:.1} | {shown} | {runs} |",
        provider.shown,
        dollars(cost)
    )
}

/// The rows of the document's table.
fn documented() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/prompt-cache.md");
    let document = std::fs::read_to_string(path).unwrap();
    let rows = document.lines().filter(|line| {
        let mut shown = PROVIDERS.iter().map(|provider| provider.shown);
        shown.any(|shown| line.starts_with(&format!("| {shown} |")))
    });
    rows.map(str::to_owned).collect()
}

#[tokio::test]
async fn documented_costs_of_the_inherit_options_are_measured() {
    let mut rows = Vec::new();
    for provider in &PROVIDERS {
        let full = measure(provider, Inherit::Full).await;
        assert_eq!(full.first.cache_read, full.parent, "{}", provider.shown);
        assert!(full.parent > 1_024 && full.is_shown, "{}", provider.shown);
        for (inherit, option) in OPTIONS {
            let measured = measure(provider, inherit).await;
            assert_eq!(measured.runs, 0, "{} {option}", provider.shown);
            rows.push(row(provider, option, &measured, full.cost));
        }
    }
    assert_eq!(
        documented(),
        rows,
        "the table has to be:\n{}\n",
        rows.join("\n")
    );
}

/// What forks were made for: without them, a review is sent as if nothing had been said before, and
/// nothing of it is read from a cache.
#[tokio::test]
async fn review_reads_the_cached_prefix_of_its_parent_unless_inherit_is_none() {
    let thinking = Provider {
        wire: Wire::Thinking,
        name: "anthropic",
        model: "claude-sonnet-4-5",
        shown: "`messages`, which thinks",
    };
    for provider in PROVIDERS.iter().chain([&thinking]) {
        for (option, inherited_parts) in [("full", true), ("none", false)] {
            let replies = ["1,200 m.", "In May.", "Nothing to keep."].map(ScriptedReply::text);
            let keys = format!(
                "toolsets: [{{type: filesystem}}]\n    review: {{every_turns: 2, inherit: {option}}}"
            );
            let file = whale_agent("").replace("toolsets: [{type: filesystem}]", &keys);
            let fixture = provider.fixture(&file, replies.to_vec()).await;
            let mut chat = fixture.chat().await;
            fixture.turn(&mut chat, "How deep?").await;
            fixture.turn(&mut chat, "When?").await;
            chat.wait_for_review().await;
            let received = fixture.simulator.received();
            let parent = cached_prefix(&received[..2]);
            assert!(parent > 1_024, "{}", provider.shown);
            let first = review(&fixture).first.unwrap();
            let expected = if inherited_parts { parent } else { 0 };
            assert_eq!(first.cache_read, expected, "{} {option}", provider.shown);
            assert!(first.total_input() > 1_024, "{} {option}", provider.shown);
            fixture.check_between(&[2]);
        }
    }
}
