//! Any text as the arguments of a call: no panic, and what is accepted is accepted again as it is.
//!
//! `cargo +nightly fuzz run prepare`
#![no_main]

use std::sync::{Arc, LazyLock};

use cachalot_tools::{
    About, Arguments, CacheClass, Call, Context, Origin, Output, Registry, Tool, Toolbox, Verdict,
};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

struct Taking(About);

#[async_trait::async_trait]
impl Tool for Taking {
    fn about(&self) -> &About {
        &self.0
    }

    async fn run(&self, _: Arguments, _: &Context) -> Output {
        Output::text("")
    }
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let tool: Arc<dyn Tool> = Arc::new(Taking(About {
        name: "tool".to_owned(),
        description: String::new(),
        parameters: json!({
            "type": "object",
            "properties": {
                "integer": {"type": "integer"},
                "number": {"type": "number", "minimum": 0},
                "text": {"type": "string"},
                "yes": {"type": "boolean"},
                "list": {"type": "array", "items": {"type": "integer"}},
                "either": {"anyOf": [{"type": "integer"}, {"type": "null"}, {"$ref": "#/$defs/node"}]},
                "node": {"$ref": "#/$defs/node"},
                "words": {"type": "array", "items": {"enum": ["a", "b"]}},
                "any": {},
            },
            "$defs": {"node": {
                "type": "object",
                "properties": {"next": {"$ref": "#/$defs/node"}, "value": {"type": ["integer", "string"]}},
                "additionalProperties": false,
            }},
        }),
        version: 1,
        origin: Origin::BuiltIn,
        read_only: true,
        exclusive: false,
        class: CacheClass::Never,
    }));
    Registry::new(vec![tool]).expect("the schema is right")
});

fn prepare(text: String) -> Option<Value> {
    let call = Call {
        id: "1".to_owned(),
        name: "tool".to_owned(),
        arguments: text,
    };
    match REGISTRY.prepare(call).verdict {
        Verdict::Ready { arguments, .. } => Some(Value::Object(arguments)),
        Verdict::Refused(output) => {
            assert!(output.is_error);
            None
        }
    }
}

fuzz_target!(|text: &str| {
    if let Some(arguments) = prepare(text.to_owned()) {
        let again = prepare(arguments.to_string());
        assert_eq!(again.as_ref(), Some(&arguments));
    }
});
