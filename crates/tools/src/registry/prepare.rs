//! Looks a call up, and casts and checks its arguments.

use cachalot_core::suggest;
use cachalot_core::text::head;

use cachalot_operation::{Arguments, ArgumentsError};
use serde_json::Value;

use super::{Entry, Registry};
use crate::toolbox::{PreparedCall, ReadyCall, RefusedCall, ToolCall};

impl Registry {
    pub(super) fn prepare_call(&self, call: ToolCall) -> PreparedCall {
        match self.entry(&call.name) {
            Some(entry) => match entry.schema.parse_arguments(&call.arguments) {
                Ok(arguments) => entry.ready(call, arguments),
                Err(wrong) => refused(call, &wrong),
            },
            None => self.refused_as_unknown(call),
        }
    }

    pub(super) fn prepare_rewritten_call(
        &self,
        call: &ToolCall,
        arguments: Arguments,
    ) -> PreparedCall {
        let call = ToolCall {
            arguments: Value::Object(arguments.clone()).to_string(),
            ..call.clone()
        };
        match self.entry(&call.name) {
            Some(entry) => match entry.schema.check_arguments(arguments) {
                Ok(arguments) => entry.ready(call, arguments),
                Err(wrong) => refused(call, &wrong),
            },
            None => self.refused_as_unknown(call),
        }
    }

    fn refused_as_unknown(&self, call: ToolCall) -> PreparedCall {
        let why = self.unknown(&call.name);
        PreparedCall::Refused(RefusedCall::new(call, why))
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

impl Entry {
    fn ready(&self, call: ToolCall, arguments: Arguments) -> PreparedCall {
        PreparedCall::Ready(ReadyCall {
            resource_access: self.tool.resource_access(&arguments),
            call,
            arguments,
            origin: self.origin().clone(),
            read_only: self.tool.metadata().read_only,
        })
    }
}

fn refused(call: ToolCall, wrong: &ArgumentsError) -> PreparedCall {
    let why = format!("`{}` did not run. {wrong}", call.name);
    PreparedCall::Refused(RefusedCall::new(call, why))
}
