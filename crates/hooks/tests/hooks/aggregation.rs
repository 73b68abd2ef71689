//! Combination of handler outputs: deny before ask before allow, in configured order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::Spend;
use cachalot_hooks::contract::{BlockEffect, SpecificOutput};
use cachalot_hooks::definition::OnError;
use cachalot_hooks::{
    Builtin, Builtins, CONTRACTS, Decision, Dialect, Event, Fault, Hooks, Input, Output, Synthetic,
    Verdict,
};
use proptest::prelude::*;

use crate::hook_builder::{EmptyAgent, HookBuilder, entry, hook_dependencies};

fn decides(decision: Decision, reason: &str) -> Output {
    Output {
        permission: Some((decision, Some(reason.to_owned()))),
        ..Output::default()
    }
}

fn blocks(reason: &str) -> Output {
    Output {
        block: Some(reason.to_owned()),
        ..Output::default()
    }
}

fn context(text: &str) -> Output {
    Output {
        additional_context: Some(text.to_owned()),
        ..Output::default()
    }
}

fn answers(text: &str) -> Output {
    Output {
        synthetic: Some(Synthetic {
            content: text.to_owned(),
            ..Synthetic::default()
        }),
        ..Output::default()
    }
}

fn metadata(pairs: &[(&str, &str)]) -> Output {
    let pairs = pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Output {
        metadata: pairs.collect(),
        ..Output::default()
    }
}

fn everything() -> Output {
    Output {
        permission: Some((Decision::Allow, None)),
        additional_context: Some("context".to_owned()),
        updated_input: Some([("command".to_owned(), "ls".into())].into_iter().collect()),
        updated_messages: Some(vec![cachalot_model::Message::user("rewritten")]),
        updated_tool_response: Some("rewritten".to_owned()),
        summary: Some("summary".to_owned()),
        ..answers("answer")
    }
}

#[tokio::test]
async fn most_restrictive_decision_wins() {
    use Decision::{Allow, Ask, Deny};
    let orders = [[Allow, Ask, Deny], [Deny, Ask, Allow], [Ask, Deny, Allow]];
    for order in orders {
        let mut made = HookBuilder::of(Event::ToolGuard);
        for decision in order {
            made = made.says(decides(decision, decision.name()));
        }
        assert_eq!(
            made.verdict().await.decision,
            Some((Deny, "deny".to_owned()))
        );
    }
    let made = HookBuilder::of(Event::ToolGuard)
        .says(decides(Allow, "a"))
        .says(decides(Ask, "b"));
    assert_eq!(made.verdict().await.decision, Some((Ask, "b".to_owned())));
}

/// A builtin that judges last, and notes what the others decided.
struct Last(Arc<Mutex<Vec<Option<String>>>>);

#[async_trait]
impl Builtin for Last {
    fn name(&self) -> &'static str {
        "last"
    }

    fn about(&self) -> &'static str {
        "Notes what all others decided."
    }

    fn events(&self) -> &'static [Event] {
        &[Event::Stop, Event::TurnEnd]
    }

    fn runs_last(&self, event: Event) -> bool {
        event == Event::Stop
    }

    async fn run(&self, _: &[String], input: &Input) -> Result<Output, Fault> {
        let rejected = input
            .answer
            .as_ref()
            .and_then(|answer| answer.rejected.clone());
        self.0.lock().unwrap().push(rejected);
        Ok(Output::default())
    }
}

/// Wherever the configuration names it, and however long the others take.
#[tokio::test]
async fn last_hook_receives_the_decisions_of_the_others() {
    let slow = || {
        let mut slow = entry(Event::Stop, "say", &[]);
        slow.dialect = Dialect::Claude;
        slow.definition.action = cachalot_hooks::Action::Command {
            line: "sleep 0.2; echo no >&2; exit 2".to_owned(),
        };
        slow
    };
    for (entries, expected) in [
        (
            vec![entry(Event::Stop, "last", &[]), slow()],
            Some("no".to_owned()),
        ),
        (
            vec![slow(), entry(Event::Stop, "last", &[])],
            Some("no".to_owned()),
        ),
        (vec![entry(Event::Stop, "last", &[])], None),
    ] {
        let noted = Arc::default();
        let mut builtins = Builtins::default();
        builtins
            .register(Arc::new(Last(Arc::clone(&noted))))
            .unwrap();
        let hooks = Hooks::assemble(entries, &EmptyAgent, &hook_dependencies(builtins)).unwrap();
        let input = Input {
            event: Event::Stop,
            answer: Some(cachalot_hooks::input::Answer::default()),
            ..Input::default()
        };
        hooks.fire(input).await;
        assert_eq!(*noted.lock().unwrap(), [expected]);
    }
}

#[tokio::test]
async fn first_reason_of_equally_strong_decisions_wins() {
    let made = HookBuilder::of(Event::PreToolUse)
        .says(decides(Decision::Ask, "first"))
        .says(decides(Decision::Ask, "second"));
    assert_eq!(made.verdict().await.decision.unwrap().1, "first");
    let made = HookBuilder::of(Event::PreToolUse)
        .says(blocks("blocked"))
        .says(decides(Decision::Deny, "denied"));
    assert_eq!(made.verdict().await.denial(), Some("blocked"));
}

#[tokio::test]
async fn a_decision_without_a_reason_names_its_hook() {
    for (output, reason) in [
        (blocks(""), "hook `hook-0` (agent.yaml) denies it"),
        (
            Output {
                permission: Some((Decision::Ask, None)),
                ..Output::default()
            },
            "hook `hook-0` (agent.yaml) wants the user to be asked",
        ),
    ] {
        let verdict = HookBuilder::of(Event::PreToolUse)
            .says(output)
            .verdict()
            .await;
        assert_eq!(verdict.decision.unwrap().1, reason);
    }
}

#[tokio::test]
async fn decision_is_a_message_at_events_without_decisions() {
    for contract in CONTRACTS
        .iter()
        .filter(|contract| !contract.honours(SpecificOutput::PermissionDecision))
    {
        let made = HookBuilder::of(contract.event).says(decides(Decision::Deny, "no"));
        let verdict = made.verdict().await;
        assert_eq!(verdict.decision, None, "{}", contract.event);
        let message = format!(
            "hook `hook-0` (agent.yaml) returned `deny`: no; `{}` supports no decisions",
            contract.event
        );
        assert_eq!(verdict.messages, [message]);
        let made = HookBuilder::of(contract.event).says(decides(Decision::Allow, "yes"));
        assert_eq!(made.verdict().await.messages, Vec::<String>::new());
    }
}

#[tokio::test]
async fn block_denies_or_becomes_a_message_by_event() {
    for contract in &CONTRACTS {
        let verdict = HookBuilder::of(contract.event)
            .says(blocks("enough"))
            .verdict()
            .await;
        assert_eq!(verdict.continue_reason, None);
        if contract.blocks == BlockEffect::Refusal {
            assert_eq!(verdict.denial(), Some("enough"), "{}", contract.event);
            assert!(verdict.messages.is_empty());
        } else {
            assert_eq!(verdict.decision, None, "{}", contract.event);
            let message = format!(
                "hook `hook-0` (agent.yaml) wanted to block: enough; nothing can be blocked at `{}`",
                contract.event
            );
            assert_eq!(verdict.messages, [message]);
        }
    }
}

#[tokio::test]
async fn blocking_stop_in_other_dialects_continues_the_turn_with_the_reason() {
    let verdict = HookBuilder::of(Event::Stop)
        .says(blocks("the tests fail"))
        .but(|entry| entry.dialect = Dialect::Claude)
        .says(blocks("not me"))
        .says(blocks("the lints, too"))
        .but(|entry| entry.dialect = Dialect::Claude)
        .verdict()
        .await;
    assert_eq!(
        verdict.continue_reason.as_deref(),
        Some("the tests fail\nthe lints, too")
    );
    assert_eq!(verdict.decision, None);
    assert_eq!(verdict.messages.len(), 1);
    assert!(verdict.messages[0].contains("not me"));
}

#[tokio::test]
async fn verdict_contains_only_outputs_honored_by_the_event() {
    for contract in &CONTRACTS {
        let mut output = everything();
        output.metadata = metadata(&[("name", "value")]).metadata;
        let input = Input {
            messages: vec![cachalot_model::Message::user("written").into()],
            unsent: 1,
            ..Input::default()
        };
        let verdict = HookBuilder::of(contract.event)
            .says(output)
            .fire(input)
            .await;
        let said = [
            (
                SpecificOutput::AdditionalContext,
                !verdict.context.is_empty(),
            ),
            (
                SpecificOutput::PermissionDecision,
                verdict.decision.is_some(),
            ),
            (
                SpecificOutput::UpdatedInput,
                verdict.updated_input.is_some(),
            ),
            (
                SpecificOutput::UpdatedMessages,
                verdict.updated_messages.is_some(),
            ),
            (
                SpecificOutput::UpdatedToolResponse,
                verdict.updated_tool_response.is_some(),
            ),
            (SpecificOutput::Summary, verdict.summary.is_some()),
            (
                SpecificOutput::SyntheticResponse,
                verdict.synthetic.is_some(),
            ),
            (SpecificOutput::Metadata, !verdict.metadata.is_empty()),
        ];
        for (what, is_said) in said {
            assert_eq!(
                is_said,
                contract.honours(what),
                "{what:?} at {}",
                contract.event
            );
        }
    }
}

#[tokio::test]
async fn contexts_and_messages_follow_the_configured_order() {
    let with_message = |text: &str, message: &str| Output {
        system_message: Some(message.to_owned()),
        ..context(text)
    };
    let verdict = HookBuilder::of(Event::UserPromptSubmit)
        .hook(|_| async {
            yields(20).await;
            Ok(context("slow"))
        })
        .says(with_message("quick", "hello"))
        .fails()
        .but(|entry| entry.definition.on_error = Some(OnError::Warn))
        .says(with_message("", ""))
        .says(with_message("last", "bye"))
        .verdict()
        .await;
    assert_eq!(verdict.context, ["slow", "quick", "last"]);
    assert_eq!(
        verdict.messages,
        ["hello", "hook `hook-2` (agent.yaml) failed: broken", "bye"]
    );
}

#[tokio::test]
async fn metadata_of_permission_requests_is_merged_and_the_later_wins() {
    let verdict = HookBuilder::of(Event::PermissionRequest)
        .says(metadata(&[("risk", "low"), ("by", "one")]))
        .says(metadata(&[("risk", "high")]))
        .verdict()
        .await;
    let merged = [("by", "one"), ("risk", "high")];
    let merged: BTreeMap<String, String> = merged
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    assert_eq!(verdict.metadata, merged);
}

#[tokio::test]
async fn the_first_summary_wins_and_compaction_is_allowed_by_default() {
    let summary = |text: &str| Output {
        summary: Some(text.to_owned()),
        ..Output::default()
    };
    let verdict = HookBuilder::of(Event::BeforeCompaction)
        .says(summary(""))
        .says(summary("one"))
        .says(summary("two"))
        .verdict()
        .await;
    assert_eq!(verdict.summary.as_deref(), Some("one"));
    assert_eq!(verdict.decision, None);
}

#[tokio::test]
async fn first_synthetic_answer_wins_and_later_hooks_still_run() {
    for event in [
        Event::UserPromptSubmit,
        Event::PreUserTurn,
        Event::BeforeLlmCall,
    ] {
        let verdict = HookBuilder::of(event)
            .says(Output::default())
            .says(answers("one"))
            .says(answers("two"))
            .verdict()
            .await;
        assert_eq!(verdict.synthetic.unwrap().content, "one");
        assert_eq!(verdict.reports.len(), 3);
    }
}

#[tokio::test]
async fn denial_overrides_a_synthetic_answer_in_any_order() {
    for event in [
        Event::UserPromptSubmit,
        Event::PreUserTurn,
        Event::BeforeLlmCall,
    ] {
        let before = HookBuilder::of(event)
            .says(blocks("no"))
            .says(answers("yes"));
        let behind = HookBuilder::of(event)
            .says(answers("yes"))
            .says(blocks("no"));
        for made in [before, behind] {
            let verdict = made.verdict().await;
            assert_eq!(verdict.denial(), Some("no"));
            assert_eq!(verdict.synthetic, None);
        }
    }
}

#[tokio::test]
async fn spend_of_hooks_is_summed() {
    let spent = || Output {
        spent: Spend {
            input_tokens: 7,
            ..Spend::for_call(Duration::from_millis(2))
        },
        ..Output::default()
    };
    let made = HookBuilder::of(Event::TurnEnd)
        .says(spent())
        .says(spent())
        .fails();
    let verdict = made.verdict().await;
    assert_eq!((verdict.spent.calls, verdict.spent.input_tokens), (2, 14));
}

#[tokio::test]
async fn reports_contain_the_output_of_each_hook() {
    let verdict = HookBuilder::of(Event::UserPromptSubmit)
        .says(context("it"))
        .fails()
        .verdict()
        .await;
    let said: Vec<_> = verdict
        .reports
        .iter()
        .map(|report| (&*report.handler, &report.result))
        .collect();
    assert_eq!(
        said,
        [
            ("hook-0", &Ok(context("it"))),
            ("hook-1", &Err(Fault::new("broken")))
        ]
    );
}

/// Gives way so many times.
async fn yields(times: usize) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

/// The output of a hook or its failure, and the number of its yields.
type Plan = (Option<Output>, usize);

fn plan() -> impl Strategy<Value = Plan> {
    let decision = prop_oneof![
        Just(Decision::Allow),
        Just(Decision::Ask),
        Just(Decision::Deny)
    ];
    let text = "[a-c]{0,2}";
    let output = (
        proptest::option::weighted(0.2, text),
        proptest::option::of((decision, proptest::option::of(text))),
        proptest::option::of(text),
        proptest::option::of((text, text)),
        proptest::option::of(text),
    );
    let output = output.prop_map(|(block, permission, message, pair, argument)| Output {
        block,
        permission,
        system_message: message,
        metadata: pair.into_iter().collect(),
        updated_input: argument.map(|name| [(name, 1.into())].into_iter().collect()),
        ..Output::default()
    });
    (proptest::option::weighted(0.9, output), 0..6usize)
}

async fn come_of(event: Event, plans: &[Plan], in_turn: bool) -> Verdict {
    let mut made = HookBuilder::of(event);
    for (said, times) in plans.iter().cloned() {
        let times = if in_turn { 0 } else { times };
        made = made.hook(move |_| {
            let said = said.clone().ok_or_else(|| Fault::new("broken"));
            async move {
                yields(times).await;
                said
            }
        });
    }
    let mut verdict = made.verdict().await;
    for report in &mut verdict.reports {
        report.elapsed = Duration::ZERO;
    }
    verdict
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_verdict_is_independent_of_completion_order_and_denials_win(
        plans in proptest::collection::vec(plan(), 0..7),
        event in prop_oneof![Just(Event::ToolGuard), Just(Event::PermissionRequest)],
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let in_turn = runtime.block_on(come_of(event, &plans, true));
        let mixed = runtime.block_on(come_of(event, &plans, false));
        prop_assert_eq!(&in_turn, &mixed);
        let denies = |plan: &Plan| match &plan.0 {
            // A guard that fails denies.
            None => true,
            Some(output) => {
                let denied = output.permission.as_ref().is_some_and(|(decision, _)| *decision == Decision::Deny);
                denied || output.block.is_some()
            }
        };
        prop_assert_eq!(mixed.denial().is_some(), plans.iter().any(denies));
    }
}
