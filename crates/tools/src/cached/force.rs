//! The argument `force`, which the cache layer adds to tools with cacheable results, and removes before they
//! run.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Effects;
use cachalot_operation::Touches;
use serde_json::{Map, Value, json};

use crate::tool::{About, Arguments, Context, Output, Tool};

/// The name of the argument.
pub(super) const ARGUMENT: &str = "force";

/// A tool with the additional argument, as shown to models.
pub(super) struct Forceable {
    about: About,
    tool: Arc<dyn Tool>,
}

impl Forceable {
    pub(super) fn new(tool: &Arc<dyn Tool>) -> Self {
        let mut about = tool.about().clone();
        add_to(&mut about.parameters);
        Self {
            about,
            tool: Arc::clone(tool),
        }
    }
}

fn add_to(parameters: &mut Value) {
    let Some(schema) = parameters.as_object_mut() else {
        return;
    };
    let properties = schema
        .entry("properties")
        .or_insert_with(|| Value::Object(Map::new()));
    if let Some(properties) = properties.as_object_mut() {
        let force = json!({
            "type": "boolean",
            "description": "Run it again and give the result in full, even if nothing seems to have changed.",
        });
        properties.insert(ARGUMENT.to_owned(), force);
    }
}

/// Removes the argument; returns true if it requested a fresh result.
pub(super) fn take(arguments: &mut Arguments) -> bool {
    matches!(arguments.remove(ARGUMENT), Some(Value::Bool(true)))
}

#[async_trait]
impl Tool for Forceable {
    fn about(&self) -> &About {
        &self.about
    }

    fn effects(&self, arguments: &Arguments, context: &Context) -> Effects {
        self.tool.effects(&without(arguments), context)
    }

    fn touches(&self, arguments: &Arguments) -> Touches {
        self.tool.touches(&without(arguments))
    }

    fn implicit_inputs(&self, context: &Context) -> Value {
        self.tool.implicit_inputs(context)
    }

    fn concurrency_safe(&self, arguments: &Arguments) -> bool {
        self.tool.concurrency_safe(&without(arguments))
    }

    async fn run(&self, mut arguments: Arguments, context: &Context) -> Output {
        take(&mut arguments);
        self.tool.run(arguments, context).await
    }
}

fn without(arguments: &Arguments) -> Arguments {
    let mut arguments = arguments.clone();
    take(&mut arguments);
    arguments
}
