//! Tools that read their arguments as a struct.

use async_trait::async_trait;
use cachalot_core::Effects;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::{Arguments, Failure, Operation, OperationMetadata};
use crate::{ResourceAccess, ToolContext, ToolOutput};

/// A [`Tool`](crate::Tool) whose arguments are a struct. Implements [`Operation`], whose methods it mirrors.
///
/// The arguments have been checked against the schema before they are read, so reading them fails only if
/// the schema and the struct disagree. Such a call returns an error, and counts as one with unknown effects.
#[async_trait]
pub trait TypedTool: Send + Sync {
    /// The arguments.
    type Arguments: DeserializeOwned + Send;

    /// See [`Operation::metadata`].
    fn metadata(&self) -> &OperationMetadata;

    /// See [`Operation::effects`].
    fn effects(&self, arguments: &Self::Arguments, context: &ToolContext) -> Effects;

    /// See [`Operation::resource_access`].
    fn resource_access(&self, arguments: &Self::Arguments) -> ResourceAccess;

    /// See [`Operation::implicit_inputs`].
    ///
    /// # Errors
    /// Returned if the inputs cannot be determined; the tool then runs uncached.
    fn implicit_inputs(&self, context: &ToolContext) -> Result<Value, Failure> {
        let _ = context;
        Ok(Value::Null)
    }

    /// See [`Operation::concurrency_safe`].
    fn concurrency_safe(&self, arguments: &Self::Arguments) -> bool {
        let _ = arguments;
        self.metadata().concurrency_safe()
    }

    /// See [`Operation::run`].
    async fn run(&self, arguments: Self::Arguments, context: &ToolContext) -> ToolOutput;
}

#[async_trait]
impl<T: TypedTool> Operation for T {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        TypedTool::metadata(self)
    }

    fn effects(&self, arguments: &Arguments, context: &ToolContext) -> Effects {
        match T::Arguments::deserialize(arguments) {
            Ok(arguments) => TypedTool::effects(self, &arguments, context),
            Err(_) => Effects::UNKNOWN,
        }
    }

    fn resource_access(&self, arguments: &Arguments) -> ResourceAccess {
        let metadata = TypedTool::metadata(self);
        match T::Arguments::deserialize(arguments) {
            Ok(arguments) => TypedTool::resource_access(self, &arguments),
            Err(_) => {
                let schema = metadata.parameters.schema();
                ResourceAccess::declared(&schema, arguments, metadata.read_only)
            }
        }
    }

    fn implicit_inputs(&self, _: &Arguments, context: &ToolContext) -> Result<Value, Failure> {
        TypedTool::implicit_inputs(self, context)
    }

    fn concurrency_safe(&self, arguments: &Arguments) -> bool {
        let arguments = T::Arguments::deserialize(arguments);
        arguments.is_ok_and(|arguments| TypedTool::concurrency_safe(self, &arguments))
    }

    async fn run(&self, arguments: Arguments, context: &ToolContext) -> ToolOutput {
        match serde_json::from_value(Value::Object(arguments)) {
            Ok(arguments) => TypedTool::run(self, arguments, context).await,
            Err(error) => ToolOutput::error(format!("an argument is wrong: {error}")),
        }
    }
}

/// Arguments as a struct and as given, for tools that check further resources against the permission rules
/// while they run.
#[derive(Debug)]
pub struct WithOriginal<T> {
    /// The arguments.
    pub typed: T,
    /// The arguments as given.
    pub original: Arguments,
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for WithOriginal<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let original = Arguments::deserialize(deserializer)?;
        let typed = T::deserialize(&original).map_err(D::Error::custom)?;
        Ok(Self { typed, original })
    }
}
