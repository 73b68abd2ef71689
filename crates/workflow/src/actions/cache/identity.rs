//! The identity of a `cache.wrap` call: its handle and its keyed input.

use std::path::PathBuf;

use cachalot_cache::{Observation, Reason, Witness, WitnessSnapshot};
use cachalot_core::{Canonical, Digest};
use cachalot_storage::{Algorithm, Stat};
use serde_json::{Map, Value, json};

use super::handle;
use super::request::{Request, Strategy, invalid};
use crate::Runtime;
use crate::{Arguments, Failure};

/// Handle and keyed input of a call.
pub(super) struct Identity {
    pub(super) handle: String,
    pub(super) input: Canonical,
    /// Checks, after the action has run, that it read the content that is in the key.
    pub(super) guard: Guard,
}

/// Content that must stay unchanged from the computation of the key to the end of the action.
pub(super) enum Guard {
    Nothing,
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
        let changed = |what: String| Reason::Changed(format!("{what}, while the action ran"));
        let Self::Remote {
            uri,
            before,
            digest,
        } = self
        else {
            return match self {
                Self::Local(witnessed) => witnessed.holds().await.map_err(changed),
                _ => Ok(()),
            };
        };
        let holds = match runtime.storage.stat(uri).await {
            // An unchanged size alone is weak evidence, so the content is hashed again.
            Ok(after) if after.etag.is_none() && after.modified.is_none() && after == *before => {
                remote_digest(uri, runtime).await.as_ref() == Ok(digest)
            }
            after => after.is_ok_and(|after| after == *before),
        };
        if holds {
            Ok(())
        } else {
            Err(changed(format!("{uri} changed")))
        }
    }
}

/// Computes the identity of a request. The request's arguments are only borrowed: they are moved into the
/// value that is encoded and moved back afterwards, because a copy would be the larger part of the cost
/// of a hit.
pub(super) async fn identify(request: &mut Request, runtime: &Runtime) -> Result<Identity, Reason> {
    let implicit = request.action.implicit_inputs(&request.args, runtime);
    let mut implicit = implicit.map_err(|failure| Reason::NoKey(failure.message))?;
    let depends_on = dependency_keys(request, runtime)?;
    let mut keyed_input = Map::with_capacity(8);
    let mut without = Vec::new();
    let mut guard = Guard::Nothing;
    if let Strategy::FileContent(source) = &request.strategy {
        let digest;
        (digest, guard) =
            Box::pin(source_digest(request.args.get(source), source, runtime)).await?;
        keyed_input.insert("content".into(), digest.to_hex().into());
        remove_source(source, &mut implicit);
        without.extend(request.args.shift_remove_entry(source));
    }
    for parameter in request.action.metadata().parameters.table() {
        if !parameter.keyed {
            without.extend(request.args.shift_remove_entry(parameter.name));
        }
    }
    let handle = match &request.strategy {
        Strategy::Key(key) => {
            keyed_input.insert(
                "key".into(),
                handle::strip_prefixes(key, request.agent.as_deref()).into(),
            );
            handle::for_key(key, request.agent.as_deref(), &runtime.secret_set)
        }
        _ => {
            keyed_input.insert(
                "args".into(),
                Value::Object(std::mem::take(&mut request.args)),
            );
            let digest;
            (digest, keyed_input) = digest_of(keyed_input, runtime);
            handle::for_arguments(request.name(), digest, request.agent.as_deref())
        }
    };
    keyed_input.insert("strategy".into(), request.strategy.name().into());
    keyed_input.insert(
        "agent".into(),
        request.agent.as_deref().map_or(Value::Null, Value::from),
    );
    keyed_input.insert(
        "action_version".into(),
        request.action.metadata().version.into(),
    );
    let further = [
        ("implicit", implicit),
        ("version", request.version.clone()),
        ("depends_on", depends_on),
    ];
    let further = further.into_iter().filter(|(_, value)| !value.is_null());
    keyed_input.extend(further.map(|(name, value)| (name.to_owned(), value)));
    let keyed_input = Value::Object(keyed_input);
    let input = Canonical::sealed(&keyed_input, &runtime.secret_set);
    restore_arguments(keyed_input, without, &mut request.args);
    Ok(Identity {
        handle,
        input,
        guard,
    })
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
        "agent": request.agent,
        "scope": request.scope.to_string(),
        "implicit": request.action.implicit_inputs(&request.args, runtime)?,
    }))
}

fn digest_of(keyed_input: Map<String, Value>, runtime: &Runtime) -> (Digest, Map<String, Value>) {
    let keyed_input = Value::Object(keyed_input);
    let digest = Canonical::sealed(&keyed_input, &runtime.secret_set).digest();
    match keyed_input {
        Value::Object(keyed_input) => (digest, keyed_input),
        _ => unreachable!("it was made an object"),
    }
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

/// Moves the borrowed arguments back.
fn restore_arguments(keyed_input: Value, without: Vec<(String, Value)>, args: &mut Arguments) {
    if let Value::Object(mut keyed_input) = keyed_input
        && let Some(Value::Object(borrowed)) = keyed_input.shift_remove("args")
    {
        *args = borrowed;
    }
    args.extend(without);
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
    let no_key = |reason: String| match runtime.secret_set.occurs_in(path.as_bytes()) {
        true => no_key(format!("what `{source}` names cannot be read")),
        false => no_key(reason),
    };
    if let Some(local) = runtime.storage.local_path(path) {
        let looked = tokio::task::spawn_blocking(move || {
            let witness = Witness::default();
            witness.observe(Observation::Content(&local));
            witness.snapshot()
        });
        let witnessed = looked.await.map_err(|error| no_key(error.to_string()))?;
        let digest = witnessed.content_digest().map_err(no_key)?;
        return Ok((digest, Guard::Local(witnessed)));
    }
    let before = runtime
        .storage
        .stat(path)
        .await
        .map_err(|error| no_key(error.to_string()))?;
    let digest = remote_digest(path, runtime).await.map_err(no_key)?;
    Ok((
        digest,
        Guard::Remote {
            uri: path.clone(),
            before,
            digest,
        },
    ))
}

async fn remote_digest(uri: &str, runtime: &Runtime) -> Result<Digest, String> {
    let hashed = runtime.storage.hash(uri, Algorithm::Sha256).await;
    let hashed = hashed.map_err(|error| error.to_string())?;
    hashed
        .hash
        .parse()
        .map_err(|_| "the hash is not a sha256".to_owned())
}

/// Returns the paths in `depends_on` in their keyed form; null if there are none.
fn dependency_keys(request: &Request, runtime: &Runtime) -> Result<Value, Reason> {
    if request.depends_on.is_empty() {
        return Ok(Value::Null);
    }
    let paths = witnessed_paths(request, runtime).map_err(Reason::NoKey)?;
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

/// Returns the files and directories in `depends_on`.
pub(super) fn witnessed_paths(
    request: &Request,
    runtime: &Runtime,
) -> Result<Vec<PathBuf>, String> {
    let local = |path: &String| {
        runtime
            .storage
            .local_path(path)
            .ok_or_else(|| format!("depends_on takes local paths, not `{path}`"))
    };
    request.depends_on.iter().map(local).collect()
}
