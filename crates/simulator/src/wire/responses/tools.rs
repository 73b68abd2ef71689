//! Tools of a request: those of `tools`, and those that items add later in the conversation.

use std::collections::HashMap;

use serde_json::Value;

use super::super::{ApiError, Object, items, openai, text_of};
use crate::dialogue::OfferedTool;

/// Types of items that add tools.
const ADDING_ITEMS: [&str; 2] = ["additional_tools", "tool_search_output"];

/// Tools that the model may use.
#[derive(Default)]
pub(super) struct Tools {
    /// Functions, within and outside of namespaces. The simulator uses no other tools.
    pub(super) functions: Vec<OfferedTool>,
    /// Namespace by function.
    pub(super) namespaces: HashMap<String, String>,
    /// True if there is a tool of any kind.
    pub(super) has_any: bool,
}

/// Returns the tools of a request and of `items`, the whole conversation.
pub(super) fn read<'a>(
    request: &Object,
    conversation: impl Iterator<Item = &'a Value>,
) -> Result<Tools, ApiError> {
    let mut tools = Tools::default();
    tools.add("tools", openai::list(request, "tools")?.iter())?;
    openai::distinct_tools(&tools.functions)?;
    for (at, item) in conversation.enumerate() {
        let kind = item.get("type").and_then(Value::as_str);
        if kind.is_some_and(|kind| ADDING_ITEMS.contains(&kind)) {
            tools.add(&format!("input[{at}].tools"), items(item.get("tools")))?;
        }
    }
    Ok(tools)
}

impl Tools {
    fn add<'a>(
        &mut self,
        param: &str,
        tools: impl Iterator<Item = &'a Value>,
    ) -> Result<(), ApiError> {
        for (at, tool) in tools.enumerate() {
            let param = format!("{param}[{at}]");
            let fields = openai::object(param.as_str(), tool)?;
            self.has_any = true;
            match text_of(fields, "type") {
                "function" => self.functions.push(openai::tool(&param, fields)?),
                "namespace" => self.add_namespace(&param, fields)?,
                "" => return Err(openai::missing(format!("{param}.type"))),
                // Hosted and custom tools.
                _ => {}
            }
        }
        Ok(())
    }

    fn add_namespace(&mut self, param: &str, namespace: &Object) -> Result<(), ApiError> {
        for (at, tool) in items(namespace.get("tools")).enumerate() {
            let param = format!("{param}.tools[{at}]");
            let fields = openai::object(param.as_str(), tool)?;
            if text_of(fields, "type") == "function" {
                let function = openai::tool(&param, fields)?;
                let name = text_of(namespace, "name").to_owned();
                self.namespaces.insert(function.name.clone(), name);
                self.functions.push(function);
            }
        }
        Ok(())
    }
}
