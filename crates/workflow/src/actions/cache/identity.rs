//! What makes two calls of `cache.wrap` the same: the handle, and everything that is keyed.

use std::path::PathBuf;

use cachalot_cache::{Observation, Reason, Witness, Witnessed};
use cachalot_core::{Canonical, Digest};
use cachalot_storage::{Algorithm, Stat};
use serde_json::{Map, Value, json};

use super::handle;
use super::request::{Request, Strategy};
use crate::Runtime;
use crate::action::Arguments;

/// What a call is called, and what it depends on.
pub(super) struct Identity {
    pub(super) handle: String,
    pub(super) input: Canonical,
    /// Tells, after the action has run, whether it saw the content that is in the key.
    pub(super) guard: Guard,
}

/// What must not have changed between the making of the key and the end of the action.
pub(super) enum Guard {
    Nothing,
    Local(Witnessed),
    Remote { uri: String, before: Stat },
}

impl Guard {
    /// The reason why the answer must not be kept.
    pub(super) async fn check(&self, runtime: &Runtime) -> Result<(), Reason> {
        let changed = |what: String| Reason::Changed(format!("{what}, while the action ran"));
        match self {
            Self::Nothing => Ok(()),
            Self::Local(witnessed) => witnessed.holds().await.map_err(changed),
            Self::Remote { uri, before } => match runtime.storage.stat(uri).await {
                Ok(after) if after == *before => Ok(()),
                Ok(_) => Err(changed(format!("{uri} changed"))),
                Err(error) => Err(changed(error.to_string())),
            },
        }
    }
}

/// Makes the identity of a request. The request's arguments are only borrowed: they are moved into
/// the value that is encoded and back out of it, because copying them would be the larger part of a hit.
pub(super) async fn identify(
    request: &mut Request,
    runtime: &Runtime,
) -> Result<Identity, Reason> {
    let no_key = |why: String| Reason::NoKey(why);
    let implicit = request
        .action
        .implicit_inputs(&request.args, runtime)
        .map_err(|failure| no_key(runtime.seals.redact(&failure.message).into_owned()))?;
    let implicit = match &request.strategy {
        Strategy::FileContent(source) => without_source(implicit, source),
        _ => Some(implicit).filter(|implicit| !implicit.is_null()),
    };
    let depends_on: Vec<PathBuf> = witnessed_paths(request, runtime).map_err(no_key)?;
    let (content, guard) = match &request.strategy {
        Strategy::FileContent(source) => {
            let path = match request.args.get(source) {
                Some(Value::String(path)) => path.clone(),
                _ => return Err(no_key(format!("`{source}` is not a path"))),
            };
            let (digest, guard) = content_of(&path, runtime).await.map_err(no_key)?;
            (Some(digest), guard)
        }
        _ => (None, Guard::Nothing),
    };
    let mut keyed = Map::new();
    let strategy = match &request.strategy {
        Strategy::Arguments => "args",
        Strategy::Value(_) => "sha256",
        Strategy::FileContent(_) => "file_content",
        Strategy::Key(_) => "custom",
    };
    let source = match &request.strategy {
        Strategy::FileContent(source) => {
            keyed.insert("content".into(), json!(content.map(|digest| digest.to_hex())));
            Some(source.clone())
        }
        _ => None,
    };
    let mut without = None;
    let handle = match &request.strategy {
        Strategy::Key(key) => {
            let handle = handle::of_key(key, request.agent.as_deref());
            keyed.insert("key".into(), Value::String(handle.clone()));
            handle
        }
        _ => {
            without = source.and_then(|source| request.args.shift_remove_entry(&source));
            keyed.insert("args".into(), Value::Object(std::mem::take(&mut request.args)));
            let keyed_value = Value::Object(keyed);
            let digest = Canonical::sealed(&keyed_value, &runtime.seals).digest();
            let Value::Object(back) = keyed_value else { unreachable!("it was made an object") };
            keyed = back;
            handle::of_arguments(request.action.about().names[0], digest, request.agent.as_deref())
        }
    };
    keyed.insert("strategy".into(), Value::String(strategy.to_owned()));
    keyed.insert("agent".into(), json!(request.agent));
    keyed.insert("action_version".into(), json!(request.action.about().version));
    if let Some(implicit) = implicit {
        keyed.insert("implicit".into(), implicit);
    }
    if !request.version.is_null() {
        keyed.insert("version".into(), request.version.clone());
    }
    if !depends_on.is_empty() {
        let paths: Vec<_> = depends_on.iter().map(|path| path.to_string_lossy()).collect();
        keyed.insert("depends_on".into(), json!(paths));
    }
    let keyed_value = Value::Object(keyed);
    let input = Canonical::sealed(&keyed_value, &runtime.seals);
    take_back(keyed_value, without, &mut request.args);
    Ok(Identity { handle: handle::sealed(handle, &runtime.seals), input, guard })
}

/// Where the content of a file is keyed, it does not matter what its path is relative to.
fn without_source(mut implicit: Value, source: &str) -> Option<Value> {
    if let Value::Object(inputs) = &mut implicit {
        inputs.shift_remove(source);
        if inputs.is_empty() {
            return None;
        }
    }
    Some(implicit).filter(|implicit| !implicit.is_null())
}

/// Returns the arguments to where they were borrowed from.
fn take_back(keyed: Value, without: Option<(String, Value)>, args: &mut Arguments) {
    if let Value::Object(mut keyed) = keyed {
        if let Some(Value::Object(borrowed)) = keyed.shift_remove("args") {
            *args = borrowed;
        }
    }
    args.extend(without);
}

/// The digest of what is behind a path or URI, and what must stay so.
async fn content_of(path: &str, runtime: &Runtime) -> Result<(Digest, Guard), String> {
    if let Some(local) = runtime.storage.local_path(path) {
        let looked = tokio::task::spawn_blocking(move || {
            let witness = Witness::default();
            witness.observe(Observation::Content(&local));
            witness.taken()
        });
        let witnessed = looked.await.map_err(|error| error.to_string())?;
        return Ok((witnessed.content_digest()?, Guard::Local(witnessed)));
    }
    let before = runtime.storage.stat(path).await.map_err(|error| error.to_string())?;
    let hashed =
        runtime.storage.hash(path, Algorithm::Sha256).await.map_err(|error| error.to_string())?;
    let digest = hashed.hash.parse().map_err(|_| "the hash is not a sha256".to_owned())?;
    Ok((digest, Guard::Remote { uri: path.to_owned(), before }))
}

/// The files and directories that the user says the result depends on.
pub(super) fn witnessed_paths(request: &Request, runtime: &Runtime) -> Result<Vec<PathBuf>, String> {
    let local = |path: &String| {
        runtime
            .storage
            .local_path(path)
            .ok_or_else(|| format!("depends_on takes local paths, not `{path}`"))
    };
    request.depends_on.iter().map(local).collect()
}
