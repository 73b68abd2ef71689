//! Commands that the sandbox kept from something, repeated outside of it after an approval.

use std::sync::Arc;

use cachalot_model::Block;
use cachalot_operation::{AccessRequest, PermissionDecision};
use cachalot_tools::{
    BatchContext, CallObserver, CallOutcome, PreparedCall, ReadyCall, ToolCallResult, ToolContext,
    ToolOutput,
};

use super::approval::{protected_concern, put};
use super::candidate::{Candidate, HookDecisions, access_request, command_place};
use super::context::TurnContext;
use super::mode;
use crate::active_session::ActiveSession;
use crate::event::{Approval, ApprovalRequest, CommandPlace, Concern, ConcernKind};

/// Parts of the messages, in lower case, that programs print when the sandbox keeps them from something: those of the C
/// library (`strerror`, `gai_strerror`) and of curl, the error codes of Node.js, and the sandbox's own. Programs also print
/// them for other reasons, so they cause a question and nothing else.
const MESSAGE_PARTS: [&str; 17] = [
    "connection refused",
    "could not resolve",
    "eacces",
    "eai_again",
    "econnrefused",
    "enetunreach",
    "enotfound",
    "eperm",
    "erofs",
    "name or service not known",
    "name resolution",
    "network is unreachable",
    "operation not permitted",
    "permission denied",
    "read-only file system",
    "the sandbox cannot",
    "the sandbox does not permit",
];

/// Maximum number of characters of a line that is shown.
const MAX_LINE_CHARS: usize = 200;

/// Asks the user about each command that failed because of the sandbox, and repeats those that may leave it. The model
/// learns what the sandbox prevented.
pub(super) async fn repeat(
    context: &TurnContext<'_>,
    session: &ActiveSession,
    batch: &BatchContext,
    observer: &Arc<dyn CallObserver>,
    answers: &mut [ToolCallResult],
    calls: &[Candidate],
) {
    for (answer, call) in answers.iter_mut().zip(calls) {
        let PreparedCall::Ready(ready) = &call.prepared else {
            continue;
        };
        let is_inside = matches!(
            command_place(ready, &batch.context),
            Some(CommandPlace::Sandbox | CommandPlace::LimitedSandbox)
        );
        let has_failed = answer.output.is_error && answer.outcome != CallOutcome::Refused;
        if !is_inside || !has_failed {
            continue;
        }
        let Some(line) = prevented(&answer.output) else {
            continue;
        };
        let Some(approval) = ask(context, ready, &call.decided, &line).await else {
            continue;
        };
        if let Approval::No(why) = approval {
            let why = why.map(|why| format!(": {why}")).unwrap_or_default();
            let note = format!(
                "(The sandbox may have prevented this: {line}. It was not repeated outside{why}.)"
            );
            answer.output.content.push(Block::text(note));
            continue;
        }
        let outside = BatchContext {
            context: ToolContext {
                sandbox: None,
                ..batch.context.clone()
            },
            observer: Arc::clone(observer),
            ..batch.clone()
        };
        let again = vec![call.prepared.clone()];
        if let Some(mut again) = session.tools.toolbox.run(again, &outside).await.pop() {
            let note = format!(
                "[in the sandbox, it failed with: {line}; the user had it repeated outside]\n"
            );
            again.output.content.insert(0, Block::text(note));
            *answer = again;
        }
    }
}

/// Returns the line of an output that may tell what the sandbox prevented.
fn prevented(output: &ToolOutput) -> Option<String> {
    let texts = output.content.iter().filter_map(Block::as_text);
    let mut lines = texts.flat_map(str::lines);
    let line = lines.find(|line| {
        let line = line.to_lowercase();
        MESSAGE_PARTS.iter().any(|part| line.contains(part))
    })?;
    Some(line.trim().chars().take(MAX_LINE_CHARS).collect())
}

/// Asks the user if a command may run outside; `None` if it must not, because a rule denies it there or might.
async fn ask(
    context: &TurnContext<'_>,
    ready: &ReadyCall,
    decided: &HookDecisions,
    line: &str,
) -> Option<Approval> {
    let dependencies = &context.shared.dependencies;
    if mode::refusal(dependencies.approver.mode(), ready).is_some() {
        return None;
    }
    // Not in a sandbox.
    let operation = access_request(ready);
    let permissions = &context.shared.team.permissions;
    let decision = permissions.judge(&operation, &dependencies.tools.workspace);
    let rule = match decision {
        PermissionDecision::Deny(_) | PermissionDecision::Unclear { .. } => return None,
        PermissionDecision::Ask(rule) => rule,
        PermissionDecision::Allow => None,
    };
    let AccessRequest {
        arguments,
        resource_access,
        ..
    } = operation;
    let mut text = format!("failed in the sandbox (`{line}`)");
    if let Some(concern) = protected_concern(context, &operation) {
        text += &format!(", and {concern}");
    }
    let concern = Concern {
        kind: ConcernKind::LeavesSandbox,
        text,
    };
    let request = ApprovalRequest {
        agent: &context.agent.name,
        call: &ready.call,
        arguments,
        rule: rule.as_deref(),
        doubt: None,
        // No pattern: an approval to leave the sandbox holds for this call only.
        pattern: None,
        why: None,
        concern: Some(&concern),
        place: Some(CommandPlace::Outside),
        resource_access,
        obstacle: None,
        notes: &decided.notes,
    };
    Some(put(context, &request).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_what_a_sandbox_prevents_are_found() {
        let line = |text: &str| prevented(&ToolOutput::error(text.to_owned()));
        for text in [
            "touch: cannot touch '/x': Read-only file system",
            "  cat: .env: Permission denied  ",
            "curl: (6) Could not resolve host: crates.io",
            "OSError: [Errno 101] Network is unreachable",
            "npm error code EAI_AGAIN",
            "cachalot: the sandbox cannot protect /w/a: /w/b is the same file",
        ] {
            let output = format!("first\n{text}\n[exit status 1]");
            assert_eq!(line(&output).as_deref(), Some(text.trim()));
        }
        assert_eq!(line("error: expected `;`\n[exit status 1]"), None);
        assert_eq!(
            line(&format!("EPERM {}", "x".repeat(500)))
                .unwrap_or_default()
                .len(),
            200
        );
    }
}
