//! Looks a call up, and casts and checks its arguments.

use cachalot_core::suggest;
use cachalot_core::text::head;

use super::Registry;
use crate::toolbox::{Preparation, PreparedCall, ToolCall};
use cachalot_operation::ToolOutput;

impl Registry {
    pub(super) fn prepare_call(&self, call: ToolCall) -> PreparedCall {
        let preparation = match self.entry(&call.name) {
            None => Preparation::Refused(ToolOutput::error(self.unknown(&call.name))),
            Some(entry) => match entry.schema.parse_arguments(&call.arguments) {
                Ok(arguments) => Preparation::Ready {
                    resource_access: entry.tool.resource_access(&arguments),
                    arguments,
                    origin: entry.origin().clone(),
                    read_only: entry.tool.metadata().read_only,
                },
                Err(wrong) => Preparation::Refused(ToolOutput::error(format!(
                    "`{}` did not run. {wrong}",
                    call.name
                ))),
            },
        };
        PreparedCall { call, preparation }
    }

    /// The message about an unknown tool name.
    pub(crate) fn unknown(&self, name: &str) -> String {
        let names: Vec<&str> = self.entries.iter().map(|entry| entry.name()).collect();
        let shown = head(name, 80);
        if names.is_empty() {
            return format!("there is no tool `{shown}`, nor any other");
        }
        let meant = match suggest::nearest(shown, names.iter().copied()) {
            Some(nearest) => format!("; did you mean `{nearest}`?"),
            None => ".".to_owned(),
        };
        format!(
            "there is no tool `{shown}`{meant} The tools are: {}",
            names.join(", ")
        )
    }
}
