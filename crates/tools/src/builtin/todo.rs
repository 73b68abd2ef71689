//! The tools `create_todo`, `create_todos`, `update_todos` and `list_todos`.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Effects;
use cachalot_core::spec::{Custom, Parameter, ParameterKind as Kind, required, tool_schema};
use cachalot_operation::{
    OperationMetadata, ResourceAccess, Tool, ToolContext, ToolOutput, TypedTool,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::session_state::{SessionState, Todo, TodoList, TodoUpdate, reminder};

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
        Arc::new(TodoTool::<CreateTodo>::new(
            state,
            "create_todo",
            "Adds a todo to the list, for a step of a complex task.",
            &[required("description", Kind::Text, "The step.")],
        )),
        Arc::new(TodoTool::<CreateTodos>::new(
            state,
            "create_todos",
            "Adds several todos to the list. Do it before you start a complex task: one for each major step.",
            &[required(
                "descriptions",
                Kind::Texts,
                "The steps, in order.",
            )],
        )),
        Arc::new(TodoTool::<UpdateTodos>::new(
            state,
            "update_todos",
            "Changes the status of todos: to in-progress before you start a step, to completed as soon as it is done. All have to be completed before your final answer.",
            &[required("updates", UPDATES, "The changes.")],
        )),
        Arc::new(TodoTool::<ListTodos>::new(
            state,
            "list_todos",
            "Lists all todos with their status.",
            &[],
        )),
    ]
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

/// One of the tools; its arguments are a request to the list.
struct TodoTool<R> {
    metadata: OperationMetadata,
    state: Arc<SessionState>,
    request: std::marker::PhantomData<fn(R)>,
}

impl<R> TodoTool<R> {
    fn new(
        state: &Arc<SessionState>,
        name: &'static str,
        description: &'static str,
        parameters: &[Parameter],
    ) -> Self {
        Self {
            metadata: super::harmless_metadata(name, description, tool_schema(parameters)),
            state: Arc::clone(state),
            request: std::marker::PhantomData,
        }
    }
}

/// A request to a list.
trait TodoRequest: serde::de::DeserializeOwned + Send + 'static {
    fn answer(self, list: &TodoList, context: &ToolContext) -> ToolOutput;
}

#[derive(Deserialize)]
struct CreateTodo {
    description: String,
}

impl TodoRequest for CreateTodo {
    fn answer(self, list: &TodoList, context: &ToolContext) -> ToolOutput {
        let (created, all) = list.create(vec![self.description]);
        result(
            json!({ "created": created.first(), "all_todos": all }),
            &all,
            context,
        )
    }
}

#[derive(Deserialize)]
struct CreateTodos {
    descriptions: Vec<String>,
}

impl TodoRequest for CreateTodos {
    fn answer(self, list: &TodoList, context: &ToolContext) -> ToolOutput {
        let (created, all) = list.create(self.descriptions);
        result(
            json!({ "created": created, "all_todos": all }),
            &all,
            context,
        )
    }
}

#[derive(Deserialize)]
struct UpdateTodos {
    updates: Vec<TodoUpdate>,
}

impl TodoRequest for UpdateTodos {
    fn answer(self, list: &TodoList, context: &ToolContext) -> ToolOutput {
        let (updated, not_found, all) = list.update(self.updates);
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

#[derive(Deserialize)]
struct ListTodos {}

impl TodoRequest for ListTodos {
    fn answer(self, list: &TodoList, context: &ToolContext) -> ToolOutput {
        let all = list.all();
        result(json!({ "todos": all }), &all, context)
    }
}

#[async_trait]
impl<R: TodoRequest> TypedTool for TodoTool<R> {
    type Arguments = R;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, _: &R, _: &ToolContext) -> Effects {
        Effects::reading(Vec::new())
    }

    fn resource_access(&self, _: &R) -> ResourceAccess {
        ResourceAccess::default()
    }

    async fn run(&self, request: R, context: &ToolContext) -> ToolOutput {
        request.answer(&self.state.todos, context)
    }
}
