//! The identity of a `cache.wrap` call: its keyed input and its handle.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::OnceLock;

use cachalot_cache::{Observation, Reason, Witness, WitnessSnapshot};
use cachalot_core::{Canonical, Digest, ObjectEncoder};
use cachalot_storage::{Algorithm, Stat};
use serde_json::{Value, json};

use super::handle;
use super::request::{Request, Strategy, invalid};
use crate::{Failure, Runtime};

/// Keyed input and handle of a call.
pub(super) struct Identity {
    pub(super) input: Canonical,
    /// The digest of the keyed file, in hex.
    content: Option<String>,
    handle: OnceLock<String>,
    /// Checks, after the action has run, that it read the content that is in the key.
    pub(super) guard: Option<Box<Guard>>,
}

/// Content that must stay unchanged from the computation of the key to the end of the action.
pub(super) enum Guard {
    Local(WitnessSnapshot),
    Remote {
        uri: String,
        before: Stat,
        digest: Digest,
    },
}

impl Guard {
    /// Returns the reason if the answer must not be stored.
    pub(super) async fn check(&self, runtime: &Runtime) -> Result<(), Reason> {
        let changed = |what: &dyn Display| Reason::Changed(format!("{what}, while the action ran"));
        let (uri, before, digest) = match self {
            Self::Local(witnessed) => {
                let held = witnessed.holds().await;
                return held.map_err(|error| changed(&error));
            }
            Self::Remote {
                uri,
                before,
                digest,
            } => (uri, before, digest),
        };
        let holds = match runtime.storage.stat(uri).await {
            // An unchanged size alone is weak evidence, so the content is hashed again.
            Ok(after) if after.etag.is_none() && after.modified.is_none() && after == *before => {
                remote_digest(uri, runtime).await.as_ref().ok() == Some(digest)
            }
            after => after.is_ok_and(|after| after == *before),
        };
        if holds {
            Ok(())
        } else {
            Err(changed(&format!("{uri} changed")))
        }
    }
}

impl Identity {
    /// Returns the handle of the request that has this identity. A hit needs none: its entry has it.
    pub(super) fn handle(&self, request: &Request, runtime: &Runtime) -> &str {
        self.handle.get_or_init(|| {
            let agent = request.agent(runtime);
            if let Strategy::Key(key) = &request.strategy {
                return handle::for_key(key, agent, &runtime.secret_set);
            }
            let mut keyed = ObjectEncoder::sealed(&runtime.secret_set);
            encode_arguments(request, self.content.as_deref(), &mut keyed);
            handle::for_arguments(request.name(), keyed.finish().digest(), agent)
        })
    }
}

/// Computes the identity of a request.
pub(super) async fn identify(request: &Request, runtime: &Runtime) -> Result<Identity, Reason> {
    let implicit = request.action.implicit_inputs(&request.args, runtime);
    let mut implicit = implicit.map_err(|failure| Reason::NoKey(failure.message))?;
    let depends_on = dependency_keys(request, runtime)?;
    let (mut content, mut guard) = (None, None);
    if let Strategy::FileContent(source) = &request.strategy {
        let source_digest = source_digest(request.args.get(source), source, runtime);
        let (digest, source_guard) = Box::pin(source_digest).await?;
        (content, guard) = (Some(digest.to_hex()), Some(Box::new(source_guard)));
        remove_source(source, &mut implicit);
    }
    let agent = request.agent(runtime);
    // The fields are added in the order of their names.
    let mut input = ObjectEncoder::sealed(&runtime.secret_set);
    input.field("action_version", &request.action.metadata().version.into());
    match agent {
        Some(agent) => input.text("agent", agent),
        None => input.field("agent", &Value::Null),
    }
    let own_key = match &request.strategy {
        Strategy::Key(key) => Some(handle::strip_prefixes(key, agent)),
        _ => None,
    };
    if own_key.is_none() {
        encode_arguments(request, content.as_deref(), &mut input);
    }
    if !depends_on.is_null() {
        input.field("depends_on", &depends_on);
    }
    if !implicit.is_null() {
        input.field("implicit", &implicit);
    }
    if let Some(key) = own_key {
        input.text("key", key);
    }
    input.text("strategy", request.strategy.name());
    if !request.version.is_null() {
        input.field("version", &request.version);
    }
    Ok(Identity {
        input: input.finish(),
        content,
        handle: OnceLock::new(),
        guard,
    })
}

/// Adds the keyed arguments, and the digest of the keyed file in place of its path.
fn encode_arguments(request: &Request, content: Option<&str>, keyed: &mut ObjectEncoder<'_>) {
    let parameters = request.action.metadata().parameters.table();
    let is_keyed = |name: &str| {
        let mut parameters = parameters.iter();
        parameters.all(|parameter| parameter.keyed || parameter.name != name)
    };
    let is_file =
        |name: &str| matches!(&request.strategy, Strategy::FileContent(source) if source == name);
    let args = request.args.iter();
    keyed.object(
        "args",
        args.filter(|(name, _)| is_keyed(name) && !is_file(name)),
    );
    if let Some(content) = content {
        keyed.text("content", content);
    }
}

/// Returns the inputs that a wrap depends on besides its arguments, for the wrap around it.
///
/// # Errors
/// If the inputs include files: the outer wrap would not see them change.
pub(super) fn nested_inputs(request: &Request, runtime: &Runtime) -> Result<Value, Failure> {
    if matches!(request.strategy, Strategy::FileContent(_)) || !request.depends_on.is_empty() {
        return Err(invalid(
            "the wrap inside depends on files, whose changes the one around it would not see",
        ));
    }
    Ok(json!({
        "action_version": request.action.metadata().version,
        "agent": request.agent(runtime),
        "scope": request.scope.to_string(),
        "implicit": request.action.implicit_inputs(&request.args, runtime)?,
    }))
}

/// Removes the `source` argument from the implicit inputs: once the content of a file is keyed, the
/// directory that its path is relative to no longer matters.
fn remove_source(source: &str, implicit: &mut Value) {
    if let Value::Object(inputs) = implicit {
        inputs.shift_remove(source);
        if inputs.is_empty() {
            *implicit = Value::Null;
        }
    }
}

/// Returns the digest of the content behind the path or URI in the argument `source`, and the guard that
/// checks that it stays unchanged.
async fn source_digest(
    path: Option<&Value>,
    source: &str,
    runtime: &Runtime,
) -> Result<(Digest, Guard), Reason> {
    let no_key = |reason: String| Reason::NoKey(reason);
    let Some(Value::String(path)) = path else {
        return Err(no_key(format!("`{source}` is not a path")));
    };
    // A message may spell a URI differently than the argument did, so redaction could miss a secret. If
    // the URI contains a secret, the message is replaced by a general one.
    let no_key = |reason: String| {
        if runtime.secret_set.occurs_in(path.as_bytes()) {
            no_key(format!("what `{source}` names cannot be read"))
        } else {
            no_key(reason)
        }
    };
    if let Some(local) = runtime.storage.local_path(path) {
        // One observation gives the digest in the key and the state that the guard compares. Two reads could see two
        // contents.
        let looked = tokio::task::spawn_blocking(move || {
            let witness = Witness::default();
            witness.observe(Observation::Content(&local));
            witness.snapshot()
        });
        let witnessed = looked.await.map_err(|error| no_key(error.to_string()))?;
        let digest = witnessed.content_digest();
        let digest = digest.map_err(|error| no_key(error.to_string()))?;
        return Ok((digest, Guard::Local(witnessed)));
    }
    // Before the content is hashed: a change during the hashing then differs from this state, and nothing is stored.
    let before = runtime
        .storage
        .stat(path)
        .await
        .map_err(|error| no_key(error.to_string()))?;
    let digest = remote_digest(path, runtime).await;
    let digest = digest.map_err(|error| no_key(error.to_string()))?;
    Ok((
        digest,
        Guard::Remote {
            uri: path.clone(),
            before,
            digest,
        },
    ))
}

/// The reason why the content behind a URI has no digest.
#[derive(Debug, thiserror::Error)]
enum RemoteDigestError {
    #[error(transparent)]
    Storage(#[from] cachalot_storage::Error),
    #[error("the hash is not a sha256")]
    NotSha256,
}

async fn remote_digest(uri: &str, runtime: &Runtime) -> Result<Digest, RemoteDigestError> {
    let hashed = runtime.storage.hash(uri, Algorithm::Sha256).await?;
    let digest = hashed.hash.parse();
    digest.map_err(|_| RemoteDigestError::NotSha256)
}

/// Returns the paths in `depends_on` in their keyed form; null if there are none.
fn dependency_keys(request: &Request, runtime: &Runtime) -> Result<Value, Reason> {
    if request.depends_on.is_empty() {
        return Ok(Value::Null);
    }
    let paths = witnessed_paths(request, runtime);
    let paths = paths.map_err(|error| Reason::NoKey(error.to_string()))?;
    let text = |path: &PathBuf| match path.to_str() {
        // The entry stores these paths.
        Some(path) if runtime.secret_set.occurs_in(path.as_bytes()) => Err(Reason::NoKey(
            "a path in `depends_on` holds a secret".to_owned(),
        )),
        Some(path) => Ok(Value::from(path)),
        None => Err(Reason::NoKey(format!(
            "{} is not a name that can be noted",
            path.display()
        ))),
    };
    paths.iter().map(text).collect()
}

/// A path in `depends_on` that is not on this machine.
#[derive(Debug, thiserror::Error)]
#[error("depends_on takes local paths, not `{0}`")]
pub(super) struct NotLocal(String);

/// Returns the files and directories in `depends_on`.
pub(super) fn witnessed_paths(
    request: &Request,
    runtime: &Runtime,
) -> Result<Vec<PathBuf>, NotLocal> {
    let local = |path: &String| {
        let local = runtime.storage.local_path(path);
        local.ok_or_else(|| NotLocal(path.clone()))
    };
    request.depends_on.iter().map(local).collect()
}
