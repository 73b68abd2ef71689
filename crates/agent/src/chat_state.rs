//! State shared by all turns of a chat, including those of sub-agents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use cachalot_core::Spend;
use cachalot_hooks::{AgentLookup, Hooks};
use cachalot_model::Usage;
use cachalot_model::budget::Meter;
use cachalot_operation::AccessRequest;
use cachalot_operation::permissions::PermissionGrant;
use cachalot_tools::{Gate, ToolCallResult};
use parking_lot::Mutex;

use crate::account::Account;
use crate::definition::{AgentDefinition, Team};
use crate::dependencies::Dependencies;
use crate::event::Event;
use crate::fork_limits::ForkLimits;
use crate::report::UsageTotals;
use crate::typed_urls::TypedUrls;
use crate::{Error, ErrorKind};

/// A permission that the user granted for the rest of the chat.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChatPermission {
    /// The agent to which it was granted.
    pub(crate) agent: String,
    /// The rule or concern that required the approval; `None` if there was neither.
    pub(crate) rule: Option<String>,
    /// The pattern that the user approved.
    pub(crate) calls: PermissionGrant,
}

/// State shared by all turns of a chat. Clones share it.
#[derive(Clone)]
pub(crate) struct ChatState {
    pub(crate) dependencies: Dependencies,
    pub(crate) team: Arc<Team>,
    /// Meter of the budget of the whole chat.
    pub(crate) meter: Meter,
    /// Limits of the fork to which this state belongs, including its sub-agents.
    pub(crate) limits: Option<ForkLimits>,
    /// The read-only agent for which the agents work, if there is one: none of their tools may change anything.
    pub(crate) read_only_agent: Option<Arc<str>>,
    account: Account,
    /// Usage of forks of the chat, which is not part of any turn.
    forks: Account,
    granted: Arc<Mutex<Vec<ChatPermission>>>,
    /// Pairs of agent and requester that may ask its model without a question for the rest of the chat.
    samplers: Arc<Mutex<BTreeSet<(String, String)>>>,
    pub(crate) typed_urls: TypedUrls,
    /// Assembled hooks by agent name.
    hooks: Arc<Mutex<BTreeMap<String, Hooks>>>,
}

impl ChatState {
    pub(crate) fn new(mut dependencies: Dependencies, team: Arc<Team>) -> Self {
        dependencies.tools.rules = Arc::new(team.permissions.clone());
        let meter = Meter::new(team.budget.clone(), Arc::clone(&dependencies.clock));
        if let Some(setup) = &dependencies.hooks {
            setup.agent_directory.register(&team, &dependencies.models);
        }
        Self {
            dependencies,
            team,
            meter,
            limits: None,
            read_only_agent: None,
            account: Account::default(),
            forks: Account::default(),
            granted: Arc::default(),
            samplers: Arc::default(),
            typed_urls: TypedUrls::default(),
            hooks: Arc::default(),
        }
    }

    /// Returns the hooks of an agent: its own, followed by those that no agent names.
    pub(crate) fn hooks(&self, agent: &AgentDefinition) -> Result<Hooks, Error> {
        if let Some(known) = self.hooks.lock().get(&agent.name) {
            return Ok(known.clone());
        }
        let hooks = self.assemble(agent)?;
        self.hooks.lock().insert(agent.name.clone(), hooks.clone());
        Ok(hooks)
    }

    fn assemble(&self, agent: &AgentDefinition) -> Result<Hooks, Error> {
        let wrong = |what: &str| {
            let message = format!("the hooks of `{}`: {what}", agent.name);
            Error::new(ErrorKind::Definition, message)
        };
        let Some(setup) = &self.dependencies.hooks else {
            // Fail instead of skipping a hook that might forbid something.
            return if agent.hooks.is_empty() && agent.sections.is_empty() {
                Ok(Hooks::default())
            } else {
                Err(wrong(
                    "there are no hooks here; take `hooks` and the keys that belong to builtins out",
                ))
            };
        };
        let view = setup.agent_directory.agent(&agent.name);
        let view = view.ok_or_else(|| wrong("the agent is not in the team"))?;
        let mut entries = agent.hooks.clone();
        entries.extend(setup.entries.iter().cloned());
        Hooks::assemble(entries, &*view, &setup.dependencies).map_err(|problems| {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            wrong(&told.join("; "))
        })
    }

    /// Returns a unique ID for a turn.
    pub(crate) fn new_turn_id(&self, session: &str) -> String {
        let number = self
            .dependencies
            .hooks
            .as_ref()
            .map(|setup| setup.agent_directory.next_turn());
        let now = self.dependencies.clock.now();
        format!("{session}.{now}.{}", number.unwrap_or_default())
    }

    /// The working directory of tools.
    pub(crate) fn directory(&self) -> PathBuf {
        let setup = self.dependencies.hooks.as_ref();
        setup.map_or_else(PathBuf::new, |setup| setup.dependencies.directory.clone())
    }

    /// Records spend on models outside of turns' own model calls.
    pub(crate) fn record_spend(&self, spent: Spend) {
        if spent.calls == 0 && spent.cost.is_zero() {
            return;
        }
        let usage = Usage::from_counts(spent.input_tokens, spent.output_tokens);
        self.meter.record(Some(&usage), spent.cost);
        self.add(UsageTotals {
            paid: spent,
            ..UsageTotals::default()
        });
    }

    /// Usage since it was last taken.
    pub(crate) fn totals(&self) -> UsageTotals {
        self.account.totals()
    }

    pub(crate) fn add(&self, part: UsageTotals) {
        self.account.add(part);
    }

    /// The account of this state.
    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// The account of forks of the chat.
    pub(crate) fn forks(&self) -> &Account {
        &self.forks
    }

    /// Returns the same state with another account and other dependencies.
    pub(crate) fn with_account(&self, account: Account, dependencies: Dependencies) -> Self {
        Self {
            account,
            dependencies,
            ..self.clone()
        }
    }

    /// Returns the same state restricted by `gate`.
    pub(crate) fn with_gate(&self, gate: Option<&Gate>) -> Self {
        let mut this = self.clone();
        this.dependencies.tools.gate = gate.cloned();
        this
    }

    /// Returns the same state on behalf of a read-only agent.
    pub(crate) fn for_read_only(&self, agent: Option<Arc<str>>) -> Self {
        let mut this = self.clone();
        this.read_only_agent = agent.or(this.read_only_agent);
        this
    }

    /// Counts calls that have results.
    pub(crate) fn count_answers<'a>(&self, answers: impl IntoIterator<Item = &'a ToolCallResult>) {
        for answer in answers {
            self.add(UsageTotals {
                tool_calls: 1,
                saved: answer.saved,
                ..UsageTotals::default()
            });
        }
    }

    /// Takes the usage accumulated since the last call.
    pub(crate) fn take_totals(&self) -> UsageTotals {
        self.account.take()
    }

    pub(crate) fn grant(&self, permission: ChatPermission) {
        let mut granted = self.granted.lock();
        if !granted.contains(&permission) {
            granted.push(permission);
        }
    }

    /// The granted permissions, for the user: an agent and what it may do each.
    pub(crate) fn granted(&self) -> Vec<(String, String)> {
        let granted = self.granted.lock();
        let granted = granted.iter();
        let calls = granted.map(|granted| (granted.agent.clone(), granted.calls.rule().to_owned()));
        let samplers = self.samplers.lock();
        let answers = samplers.iter().map(|(agent, requester)| {
            (
                agent.clone(),
                format!("answers of the model for {requester}"),
            )
        });
        calls.chain(answers).collect()
    }

    /// True if the user granted this agent a permission that covers the call and was required for the same
    /// reason.
    pub(crate) fn is_granted(
        &self,
        agent: &str,
        rule: Option<&str>,
        operation: &AccessRequest<'_>,
    ) -> bool {
        let granted = self.granted.lock();
        granted.iter().any(|granted| {
            granted.agent == agent
                && granted.rule.as_deref() == rule
                && granted
                    .calls
                    .covers(operation, &self.dependencies.tools.workspace)
        })
    }

    /// Lets a requester ask the model of an agent for the rest of the chat.
    pub(crate) fn permit_sampling(&self, agent: &str, requester: &str) {
        let permitted = (agent.to_owned(), requester.to_owned());
        self.samplers.lock().insert(permitted);
    }

    /// True if the user permitted this requester to ask the model of this agent.
    pub(crate) fn may_sample(&self, agent: &str, requester: &str) -> bool {
        let asked = (agent.to_owned(), requester.to_owned());
        self.samplers.lock().contains(&asked)
    }

    pub(crate) fn warn(&self, agent: &str, message: &str) {
        self.dependencies
            .listener
            .on_event(&Event::Warning { agent, message });
    }
}
