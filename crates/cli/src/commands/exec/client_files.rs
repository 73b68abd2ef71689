//! Files of a client: its settings and its login.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cachalot_gateway::{ClientSettings, Folder};
use serde_json::Value;

/// The places of a client's files.
#[derive(Clone, Copy)]
pub(super) struct ClientFiles<'a> {
    pub(super) environment: &'a BTreeMap<String, String>,
    /// The current directory.
    pub(super) directory: &'a Path,
    /// The directory of its settings.
    pub(super) folder: &'a Folder,
}

impl ClientFiles<'_> {
    /// Returns the path of a file of the table of clients; `None` if it has none on this machine.
    pub(super) fn path(self, file: &str) -> Option<PathBuf> {
        if let Some(rest) = file.strip_prefix("./") {
            return Some(self.directory.join(rest));
        }
        let rest = file.strip_prefix("{folder}/")?;
        let set = |name: &str| self.environment.get(name).filter(|value| !value.is_empty());
        let named = self.folder.variable.as_deref().and_then(set);
        let folder = match named {
            Some(folder) => self.directory.join(folder),
            None => Path::new(set("HOME")?).join(&self.folder.default),
        };
        Some(folder.join(rest))
    }

    /// Returns true if one of the files exists.
    pub(super) fn has_any(self, files: &[String]) -> bool {
        let mut paths = files.iter().filter_map(|file| self.path(file));
        paths.any(|path| path.exists())
    }

    /// Returns the base URL that settings lead the client to.
    pub(super) fn base_url(self, settings: &ClientSettings) -> Option<String> {
        let mut files = settings.files.iter().filter_map(|file| self.read(file));
        files.find_map(|file| {
            let text = |pointer: &Option<String>| {
                let value = file.pointer(pointer.as_deref()?)?.as_str()?;
                (!value.is_empty()).then(|| value.to_owned())
            };
            let selected = || {
                let is_selected =
                    text(&settings.present).is_some() && text(&settings.absent).is_none();
                settings.url.clone().filter(|_| is_selected)
            };
            text(&settings.base_url).or_else(selected)
        })
    }

    /// Reads a file in JSON.
    pub(super) fn read(self, file: &str) -> Option<Value> {
        let text = std::fs::read_to_string(self.path(file)?).ok()?;
        serde_json::from_str(&text).ok()
    }
}
