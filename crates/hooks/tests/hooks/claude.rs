//! Settings and plugins of Claude Code, as people have them, through real processes.

use std::path::PathBuf;
use std::time::Duration;

use cachalot_core::Problem;
use cachalot_hooks::input::ToolUse;
use cachalot_hooks::source::{self, ParsedHooks};
use cachalot_hooks::{Builtins, Event, Hooks, Input, Verdict};
use serde_json::{Value, json};

use crate::handler_fixture::HandlerFixture;

mod environment;
mod options;
mod plugins;
mod prompts;
mod writes;

/// A project with settings.
struct Project {
    handler_fixture: HandlerFixture,
}

impl Project {
    fn new() -> Self {
        Self {
            handler_fixture: HandlerFixture::new(),
        }
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.handler_fixture.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn read(&self, path: &str, text: &str) -> (ParsedHooks, Vec<Problem>) {
        let mut problems = Vec::new();
        let path = self.write(path, text);
        let read = source::read_file(&path, None, &Builtins::default(), &mut problems);
        (read, problems)
    }

    /// The hooks of settings: events, with what stands under each.
    fn hooks(&self, events: &Value) -> Hooks {
        self.hooks_of(".claude/settings.json", events)
    }

    fn hooks_of(&self, file: &str, events: &Value) -> Hooks {
        let text = json!({"hooks": events}).to_string();
        let (read, problems) = self.read(file, &text);
        assert_eq!((problems, read.warnings), (vec![], vec![]));
        self.handler_fixture.hooks(read.entries).unwrap()
    }

    fn input(&self, event: Event) -> Input {
        Input {
            event,
            session_id: "s-1".to_owned(),
            cwd: self.handler_fixture.root(),
            ..Input::default()
        }
    }

    fn calling(&self, event: Event, tool: &str, arguments: &Value) -> Input {
        Input {
            tool: Some(ToolUse {
                name: tool.to_owned(),
                input: arguments.as_object().unwrap().clone(),
                ..ToolUse::default()
            }),
            ..self.input(event)
        }
    }

    async fn shell(&self, hooks: &Hooks, line: &str) -> Verdict {
        let input = self.calling(Event::PreToolUse, "shell", &json!({"command": line}));
        hooks.fire(input).await
    }
}

/// A group of hooks that are commands.
fn command(line: &str) -> Value {
    json!([{"hooks": [{"type": "command", "command": line}]}])
}

/// A hook with options, for all tools.
fn hook(line: &str, options: Value) -> Value {
    let mut hook = json!({"type": "command", "command": line});
    let fields = hook.as_object_mut().unwrap();
    fields.extend(options.as_object().unwrap().clone());
    json!([{"hooks": [hook]}])
}

/// Tries until it holds.
async fn until(what: impl AsyncFn() -> bool) {
    for _ in 0..6_000 {
        if what().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never holds");
}
