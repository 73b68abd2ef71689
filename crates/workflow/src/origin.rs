//! The origin of the arguments of a call: the templates and the state that they were rendered from.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::template::{Prepared, Scope, State, TemplateFailure, Templates};

tokio::task_local! {
    /// Origin of the call that the current task makes. Unset when the program itself supplies the
    /// arguments; they count as the author's.
    static ORIGIN: Arc<Origin>;

    /// Set while a call runs whose arguments a model chose.
    static BY_MODEL: ();
}

/// Origin of the arguments of a call. Evaluated only when the call needs it.
pub(crate) struct Origin {
    pub(crate) templates: Templates,
    pub(crate) with: Prepared,
    /// The scope that the call's templates are rendered with.
    pub(crate) scope: Scope,
    /// The state at the beginning of the run: `initial_state` of the file and the user's input.
    pub(crate) inputs: State,
}

impl Origin {
    /// Runs the call with this origin.
    pub(crate) async fn run_call<T>(self, call: impl Future<Output = T>) -> T {
        ORIGIN.scope(Arc::new(self), call).await
    }

    /// Returns a scope with the initial state, without changes made by the run.
    fn trusted(&self) -> Scope {
        Scope::new(self.scope.context(), &self.inputs)
    }

    /// Returns the texts in the arguments, without values that the run set in the state.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.templates.lenient_texts(&self.with, &self.trusted())
    }

    /// True if no argument depends on changes that the run made to the state.
    pub(crate) fn is_trusted(&self) -> bool {
        self.templates
            .renders_alike(&self.with, &self.scope, &self.trusted())
    }

    /// Returns the field of the state that the call sees.
    pub(crate) fn state_field(&self, key: &str) -> Option<&Value> {
        self.scope.json("state", key)
    }

    /// Renders an argument that the action renders itself, with the values of its further names.
    /// Returns `None` if the file has no template in this argument.
    pub(crate) async fn render(
        &self,
        argument: &str,
        values: Map<String, Value>,
    ) -> Option<Result<Value, TemplateFailure>> {
        let late = self.with.late(argument)?;
        let scope = self.scope.clone().with_values(values);
        Some(self.templates.render(late, &scope).await)
    }
}

/// Returns the origin of the call that the current task makes.
pub(crate) fn current() -> Option<Arc<Origin>> {
    ORIGIN.try_with(Arc::clone).ok()
}

/// Runs a call whose arguments a model chose.
pub(crate) async fn chosen_by_model<T>(call: impl Future<Output = T>) -> T {
    BY_MODEL.scope((), call).await
}

/// True if a model chose the arguments of the call that the current task makes.
pub(crate) fn is_chosen_by_model() -> bool {
    BY_MODEL.try_with(|()| ()).is_ok()
}
