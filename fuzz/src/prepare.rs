//! Any text as the arguments of a call: no panic, and what is accepted is accepted again as it is, as text and parsed.

use std::sync::{Arc, LazyLock};

use cachalot_operation::Operation;
use cachalot_tools::{
    Arguments, CacheClass, OperationMetadata, Origin, PreparedCall, Registry, Tool, ToolCall,
    ToolContext, ToolOutput, Toolbox,
};
use serde_json::{Value, json};

struct Taking(OperationMetadata);

#[async_trait::async_trait]
impl Operation for Taking {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.0
    }

    async fn run(&self, _: Arguments, _: &ToolContext) -> ToolOutput {
        ToolOutput::text("")
    }
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let tool: Arc<dyn Tool> = Arc::new(Taking(OperationMetadata {
        name: "tool".into(),
        aliases: &[],
        description: String::new().into(),
        parameters: parameters().into(),
        version: 1,
        origin: Origin::BuiltIn,
        read_only: true,
        exclusive: false,
        cache_class: CacheClass::Never,
    }));
    Registry::new(vec![tool]).expect("the schema is right")
});

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "integer": {"type": "integer"},
            "number": {"type": "number", "minimum": 0},
            "text": {"type": "string"},
            "yes": {"type": "boolean"},
            "list": {"type": "array", "items": {"type": "integer"}},
            "either": {
                "anyOf": [{"type": "integer"}, {"type": "null"}, {"$ref": "#/$defs/node"}]
            },
            "node": {"$ref": "#/$defs/node"},
            "words": {"type": "array", "items": {"enum": ["a", "b"]}},
            "any": {},
        },
        "$defs": {"node": {
            "type": "object",
            "properties": {
                "next": {"$ref": "#/$defs/node"},
                "value": {"type": ["integer", "string"]}
            },
            "additionalProperties": false,
        }},
    })
}

fn call(text: String) -> ToolCall {
    ToolCall {
        id: "1".to_owned(),
        name: "tool".to_owned(),
        arguments: text,
    }
}

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let text = crate::text(bytes);
    match REGISTRY.prepare(call(text.to_owned())) {
        PreparedCall::Refused(refused) => assert!(refused.output.is_error),
        PreparedCall::Ready(ready) => {
            let again = REGISTRY.prepare(call(Value::Object(ready.arguments.clone()).to_string()));
            assert_eq!(
                again.ready().map(|again| &again.arguments),
                Some(&ready.arguments)
            );
            let rewritten = REGISTRY.prepare_rewritten(&ready.call, ready.arguments);
            assert_eq!(rewritten, again);
        }
    }
}
