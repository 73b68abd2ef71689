//! What all turns of a chat share, those of sub-agents included.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cachalot_core::Spend;
use cachalot_hooks::{AgentLookup, Hooks};
use cachalot_model::Usage;
use cachalot_model::budget::Meter;
use cachalot_operation::Operation;
use cachalot_operation::permissions::Remembered;
use cachalot_tools::{Answer, Gate};

use crate::account::Account;
use crate::definition::{AgentDefinition, Team};
use crate::event::Event;
use crate::fork::Allowance;
use crate::house::House;
use crate::report::Sum;
use crate::typed::TypedUrls;
use crate::{Error, ErrorKind};

/// A permission that the user gave for the rest of the chat.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Always {
    /// The agent that has it.
    pub(crate) agent: String,
    /// The rule, or the concern, that asks about the calls; without one, no rule is about them.
    pub(crate) rule: Option<String>,
    /// The pattern that the user was shown.
    pub(crate) calls: Remembered,
}

/// What all turns of a chat share. Clones are the same.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) house: House,
    pub(crate) team: Arc<Team>,
    /// Counts against the budget of the whole chat.
    pub(crate) meter: Meter,
    /// What a fork may use, for whoever works on its behalf.
    pub(crate) allowance: Option<Allowance>,
    account: Account,
    /// Of forks of the chat: none of it is part of a turn.
    forks: Account,
    always: Arc<Mutex<Vec<Always>>>,
    pub(crate) typed: TypedUrls,
    /// Those of each agent, once they were asked for.
    hooks: Arc<Mutex<BTreeMap<String, Hooks>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(mut house: House, team: Arc<Team>) -> Self {
        house.tools.rules = Arc::new(team.permissions.clone());
        let meter = Meter::new(team.budget.clone(), Arc::clone(&house.clock));
        if let Some(setup) = &house.hooks {
            setup.roster.enter(&team, &house.models);
        }
        Self {
            house,
            team,
            meter,
            allowance: None,
            account: Account::default(),
            forks: Account::default(),
            always: Arc::default(),
            typed: TypedUrls::default(),
            hooks: Arc::default(),
        }
    }

    /// The hooks of an agent: its own, and behind them those that no agent names.
    pub(crate) fn hooks(&self, agent: &AgentDefinition) -> Result<Hooks, Error> {
        if let Some(known) = lock(&self.hooks).get(&agent.name) {
            return Ok(known.clone());
        }
        let hooks = self.assemble(agent)?;
        lock(&self.hooks).insert(agent.name.clone(), hooks.clone());
        Ok(hooks)
    }

    fn assemble(&self, agent: &AgentDefinition) -> Result<Hooks, Error> {
        let wrong = |what: &str| {
            let message = format!("the hooks of `{}`: {what}", agent.name);
            Error::new(ErrorKind::Definition, message)
        };
        let Some(setup) = &self.house.hooks else {
            // To leave out a hook that forbids something would be worse than not to begin.
            return match agent.hooks.is_empty() && agent.sections.is_empty() {
                true => Ok(Hooks::default()),
                false => Err(wrong(
                    "there are no hooks here; take `hooks` and the keys that belong to builtins out",
                )),
            };
        };
        let view = setup.roster.agent(&agent.name);
        let view = view.ok_or_else(|| wrong("the agent is not in the team"))?;
        let mut entries = agent.hooks.clone();
        entries.extend(setup.entries.iter().cloned());
        Hooks::assemble(entries, &*view, &setup.surroundings).map_err(|problems| {
            let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
            wrong(&told.join("; "))
        })
    }

    /// A name for a turn, apart from all others.
    pub(crate) fn name_turn(&self, session: &str) -> String {
        let number = self
            .house
            .hooks
            .as_ref()
            .map(|setup| setup.roster.next_turn());
        let now = self.house.clock.now();
        format!("{session}.{now}.{}", number.unwrap_or_default())
    }

    /// The directory that tools work in.
    pub(crate) fn directory(&self) -> PathBuf {
        let setup = self.house.hooks.as_ref();
        setup.map_or_else(PathBuf::new, |setup| setup.surroundings.directory.clone())
    }

    /// Counts what was paid for models beside those of turns.
    pub(crate) fn pay(&self, spent: Spend) {
        if spent.calls == 0 && spent.cost.is_zero() {
            return;
        }
        let usage = Usage::of(spent.input_tokens, spent.output_tokens);
        self.meter.record(Some(&usage), spent.cost);
        self.add(Sum {
            paid: spent,
            ..Sum::default()
        });
    }

    /// What has been used since it was last taken.
    pub(crate) fn sum(&self) -> Sum {
        self.account.sum()
    }

    pub(crate) fn add(&self, part: Sum) {
        self.account.add(part);
    }

    /// What is used on behalf of this.
    pub(crate) fn account(&self) -> &Account {
        &self.account
    }

    /// What forks of the chat used.
    pub(crate) fn forks(&self) -> &Account {
        &self.forks
    }

    /// The same for somebody with an account and a house of their own.
    pub(crate) fn with(&self, account: Account, house: House) -> Self {
        Self {
            account,
            house,
            ..self.clone()
        }
    }

    /// The same for whoever may use no more than this gate lets through.
    pub(crate) fn behind(&self, gate: Option<&Gate>) -> Self {
        let mut this = self.clone();
        this.house.tools.gate = gate.cloned();
        this
    }

    /// Adds calls that have results.
    pub(crate) fn add_answers<'a>(&self, answers: impl IntoIterator<Item = &'a Answer>) {
        for answer in answers {
            self.add(Sum {
                tool_calls: 1,
                saved: answer.saved,
                ..Sum::default()
            });
        }
    }

    /// What has been used since it was last asked.
    pub(crate) fn take_sum(&self) -> Sum {
        self.account.take()
    }

    pub(crate) fn allow_always(&self, what: Always) {
        let mut always = lock(&self.always);
        if !always.contains(&what) {
            always.push(what);
        }
    }

    /// Whether the user gave this agent a permission that covers a call, for calls that are asked about
    /// for this reason.
    pub(crate) fn is_always(
        &self,
        agent: &str,
        rule: Option<&str>,
        operation: &Operation<'_>,
    ) -> bool {
        let always = lock(&self.always);
        always.iter().any(|always| {
            always.agent == agent
                && always.rule.as_deref() == rule
                && always.calls.covers(operation, &self.house.tools.workspace)
        })
    }

    pub(crate) fn warn(&self, agent: &str, message: &str) {
        self.house.listener.tell(&Event::Warning { agent, message });
    }
}
