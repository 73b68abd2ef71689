//! The tools `create_todo`, `create_todos`, `update_todos` and `list_todos`.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::config::{CallArguments, Custom, ParameterKind as Kind, tool_schema};
use cachalot_operation::{Tool, ToolContext, ToolOutput};
use serde::Deserialize;
use serde_json::{Value, json};

use super::internal_tool::{InternalCall, internal_tool};
use super::session_state::{SessionState, Todo, TodoUpdate, reminder};

/// Adds the reminder, and renders the result.
fn result(mut fields: Value, todos: &[Todo], context: &ToolContext) -> ToolOutput {
    if let Some(reminder) = reminder(todos) {
        fields["reminder"] = reminder.into();
    }
    super::passing_result(ToolOutput::text(
        context.secret_set.redact(&fields.to_string()),
    ))
}

/// Creates the four tools over the list of a session, or of a team.
#[must_use]
pub fn todo(state: &Arc<SessionState>) -> Vec<Arc<dyn Tool>> {
    vec![
        tool::<CreateTodo>(
            state,
            "create_todo",
            "Adds a todo to the list, for a step of a complex task.",
        ),
        tool::<CreateTodos>(
            state,
            "create_todos",
            "Adds several todos to the list. Do it before you start a complex task: one for each major step.",
        ),
        tool::<UpdateTodos>(
            state,
            "update_todos",
            "Changes the status of todos: to in-progress before you start a step, to completed as soon as it is done. All have to be completed before your final answer.",
        ),
        tool::<ListTodos>(state, "list_todos", "Lists all todos with their status."),
    ]
}

fn tool<R: InternalCall<State = Arc<SessionState>> + CallArguments>(
    state: &Arc<SessionState>,
    name: &'static str,
    description: &'static str,
) -> Arc<dyn Tool> {
    let metadata = super::harmless_metadata(name, description, tool_schema(R::PARAMETERS));
    internal_tool::<R>(metadata, Arc::clone(state))
}

const UPDATES: Kind = Kind::Custom(&Custom::shape(|| {
    json!({
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "properties": {
                "id": { "type": "string", "description": "The ID of the todo." },
                "status": {
                    "type": "string",
                    "enum": ["pending", "in-progress", "completed"],
                    "description": "The new status.",
                },
            },
            "required": ["id", "status"],
            "additionalProperties": false,
        },
    })
}));

#[derive(CallArguments, Deserialize)]
struct CreateTodo {
    /// The step.
    description: String,
}

#[async_trait]
impl InternalCall for CreateTodo {
    type State = Arc<SessionState>;

    async fn run(self, state: &Self::State, context: &ToolContext) -> ToolOutput {
        let (created, all) = state.todos.create(vec![self.description]);
        result(
            json!({ "created": created.first(), "all_todos": all }),
            &all,
            context,
        )
    }
}

#[derive(CallArguments, Deserialize)]
struct CreateTodos {
    /// The steps, in order.
    #[setting(required)]
    descriptions: Vec<String>,
}

#[async_trait]
impl InternalCall for CreateTodos {
    type State = Arc<SessionState>;

    async fn run(self, state: &Self::State, context: &ToolContext) -> ToolOutput {
        let (created, all) = state.todos.create(self.descriptions);
        result(
            json!({ "created": created, "all_todos": all }),
            &all,
            context,
        )
    }
}

#[derive(CallArguments, Deserialize)]
struct UpdateTodos {
    /// The changes.
    #[setting(kind = UPDATES, required)]
    updates: Vec<TodoUpdate>,
}

#[async_trait]
impl InternalCall for UpdateTodos {
    type State = Arc<SessionState>;

    async fn run(self, state: &Self::State, context: &ToolContext) -> ToolOutput {
        let (updated, not_found, all) = state.todos.update(self.updates);
        let is_error = updated.is_empty();
        let mut fields = json!({ "updated": updated, "all_todos": all });
        if !not_found.is_empty() {
            fields["not_found"] = not_found.into();
        }
        ToolOutput {
            is_error,
            ..result(fields, &all, context)
        }
    }
}

#[derive(CallArguments, Deserialize)]
struct ListTodos {}

#[async_trait]
impl InternalCall for ListTodos {
    type State = Arc<SessionState>;

    async fn run(self, state: &Self::State, context: &ToolContext) -> ToolOutput {
        let all = state.todos.all();
        result(json!({ "todos": all }), &all, context)
    }
}
