//! Looks a call up, and casts and checks its arguments.

use cachalot_core::suggest;

use super::Registry;
use crate::tool::Output;
use crate::toolbox::{Call, Prepared, Verdict};

impl Registry {
    pub(super) fn prepare_call(&self, call: Call) -> Prepared {
        let verdict = match self.entry(&call.name) {
            None => Verdict::Refused(Output::error(self.unknown(&call.name))),
            Some(entry) => match entry.schema.accept(&call.arguments) {
                Ok(arguments) => Verdict::Ready {
                    touches: entry.tool.touches(&arguments),
                    arguments,
                    origin: entry.origin().clone(),
                    read_only: entry.tool.about().read_only,
                },
                Err(wrong) => Verdict::Refused(Output::error(format!(
                    "`{}` did not run. {wrong}",
                    call.name
                ))),
            },
        };
        Prepared { call, verdict }
    }

    /// The message about an unknown tool name.
    pub(super) fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.entries.iter().map(|entry| entry.name()).collect();
        let shown: String = name.chars().take(80).collect();
        if names.is_empty() {
            return format!("there is no tool `{shown}`, nor any other");
        }
        let meant = match suggest::nearest(&shown, names.iter().copied()) {
            Some(nearest) => format!("; did you mean `{nearest}`?"),
            None => ".".to_owned(),
        };
        format!(
            "there is no tool `{shown}`{meant} The tools are: {}",
            names.join(", ")
        )
    }
}
