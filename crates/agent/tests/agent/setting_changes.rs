//! Tools and effort that change within a conversation, with models that accept that.

use std::sync::{Arc, Mutex};

use cachalot_agent::{Approval, CancellationToken, Chat, Inherit};
use cachalot_simulator::ScriptedReply;
use cachalot_tools::{CallOutcome, Tool};
use serde_json::{Value, json};

use crate::bodies;
use crate::cached_turns::fixture_of;
use crate::diagnostics::strict;
use crate::fixture::{Fixture, Wire};
use crate::fork::{Recording, forked, spec, whale_agent};
use crate::review::reload::ExtensibleToolboxes;

/// A chat whose tools change.
struct ChangingChat {
    fixture: Fixture,
    toolboxes: Arc<ExtensibleToolboxes>,
    chat: Chat,
    late: Arc<Recording>,
}

impl ChangingChat {
    async fn new(model: &str, replies: Vec<ScriptedReply>) -> Self {
        let (wire, provider, base) = if model.starts_with("claude") {
            (Wire::Messages, "anthropic", "")
        } else {
            (Wire::Responses, "openai, format: responses", "/v1")
        };
        let mut fixture = Fixture::new(wire, &whale_agent(""), replies)
            .await
            .in_file();
        let url = fixture.simulator.url();
        fixture.model = Some(format!(
            "provider: {provider}, model: {model}, base_url: '{url}{base}'"
        ));
        let toolboxes = growing(&fixture, Vec::new());
        let chat = begin(&fixture, &toolboxes).await;
        Self {
            fixture,
            toolboxes,
            chat,
            late: Recording::new("late"),
        }
    }

    /// With a configured effort.
    async fn with_effort(model: &str, replies: Vec<ScriptedReply>, effort: &str) -> Self {
        let mut this = Self::new(model, replies).await;
        this.fixture.model_keys = format!(", reasoning_effort: {effort}");
        this.chat = begin(&this.fixture, &this.toolboxes).await;
        this
    }

    /// Continues the session in another process, with another effort.
    async fn resume_with(&mut self, effort: &str) {
        self.fixture.model_keys = format!(", reasoning_effort: {effort}");
        self.restart().await;
    }

    /// Offers these tools beside those of the agent, and reloads.
    async fn reload(&mut self, tools: Vec<Arc<dyn Tool>>) -> Option<(String, u64)> {
        *self.toolboxes.later.lock().unwrap() = tools.into();
        let reloaded = self.chat.reload().await.unwrap()?;
        Some((reloaded.changes, reloaded.tokens))
    }

    async fn add_late(&mut self) {
        let late = Arc::clone(&self.late) as Arc<dyn Tool>;
        let added = Some(("`late` is new".to_owned(), 0));
        assert_eq!(self.reload(vec![late]).await, added);
    }

    async fn turn(&mut self, text: &str) -> cachalot_agent::TurnReport {
        let report = self.fixture.turn(&mut self.chat, text).await;
        assert_eq!(report.breaks, [], "{text}");
        report
    }

    /// Continues the session in another process, with the same tools.
    async fn restart(&mut self) {
        let session = self.chat.session().to_owned();
        self.fixture.restart();
        let tools = self
            .toolboxes
            .later
            .lock()
            .unwrap()
            .iter()
            .cloned()
            .collect();
        self.toolboxes = growing(&self.fixture, tools);
        let mut dependencies = self.fixture.dependencies();
        dependencies.toolboxes = Arc::clone(&self.toolboxes) as _;
        let resumed = Chat::resume(dependencies, self.fixture.team(), &session).await;
        self.chat = resumed.unwrap();
    }
}

fn growing(fixture: &Fixture, tools: Vec<Arc<dyn Tool>>) -> Arc<ExtensibleToolboxes> {
    Arc::new(ExtensibleToolboxes {
        inner: fixture.dependencies().toolboxes,
        later: Mutex::new(tools.into()),
    })
}

async fn begin(fixture: &Fixture, toolboxes: &Arc<ExtensibleToolboxes>) -> Chat {
    let mut dependencies = fixture.dependencies();
    dependencies.toolboxes = Arc::clone(toolboxes) as _;
    Chat::begin(dependencies, fixture.team(), None)
        .await
        .unwrap()
}

fn text(text: &str) -> ScriptedReply {
    ScriptedReply::text(text)
}

fn call_late() -> ScriptedReply {
    ScriptedReply::call("late", json!({}))
}

/// The messages of a request that change tools: index and blocks, without markers.
fn changes(body: &Value) -> Vec<(usize, Value)> {
    let messages = body["messages"]
        .as_array()
        .or_else(|| body["input"].as_array());
    let messages = messages.unwrap().iter().enumerate();
    let changes = messages.filter_map(|(at, message)| {
        let mut blocks = match message["type"] == "additional_tools" {
            true => message["tools"].clone(),
            false if message["role"] == "system" => message["content"].clone(),
            false => return None,
        };
        for block in blocks.as_array_mut().unwrap() {
            block.as_object_mut().unwrap().shift_remove("cache_control");
        }
        Some((at, blocks))
    });
    changes.collect()
}

/// The tools that a request begins with, without markers.
fn tools(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

fn betas(fixture: &Fixture) -> Vec<Option<String>> {
    let received = fixture.simulator.received().into_iter();
    received
        .map(|request| request.header("anthropic-beta").map(str::to_owned))
        .collect()
}

#[tokio::test]
async fn added_tool_keeps_the_prefix() {
    for model in ["claude-opus-5", "gpt-5.6-sol"] {
        let replies = vec![
            text("2 km."),
            call_late(),
            text("It is done."),
            text("Yes."),
        ];
        let mut changing = ChangingChat::new(model, replies).await;
        changing.turn("How deep?").await;
        changing.add_late().await;
        let late = Arc::clone(&changing.late) as Arc<dyn Tool>;
        assert_eq!(changing.reload(vec![late]).await, None);

        changing.fixture.answers.give([Approval::Yes]);
        let report = changing.turn("Now?").await;
        assert_eq!(report.text, "It is done.");
        assert_eq!(changing.late.times(), 1);
        changing.turn("Sure?").await;

        let bodies = changing.fixture.bodies();
        assert!(bodies.iter().all(|body| tools(body) == tools(&bodies[0])));
        assert!(!tools(&bodies[0]).contains(&"late".to_owned()));
        assert_eq!(changes(&bodies[0]), []);
        let added = changes(&bodies[1]);
        assert_eq!(added.len(), 1, "{model}");
        assert!(bodies[2..].iter().all(|body| changes(body) == added));
        let added = added[0].1.to_string();
        assert!(added.contains(r#""name":"late""#), "{added}");
        let beta = Some("inline-tools-2026-09-15".to_owned());
        let expected = if model.starts_with("claude") {
            vec![None, beta.clone(), beta.clone(), beta]
        } else {
            vec![None; 4]
        };
        assert_eq!(betas(&changing.fixture), expected);
        // Each request begins with the one before it, and the simulator has read that from its cache.
        let reads = changing.chat.total().usage.cache_read;
        assert!(reads > 3 * 3_000, "{model}: {reads}");
        changing.fixture.check();
    }
}

#[tokio::test]
async fn configured_betas_are_kept() {
    let replies = vec![text("2 km."), text("Yes.")];
    let mut changing = ChangingChat::new("claude-opus-5", replies).await;
    changing.fixture.model_keys = ", headers: {anthropic-beta: other-2026-01-01}".to_owned();
    changing.chat = begin(&changing.fixture, &changing.toolboxes).await;
    changing.turn("How deep?").await;
    changing.add_late().await;
    changing.turn("Really?").await;
    let other = "other-2026-01-01";
    let both = format!("{other},inline-tools-2026-09-15");
    assert_eq!(
        betas(&changing.fixture),
        [Some(other.to_owned()), Some(both)]
    );
    changing.fixture.check();
}

#[tokio::test]
async fn removed_tool_is_withdrawn_and_cannot_be_called() {
    let replies = vec![
        text("2 km."),
        text("Yes."),
        call_late(),
        text("No."),
        call_late(),
        text("Now."),
    ];
    let mut changing = ChangingChat::new("claude-opus-5", replies).await;
    changing.turn("How deep?").await;
    changing.add_late().await;
    changing.turn("Really?").await;
    let removed = changing.reload(Vec::new()).await;
    assert_eq!(removed, Some(("`late` is gone".to_owned(), 0)));

    let report = changing.turn("Call it.").await;
    assert_eq!((report.text.as_str(), changing.late.times()), ("No.", 0));
    let ended = changing.fixture.reported.ended();
    assert_eq!(ended.len(), 1);
    assert_eq!(ended[0].how, CallOutcome::Refused);
    let of_request = changes(&changing.fixture.last_body());
    let removal =
        json!([{"type": "tool_removal", "tool": {"type": "tool_reference", "name": "late"}}]);
    assert_eq!(of_request.len(), 2);
    assert_eq!(of_request[1].1, removal);

    // It comes back.
    changing.add_late().await;
    changing.fixture.answers.give([Approval::Yes]);
    changing.turn("Again.").await;
    assert_eq!(changing.late.times(), 1);
    assert_eq!(changes(&changing.fixture.last_body()).len(), 3);
    changing.fixture.check();
}

#[tokio::test]
async fn added_tools_need_approval_as_others_do() {
    let replies = vec![text("2 km."), call_late(), text("No.")];
    let mut changing = ChangingChat::new("claude-opus-5", replies).await;
    changing.turn("How deep?").await;
    changing.add_late().await;
    changing.fixture.answers.give([Approval::No(None)]);
    changing.turn("Now?").await;
    assert_eq!(changing.late.times(), 0);
    changing.fixture.check();
}

#[tokio::test]
async fn changes_survive_the_process_and_a_summary() {
    let replies = vec![
        text("2 km."),
        text("Yes."),
        text("It was about depths."),
        text("Deep."),
        text("Deeper."),
    ];
    let mut changing = ChangingChat::new("claude-opus-5", replies).await;
    changing.turn("How deep?").await;
    changing.add_late().await;
    // The change is brought by the first message of another process.
    changing.restart().await;
    assert_eq!(changing.fixture.reported.warnings(), [] as [String; 0]);
    changing.turn("Really?").await;
    let bodies = changing.fixture.bodies();
    assert_eq!(changes(&bodies[1]).len(), 1);

    changing.restart().await;
    let never = CancellationToken::default();
    assert!(changing.chat.compact(&never).await.unwrap());
    changing.restart().await;
    changing.turn("So?").await;
    let bodies = changing.fixture.bodies();
    // The request for the summary has what was sent before, and the next one begins with the tools of the session.
    assert_eq!(changes(&bodies[2]), changes(&bodies[1]));
    assert_eq!(changes(&bodies[3]).len(), 1);
    assert_eq!(tools(&bodies[3]), tools(&bodies[0]));
    changing.turn("And?").await;
    assert_eq!(changing.fixture.reported.warnings(), [] as [String; 0]);
    changing.fixture.check_between(&[3]);
}

#[tokio::test]
async fn retracted_change_is_brought_again() {
    let replies = vec![text("2 km."), text("Yes."), text("No.")];
    let mut changing = ChangingChat::new("claude-opus-5", replies).await;
    changing.turn("How deep?").await;
    changing.add_late().await;
    changing.turn("Really?").await;
    changing.chat.retract().await.unwrap().unwrap();
    changing.turn("Sure?").await;
    let bodies = changing.fixture.bodies();
    assert_eq!(changes(&bodies[2]), changes(&bodies[1]));
    changing.fixture.check_from(2);
}

#[tokio::test]
async fn tools_are_rendered_anew_if_the_model_does_not_accept_the_change() {
    // OpenAI's item only adds tools, and of the other model it is not known.
    for (model, reloads) in [("gpt-5.6-sol", 2), ("claude-sonnet-5", 1)] {
        let replies = vec![text("2 km."), text("Yes."), text("No.")];
        let mut changing = ChangingChat::new(model, replies).await;
        let usage = changing.turn("How deep?").await.sum.usage;
        let late = Arc::clone(&changing.late) as Arc<dyn Tool>;
        let mut last = (
            changing.reload(vec![late]).await.unwrap().1,
            usage.total_input(),
        );
        if reloads == 2 {
            assert_eq!(last.0, 0);
            let usage = changing.turn("Really?").await.sum.usage;
            last = (
                changing.reload(Vec::new()).await.unwrap().1,
                usage.total_input(),
            );
        }
        assert_eq!(last.0, last.1, "{model}");
        let report = changing.fixture.turn(&mut changing.chat, "Sure?").await;
        assert_eq!(report.text, if reloads == 2 { "No." } else { "Yes." });
        let body = changing.fixture.last_body();
        assert_eq!(changes(&body), []);
        assert_eq!(tools(&body).contains(&"late".to_owned()), reloads == 1);
        changing.fixture.check_from(reloads);
    }
}

/// The next message would bring a change: what was answered without it does not count.
#[tokio::test]
async fn change_that_was_not_brought_yet_is_part_of_the_key() {
    const KEEPER: &str = "
agents:
  root:
    model: test
    instruction: You talk.
    cache: {enabled: true, ttl: 1h}
";
    let (mut fixture, _) = fixture_of(KEEPER, vec![text("one"), text("two")]).await;
    let url = fixture.simulator.url();
    let model = "provider: anthropic, model: claude-opus-5";
    fixture.model = Some(format!("{model}, base_url: '{url}'"));
    let toolboxes = growing(&fixture, Vec::new());
    let mut chat = begin(&fixture, &toolboxes).await;
    assert_eq!(fixture.turn(&mut chat, "Hello?").await.text, "one");
    toolboxes
        .later
        .lock()
        .unwrap()
        .push_back(Recording::new("late"));
    let reloaded = chat.reload().await.unwrap().unwrap();
    assert_eq!(reloaded.tokens, 0);
    chat.retract().await.unwrap().unwrap();
    let report = fixture.turn(&mut chat, "Hello?").await;
    assert_eq!((report.text.as_str(), report.synthetic), ("two", None));
    assert_eq!(changes(&fixture.last_body()).len(), 1);
    fixture.check_from(1);
}

#[tokio::test]
async fn refused_change_is_sent_as_tools() {
    let replies = vec![text("2 km."), text("Yes."), text("No.")];
    let mut changing = ChangingChat::new("claude-opus-5", replies).await;
    let upstream = changing.fixture.simulator.address();
    let url = strict(upstream, "tool_addition").await;
    let model = "provider: anthropic, model: claude-opus-5";
    changing.fixture.model = Some(format!("{model}, base_url: '{url}'"));
    changing.chat = begin(&changing.fixture, &changing.toolboxes).await;
    changing.turn("How deep?").await;
    changing.add_late().await;
    let report = changing.fixture.turn(&mut changing.chat, "Really?").await;
    assert_eq!(report.text, "Yes.");
    assert_eq!(report.breaks.len(), 1);
    let warnings = changing.fixture.reported.warnings();
    assert!(
        warnings[0].contains("sending the conversation anew"),
        "{warnings:?}"
    );
    let body = changing.fixture.last_body();
    assert!(tools(&body).contains(&"late".to_owned()));
    changing.turn("Sure?").await;
    changing.fixture.check_from(1);
}

#[tokio::test]
async fn forks_have_the_changed_tools() {
    let replies = vec![text("2 km."), text("Yes."), text("a"), text("b"), text("c")];
    let mut changing = ChangingChat::new("claude-opus-5", replies).await;
    changing.turn("How deep?").await;
    changing.add_late().await;
    changing.turn("Really?").await;
    let inherited = [Inherit::Full, Inherit::Prompt, Inherit::Session];
    for (inherit, said) in inherited.into_iter().zip([1, 0, 0]) {
        let report = forked(&changing.chat, spec(&["late"], inherit), "Look back.").await;
        assert_eq!(report.denied, [] as [String; 0]);
        let body = changing.fixture.last_body();
        assert_eq!(changes(&body).len(), said, "{inherit:?}");
        let is_first = tools(&body).contains(&"late".to_owned());
        assert_eq!(is_first, inherit != Inherit::Full, "{inherit:?}");
        assert_eq!(bodies::turns(&body).len(), 5);
    }
    changing.fixture.check_between(&[3, 4]);
}

/// The efforts that the messages of a request bring.
fn brought(body: &Value) -> Vec<String> {
    let messages = body["messages"]
        .as_array()
        .or_else(|| body["input"].as_array());
    let messages = messages.unwrap().iter();
    let efforts = messages.filter_map(|message| {
        if message["type"] == "configuration_update" {
            message["reasoning"]["effort"].as_str()
        } else {
            message["output_config"]["effort"].as_str()
        }
    });
    efforts.map(str::to_owned).collect()
}

/// The effort, and what else is said of reasoning, that a request begins with.
fn first_effort(body: &Value) -> (Value, Value) {
    let effort = match body.get("reasoning") {
        Some(reasoning) => &reasoning["effort"],
        None => &body["output_config"]["effort"],
    };
    (effort.clone(), body["thinking"].clone())
}

#[tokio::test]
async fn another_effort_keeps_the_prefix() {
    for model in ["claude-opus-5", "gpt-6-astra"] {
        let replies = ["2 km.", "Yes.", "No.", "Deep.", "Summary.", "So."].map(text);
        let mut changing = ChangingChat::with_effort(model, replies.into(), "high").await;
        changing.turn("How deep?").await;
        changing.resume_with("low").await;
        changing.turn("Really?").await;
        changing.turn("Sure?").await;
        changing.resume_with("high").await;
        changing.turn("And?").await;
        let bodies = changing.fixture.bodies();
        let sent: Vec<Vec<String>> = bodies.iter().map(brought).collect();
        assert_eq!(
            sent,
            [vec![], vec!["low"], vec!["low"], vec!["low", "high"]],
            "{model}"
        );
        assert_eq!(first_effort(&bodies[0]).0, "high");
        let first = first_effort(&bodies[0]);
        assert!(bodies.iter().all(|body| first_effort(body) == first));
        let beta = Some("mid-conversation-output-config-2026-07-01".to_owned());
        let expected = if model.starts_with("claude") {
            vec![None, beta.clone(), beta.clone(), beta]
        } else {
            vec![None; 4]
        };
        assert_eq!(betas(&changing.fixture), expected);
        // After a summary, the requests begin with the effort of the first one again.
        let never = CancellationToken::default();
        changing.resume_with("low").await;
        assert!(changing.chat.compact(&never).await.unwrap());
        changing.turn("So?").await;
        let body = changing.fixture.last_body();
        assert_eq!(
            (brought(&body), first_effort(&body)),
            (vec!["low".to_owned()], first)
        );
        assert_eq!(changing.fixture.reported.warnings(), [] as [String; 0]);
        changing.fixture.check_between(&[5]);
    }
}

#[tokio::test]
async fn effort_is_a_parameter_where_messages_cannot_bring_it() {
    for (model, effort) in [("claude-opus-4-8", "low"), ("gpt-5.6-sol", "medium")] {
        let replies = vec![text("2 km."), text("Yes.")];
        let mut changing = ChangingChat::with_effort(model, replies, "high").await;
        changing.turn("How deep?").await;
        changing.resume_with(effort).await;
        let warnings = changing.fixture.reported.warnings();
        assert!(
            warnings
                .iter()
                .any(|warning| warning.contains("`reasoning`")),
            "{warnings:?}"
        );
        changing.fixture.turn(&mut changing.chat, "Really?").await;
        let bodies = changing.fixture.bodies();
        assert_eq!(brought(&bodies[1]), [] as [String; 0]);
        assert_ne!(
            first_effort(&bodies[1]),
            first_effort(&bodies[0]),
            "{model}"
        );
        changing.fixture.check();
    }
}
