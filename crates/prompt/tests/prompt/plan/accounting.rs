//! Whether the planner's markers earn what it promises, by the accounts of the simulator, which shares
//! no code with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::tree;
use cachalot_core::{ManualClock, SystemClock};
use cachalot_model::{
    Block, Catalog, Message, Model, ModelConfiguration, ModelDependencies, Models, Role,
    ToolDefinition, ToolResult, ToolUse, Usage,
};
use cachalot_prompt::{PlanContext, PrefixLifetime, Prompt, Rules, contiguous, plan};
use cachalot_simulator::{RunningSimulator, Script, Simulator, SimulatorOptions};
use cachalot_storage::HttpOptions;
use proptest::prelude::*;
use serde_json::json;

use crate::run;

/// Models, each with another kind of markers.
const MODELS: [&str; 5] = ["native", "gateway", "proxy", "chat", "responses"];

/// The models whose accounts follow from their markers.
const ACCOUNTED: [&str; 3] = ["native", "chat", "responses"];

struct ModelState {
    simulator: RunningSimulator,
    clock: Arc<ManualClock>,
    models: Models,
}

impl ModelState {
    async fn new() -> Self {
        let clock = Arc::new(ManualClock::at(1_000_000));
        let script = Script::parse("script.yaml", "otherwise: {text: Aye.}").unwrap();
        let options = SimulatorOptions {
            script,
            clock: clock.clone(),
            ..SimulatorOptions::default()
        };
        let simulator = Simulator::start(options).await.unwrap();
        let url = simulator.url();
        let models = tree::parse(
            "models.yaml",
            &format!(
                "native: {{provider: anthropic, model: claude-sonnet-4-5, base_url: '{url}'}}\n\
                 gateway: {{provider: openrouter, model: anthropic/claude-sonnet-4-5, base_url: '{url}/v1'}}\n\
                 proxy: {{provider: litellm, model: claude-sonnet-4-5, base_url: '{url}/v1'}}\n\
                 chat: {{provider: openai, model: gpt-5.6, reasoning_effort: none, base_url: '{url}/v1'}}\n\
                 responses: {{provider: openai, model: gpt-5.6, format: responses, base_url: '{url}/v1'}}\n"
            ),
        );
        let configured = ModelConfiguration::read(Some(&models.unwrap()), None, &mut Vec::new());
        let surroundings = ModelDependencies {
            environment: BTreeMap::new(),
            clock: Arc::new(SystemClock),
            http: HttpOptions::default(),
            catalog: Catalog::built_in(),
        };
        Self {
            simulator,
            clock,
            models: Models::new(surroundings, configured),
        }
    }

    fn talk(&self, model: &str, system: &str) -> Talk {
        let model = self.models.find(model).unwrap();
        let tools = ["grep", "read"].map(|name| {
            model.wire().tool(&ToolDefinition {
                name: name.to_owned(),
                description: format!("What {name} does."),
                parameters: json!({"type": "object"}),
            })
        });
        let system: Vec<_> = system
            .split('|')
            .map(|text| model.wire().system(text))
            .collect();
        Talk {
            prompt: Prompt::begin(&tools, &system),
            plan_context: PlanContext::default(),
            model,
        }
    }

    /// Asserts that the simulator refused nothing.
    fn is_content(&self) {
        assert_eq!(self.simulator.violations(), [] as [&str; 0]);
    }
}

/// A conversation with one model.
#[derive(Clone)]
struct Talk {
    model: Model,
    prompt: Prompt,
    plan_context: PlanContext,
}

impl Talk {
    fn say(&mut self, message: Message) {
        self.prompt = crate::said(&self.prompt, self.model.wire(), message);
    }

    /// Sends it as it is.
    async fn send(&mut self) -> Usage {
        let usage = self.sent(&self.plan_context).await;
        let planned = plan(
            &self.prompt,
            &Rules::for_model(&self.model),
            &self.plan_context,
        );
        self.plan_context.previous_end = planned.plan.end();
        usage
    }

    async fn sent(&self, plan_context: &PlanContext) -> Usage {
        let (wire, parameters) = (self.model.wire(), self.model.parameters());
        let planned = plan(&self.prompt, &Rules::for_model(&self.model), plan_context);
        let tail = wire.tail(parameters, false);
        let body = contiguous(&self.prompt, wire, &planned.plan, &tail);
        self.model.ask(body).await.unwrap().usage.unwrap()
    }
}

fn call(id: &str) -> Block {
    Block::ToolUse(ToolUse {
        id: format!("call_{id}"),
        name: "grep".to_owned(),
        arguments: "{}".to_owned(),
        extra: Default::default(),
    })
}

fn result(id: &str, text: &str) -> Block {
    Block::ToolResult(ToolResult {
        id: format!("call_{id}"),
        content: vec![Block::text(text)],
        is_error: false,
        extra: Default::default(),
    })
}

/// What happens in a turn: texts of the user; for each round texts of the model, and results of its
/// calls; texts of its answer.
#[derive(Debug, Clone)]
struct Turn {
    user: usize,
    rounds: Vec<(usize, usize)>,
    answer: usize,
}

fn turn() -> impl Strategy<Value = Turn> {
    // Few blocks mostly, and sometimes more than a look-back visits.
    let few = || prop_oneof![6 => 1_usize..3, 1 => 18_usize..30];
    let round = (prop_oneof![4 => 0_usize..2, 1 => 17_usize..24], few());
    (few(), proptest::collection::vec(round, 0..4), few()).prop_map(|(user, rounds, answer)| Turn {
        user,
        rounds,
        answer,
    })
}

fn texts(count: usize, what: &str) -> Vec<Block> {
    (0..count)
        .map(|number| Block::text(format!("{what} {number}: ").repeat(8)))
        .collect()
}

impl Turn {
    /// Its messages, by what is sent at once: each request ends with what is told to the model.
    fn requests(&self, number: usize) -> Vec<Vec<Message>> {
        let mut requests = vec![vec![Message::new(Role::User, texts(self.user, "question"))]];
        for (round, (said, calls)) in self.rounds.iter().enumerate() {
            let ids: Vec<String> = (0..*calls)
                .map(|call| format!("{number}_{round}_{call}"))
                .collect();
            let mut blocks = texts(*said, "thought");
            blocks.extend(ids.iter().map(|id| call(id)));
            let results = ids
                .iter()
                .map(|id| result(id, &format!("result of {id}")))
                .collect();
            requests.push(vec![
                Message::new(Role::Assistant, blocks),
                Message::new(Role::User, results),
            ]);
        }
        requests
    }
}

/// The tokens that a request left to be read: up to its last marker.
fn left(usage: &Usage) -> u64 {
    usage.cache_read + usage.cache_write()
}

async fn every_request_reads_what_the_one_before_wrote(
    world: &ModelState,
    model: &str,
    turns: &[Turn],
    system: &str,
) {
    let mut talk = world.talk(model, system);
    let mut before = Usage::default();
    for (number, turn) in turns.iter().enumerate() {
        for messages in turn.requests(number) {
            messages.into_iter().for_each(|message| talk.say(message));
            let usage = talk.send().await;
            assert!(
                usage.cache_read >= left(&before),
                "{model}: {before:?}, then {usage:?}"
            );
            before = usage;
        }
        talk.say(Message::new(Role::Assistant, texts(turn.answer, "answer")));
    }
    // Long enough from the first request on.
    if system.len() > 10_000 && ACCOUNTED.contains(&model) {
        assert!(left(&before) > 2_000, "{model}: {before:?}");
    }
}

fn long() -> String {
    format!(
        "{}|{}",
        "Stable words. ".repeat(500),
        "The workspace is small. ".repeat(300)
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn requests_of_a_growing_conversation_read_everything_written(
        turns in proptest::collection::vec(turn(), 1..5),
        is_long in any::<bool>(),
    ) {
        let system = if is_long { long() } else { "You help.|Here.".to_owned() };
        run(async {
            let world = ModelState::new().await;
            for model in MODELS {
                every_request_reads_what_the_one_before_wrote(&world, model, &turns, &system).await;
            }
            world.is_content();
        });
    }
}

#[test]
fn last_request_reads_everything_and_writes_nothing() {
    run(async {
        let world = ModelState::new().await;
        for model in ACCOUNTED {
            let mut talk = world.talk(model, &long());
            talk.say(Message::user("question"));
            talk.send().await;
            talk.say(Message::assistant("answer"));
            talk.say(Message::user("another"));
            let before = talk.send().await;
            let mut aside = talk.clone();
            aside.say(Message::assistant("answer"));
            aside.say(Message::user("Summarize that."));
            let last = PlanContext {
                is_last: true,
                ..aside.plan_context
            };
            let usage = aside.sent(&last).await;
            assert_eq!(
                (usage.cache_read, usage.cache_write()),
                (left(&before), 0),
                "{model}"
            );
        }
        world.is_content();
    });
}

/// Waits for a person for twenty minutes in front of the third turn; gives what is read then.
async fn read_after_a_pause(world: &ModelState, human_paced: bool) -> (Usage, Usage) {
    let mut talk = world.talk("native", &long());
    talk.plan_context.human_paced = human_paced;
    talk.plan_context.pauses = super::slow();
    talk.say(Message::user("first question"));
    talk.send().await;
    talk.say(Message::assistant("first answer"));
    talk.say(Message::user("second question"));
    let second = talk.send().await;
    talk.say(Message::assistant("second answer"));
    world.clock.advance(Duration::from_secs(20 * 60));
    talk.say(Message::user("third question"));
    (second, talk.send().await)
}

#[test]
fn one_hour_markers_survive_a_user_pause() {
    run(async {
        let world = ModelState::new().await;
        let (second, third) = read_after_a_pause(&world, false).await;
        assert_eq!((third.cache_read, second.cache_write_1h), (0, 0));
        let world = ModelState::new().await;
        let (second, third) = read_after_a_pause(&world, true).await;
        assert!(second.cache_write_1h > 0);
        assert_eq!(third.cache_read, second.cache_read + second.cache_write_1h);
        world.is_content();
    });
}

#[test]
fn twelve_hour_markers_survive_a_long_pause() {
    run(async {
        for (keep, written, read) in [
            (PrefixLifetime::FiveMinutes, false, false),
            (PrefixLifetime::TwelveHours, true, true),
            (PrefixLifetime::Auto, true, true),
        ] {
            let world = ModelState::new().await;
            let mut talk = world.talk("responses", &long());
            talk.plan_context = PlanContext {
                human_paced: true,
                pauses: super::very_slow(),
                keep,
                ..PlanContext::default()
            };
            talk.say(Message::user("first question"));
            let first = talk.send().await;
            assert_eq!(first.cache_write_12h > 0, written, "{keep:?}: {first:?}");
            talk.say(Message::assistant("first answer"));
            world.clock.advance(Duration::from_secs(11 * 3_600));
            talk.say(Message::user("second question"));
            let second = talk.send().await;
            assert_eq!(second.cache_read > 0, read, "{keep:?}: {second:?}");
            world.is_content();
        }
    });
}

#[test]
fn long_turn_without_gap_marker_would_be_read_uncached() {
    run(async {
        let world = ModelState::new().await;
        let mut talk = world.talk("native", &long());
        talk.say(Message::user("question"));
        let first = talk.send().await;
        let blocks = texts(24, "thought")
            .into_iter()
            .chain([call("1")])
            .collect();
        talk.say(Message::new(Role::Assistant, blocks));
        talk.say(Message::new(Role::User, vec![result("1", "found")]));
        let forgetful = PlanContext {
            previous_end: None,
            ..talk.plan_context
        };
        // The test can fail: without the marker, the question is lost.
        assert!(talk.clone().sent(&forgetful).await.cache_read < left(&first));
        let world = ModelState::new().await;
        let mut again = world.talk("native", &long());
        again.say(Message::user("question"));
        again.send().await;
        again.prompt = talk.prompt.clone();
        assert_eq!(again.send().await.cache_read, left(&first));
    });
}
