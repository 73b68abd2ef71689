//! The phases before a call is made: its arguments are rewritten, guarded, and judged by hooks and rules.

use std::collections::BTreeMap;

use cachalot_hooks::input::ToolUse;
use cachalot_hooks::{Decision, Event as When, Verdict as Heard};
use cachalot_operation::{Operation, Touches};
use cachalot_tools::{Call, Origin, Output, Prepared, Verdict};
use serde_json::{Map, Value};

use super::Turn;
use crate::herald::Added;

/// A call that is being judged.
pub(super) struct Candidate {
    pub(super) prepared: Prepared,
    /// Paragraphs that hooks add to the result for the model.
    pub(super) added: Added,
    /// The strongest decision of hooks so far, with its reason.
    pub(super) decision: Option<(Decision, String)>,
    /// Names and values that hooks supply to the approver.
    pub(super) notes: BTreeMap<String, String>,
    /// The reason of a hook that ends the turn after the call.
    pub(super) ends_turn: Option<String>,
}

impl Candidate {
    /// Creates a candidate from a call that was looked up.
    pub(super) fn of(prepared: Prepared) -> Self {
        Self {
            prepared,
            added: Added::default(),
            decision: None,
            notes: BTreeMap::new(),
            ends_turn: None,
        }
    }

    /// Creates a candidate that is refused.
    pub(super) fn refused(call: Call, why: String) -> Self {
        Self::of(Prepared {
            call,
            verdict: Verdict::Refused(Output::error(why)),
        })
    }

    /// The call in the form used in hook events. `None` if the call is invalid and its arguments cannot be
    /// parsed.
    pub(super) fn told(&self) -> Option<ToolUse> {
        let call = &self.prepared.call;
        let (input, origin, read_only, touches) = match &self.prepared.verdict {
            Verdict::Ready {
                arguments,
                origin,
                read_only,
                touches,
            } => (arguments.clone(), origin, *read_only, touches.clone()),
            Verdict::Refused(_) => {
                let arguments: Map<String, Value> = serde_json::from_str(&call.arguments).ok()?;
                (arguments, &Origin::BuiltIn, false, Touches::default())
            }
        };
        Some(ToolUse {
            name: call.name.clone(),
            id: call.id.clone(),
            category: category(origin).to_owned(),
            mcp: of_server(origin, &call.name),
            read_only,
            input,
            touches,
        })
    }

    /// The operation that rules judge, if the call can be made.
    pub(super) fn ready(&self) -> Option<Operation<'_>> {
        match &self.prepared.verdict {
            Verdict::Ready {
                arguments,
                read_only,
                touches,
                ..
            } => Some(Operation {
                tool: &self.prepared.call.name,
                read_only: *read_only,
                arguments,
                touches,
            }),
            Verdict::Refused(_) => None,
        }
    }

    /// Records the decisions of hooks.
    ///
    /// # Errors
    /// The reason why the call must not be made.
    pub(super) fn decide(&mut self, heard: &Heard) -> Result<(), String> {
        if let Some(why) = &heard.ends_turn {
            self.ends_turn.get_or_insert_with(|| why.clone());
        }
        if let Some(why) = heard.denial() {
            return Err(format!(
                "The call of `{}` is denied by a hook: {why}\nDo not try it again; find another way or tell the user.",
                self.prepared.call.name
            ));
        }
        let strength = |decision: &Option<(Decision, String)>| decision.as_ref().map(|(is, _)| *is);
        if strength(&heard.decision) > strength(&self.decision) {
            self.decision.clone_from(&heard.decision);
        }
        self.notes.extend(heard.metadata.clone());
        Ok(())
    }

    /// True if this is the hooks' decision.
    pub(super) fn is(&self, decision: Decision) -> bool {
        self.decision
            .as_ref()
            .is_some_and(|(is, _)| *is == decision)
    }
}

fn category(origin: &Origin) -> &'static str {
    match origin {
        Origin::BuiltIn => "builtin",
        Origin::Mcp(_) => "mcp",
    }
}

/// Returns the server of a tool, and the tool's name there as far as its name here reveals it.
fn of_server(origin: &Origin, name: &str) -> Option<(String, String)> {
    let Origin::Mcp(server) = origin else {
        return None;
    };
    let fits = |sign: char| sign.is_ascii_alphanumeric() || sign == '_' || sign == '-';
    let plain: String = server
        .chars()
        .map(|sign| if fits(sign) { sign } else { '_' })
        .collect();
    let there = name.strip_prefix(&format!("mcp_{plain}_"));
    Some((server.clone(), there.unwrap_or(name).to_owned()))
}

impl Turn<'_> {
    /// Permits a call, or builds an error result with the reason. Calls that the gate denies reach no hook,
    /// rule or approver. Hooks can rewrite the arguments of other calls, but not the name of the tool.
    pub(super) async fn permit(&self, call: Call) -> Candidate {
        if let Some(denial) = self.shared.house.tools.denial(&call.name) {
            return Candidate::of(Prepared {
                call,
                verdict: Verdict::Refused(denial),
            });
        }
        let mut candidate = Candidate::of(self.desk.toolbox.prepare(call));
        if let Err(why) = self.phases(&mut candidate).await {
            candidate.prepared.verdict = Verdict::Refused(Output::error(why));
        }
        candidate
    }

    /// Runs the phases of a call.
    ///
    /// # Errors
    /// The reason why the call must not be made.
    async fn phases(&self, candidate: &mut Candidate) -> Result<(), String> {
        self.transform(candidate).await?;
        self.guard(candidate).await?;
        self.before_use(candidate).await?;
        self.judge(candidate).await
    }

    /// Lets hooks rewrite the arguments, including invalid ones.
    async fn transform(&self, candidate: &mut Candidate) -> Result<(), String> {
        let heard = self.tell_of(When::ToolInputTransform, candidate).await;
        candidate.decide(&heard)?;
        self.rewrite(candidate, &heard);
        Ok(())
    }

    /// Lets guard hooks check the current arguments.
    pub(super) async fn guard(&self, candidate: &mut Candidate) -> Result<(), String> {
        if candidate.ready().is_none() {
            return Ok(());
        }
        let heard = self.tell_of(When::ToolGuard, candidate).await;
        // A guard's "allow" has no effect: later phases still decide.
        let heard = Heard {
            decision: heard.decision.filter(|(is, _)| *is != Decision::Allow),
            ..heard
        };
        candidate.decide(&heard)
    }

    async fn before_use(&self, candidate: &mut Candidate) -> Result<(), String> {
        if candidate.ready().is_none() {
            return Ok(());
        }
        let heard = self.tell_of(When::PreToolUse, candidate).await;
        candidate.decide(&heard)?;
        let is_rewritten = self.rewrite(candidate, &heard);
        candidate.added.add(heard);
        match is_rewritten {
            true => self.guard_anew(candidate).await,
            false => Ok(()),
        }
    }

    /// Lets hooks check rewritten arguments, including hooks that guard in `pre_tool_use`, as in other
    /// runtimes. Further rewrites are ignored, which guarantees termination.
    pub(super) async fn guard_anew(&self, candidate: &mut Candidate) -> Result<(), String> {
        self.guard(candidate).await?;
        if candidate.ready().is_none() {
            return Ok(());
        }
        let heard = self.tell_of(When::PreToolUse, candidate).await;
        candidate.decide(&heard)
    }

    /// Emits an event about a call.
    pub(super) async fn tell_of(&self, when: When, candidate: &Candidate) -> Heard {
        let herald = &self.desk.herald;
        if !herald.wants_of(when, &candidate.prepared.call.name) {
            return Heard::default();
        }
        match candidate.told() {
            Some(tool) => herald.tell_of(when, &tool, |_| {}).await,
            None => Heard::default(),
        }
    }

    /// Rewrites the arguments as hooks request, and validates them again. Returns true if they changed.
    pub(super) fn rewrite(&self, candidate: &mut Candidate, heard: &Heard) -> bool {
        let Some(mut tool) = candidate.told() else {
            return false;
        };
        if !heard.rewrite(&mut tool) {
            return false;
        }
        let call = Call {
            arguments: Value::Object(tool.input).to_string(),
            ..candidate.prepared.call.clone()
        };
        candidate.prepared = self.desk.toolbox.prepare(call);
        if let Verdict::Refused(output) = &mut candidate.prepared.verdict {
            let note = "(The arguments were rewritten by a hook before they were checked.)";
            output.content.push(cachalot_model::Block::text(note));
        }
        true
    }
}
