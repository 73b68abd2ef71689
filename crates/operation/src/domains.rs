//! Mapping of a call's effects to domains of the engine: those that a read joins, and those that a write
//! raises.
//!
//! | domain | raised when |
//! |---|---|
//! | `workspace:ROOT` | an unknown write occurred in the workspace; every read joins it |
//! | `path:P` | the entry at P was written: changed, replaced, moved, removed |
//! | `entries:P` | P, or an entry of the directory P, was written |
//! | `tree:P` | something at P or anywhere below was written |
//! | N | the resource of that name was written (`ltm`: long-term memory, also by workflows) |
//! | `names` | any named resource was written |
//! | `unknown` | an unknown write occurred in any workspace |
//! | others | a third party announced a change ([`Operation::announced_reads`](crate::Operation::announced_reads)) |
//!
//! A read of a path joins its `entries`, and the `path` of it and of every directory above, because moving a
//! directory moves its content. A read of a pattern in one directory does the same. A read of a tree joins
//! the same `path`s, and its `tree`. Paths are absolute and not relative to a workspace, so that nested
//! workspaces agree.
//!
//! A store keeps a counter for every domain that was ever raised. In a store that outlives the process, paths
//! are therefore mapped to a fixed number of domains, `files:XXXX`. A write may then invalidate results that
//! did not read it, but never misses one that did.

use std::collections::BTreeSet;
use std::path::Path;

use cachalot_cache::Domain;
use cachalot_core::{EffectTarget, EffectTargets};

use crate::workspace::normalize;

/// The domains of a call, independent of their names in an engine.
#[derive(Clone)]
pub struct Domains(BTreeSet<String>);

impl Domains {
    /// The empty set.
    pub const NONE: Self = Self(BTreeSet::new());

    /// Creates the domains of these names. A store keeps a counter for each, so their number must be bounded.
    pub fn named(names: impl IntoIterator<Item = String>) -> Self {
        Self(names.into_iter().collect())
    }

    /// Adds other domains.
    #[must_use]
    pub fn and(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Converts to the names in an engine.
    pub fn for_engine(self, engine: EngineLifetime) -> Vec<Domain> {
        let names = match engine {
            EngineLifetime::Session => self.0,
            EngineLifetime::Persistent => self.0.iter().map(|name| bucket(name)).collect(),
        };
        names.into_iter().map(Domain::new).collect()
    }
}

/// The lifetime of the results in an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineLifetime {
    /// The lifetime of a session.
    Session,
    /// Longer than the lifetime of this process.
    Persistent,
}

/// Maps a domain of a path to one of 65,536 names.
fn bucket(name: &str) -> String {
    if !["path:", "entries:", "tree:"]
        .iter()
        .any(|kind| name.starts_with(kind))
    {
        return name.to_owned();
    }
    // FNV-1a, which is the same in every process and version.
    let hash = name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    format!("files:{:04x}", (hash >> 32) as u16 ^ hash as u16)
}

/// Returns the domains that a call with these reads joins. `root` is the directory of relative paths.
pub fn joined_domains(reads: &EffectTargets, root: &Path) -> Domains {
    let mut names = vec![name("workspace", root)];
    match reads {
        EffectTargets::Unknown => {
            names.push("names".to_owned());
            read("tree", root, &mut names);
        }
        EffectTargets::Known(touched) => {
            for one in touched {
                match one {
                    EffectTarget::Path(path) => {
                        read("entries", &normalize(&root.join(path)), &mut names)
                    }
                    // A pattern for one level concerns the directory's own entries.
                    EffectTarget::Glob {
                        root: base,
                        pattern,
                    } if !pattern.contains('/') && !pattern.contains("**") => {
                        read("entries", &normalize(&root.join(base)), &mut names);
                    }
                    EffectTarget::Glob { root: base, .. } => {
                        read("tree", &normalize(&root.join(base)), &mut names);
                    }
                    EffectTarget::Named(resource) => {
                        names.push(resource.clone());
                        names.push("unknown".to_owned());
                    }
                }
            }
        }
    }
    Domains(names.into_iter().collect())
}

/// Returns the domains that a call with these writes raises. Reads the file system: a directory that does not
/// exist yet will be created, which changes the entries of its parent.
pub fn raised_domains(writes: &EffectTargets, root: &Path) -> Domains {
    let mut names = Vec::new();
    match writes {
        EffectTargets::Unknown => {
            names.push(name("workspace", root));
            names.push("names".to_owned());
            names.push("unknown".to_owned());
            written(root, &mut names);
        }
        EffectTargets::Known(touched) => {
            for one in touched {
                match one {
                    EffectTarget::Path(path) | EffectTarget::Glob { root: path, .. } => {
                        written(&normalize(&root.join(path)), &mut names);
                    }
                    EffectTarget::Named(resource) => {
                        names.push(resource.clone());
                        names.push("names".to_owned());
                    }
                }
            }
        }
    }
    Domains(names.into_iter().collect())
}

/// Adds the domains of a read of a path and its entries (`entries`), or of everything below it (`tree`).
fn read(kind: &str, path: &Path, names: &mut Vec<String>) {
    named_above("path", path, names);
    names.push(name(kind, path));
}

/// Adds the domains of one kind for a path and every directory above it.
fn named_above(kind: &str, path: &Path, names: &mut Vec<String>) {
    let whole = path.to_str();
    names.extend(path.ancestors().map(|above| {
        match whole.and_then(|whole| whole.get(..above.as_os_str().len())) {
            Some(above) => [kind, ":", above].concat(),
            None => name(kind, above),
        }
    }));
}

fn written(path: &Path, names: &mut Vec<String>) {
    names.push(name("path", path));
    names.push(name("entries", path));
    named_above("tree", path, names);
    for directory in path.ancestors().skip(1) {
        names.push(name("entries", directory));
        if directory.symlink_metadata().is_ok() {
            break;
        }
    }
}

fn name(kind: &str, path: &Path) -> String {
    // Paths with the same lossy text share a domain: that raises more than needed, never less.
    [kind, ":", &path.to_string_lossy()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(path: &str) -> EffectTarget {
        EffectTarget::Path(path.into())
    }

    fn tree(root: &str) -> EffectTarget {
        EffectTarget::Glob {
            root: root.into(),
            pattern: "**".into(),
        }
    }

    fn named(name: &str) -> EffectTarget {
        EffectTarget::Named(name.into())
    }

    /// True if a write invalidates a read.
    fn meets(
        reads: &EffectTargets,
        reads_in: &str,
        writes: &EffectTargets,
        writes_in: &str,
    ) -> bool {
        let joined_domains = joined_domains(reads, Path::new(reads_in));
        let raised_domains = raised_domains(writes, Path::new(writes_in));
        let meet = |engine_lifetime| {
            let joined_domains = joined_domains.clone().for_engine(engine_lifetime);
            let raised_domains = raised_domains.clone();
            raised_domains
                .for_engine(engine_lifetime)
                .iter()
                .any(|domain| joined_domains.contains(domain))
        };
        let exact = meet(EngineLifetime::Session);
        assert!(
            !exact || meet(EngineLifetime::Persistent),
            "folding leaves nothing out"
        );
        exact
    }

    #[test]
    fn write_conflicts_exactly_with_reads_of_the_same_path() {
        for (read, write, meet) in [
            (path("a"), path("a"), true),
            (path("a"), path("b"), false),
            (path("a"), path("./x/../a"), true),
            (path("src/a"), path("src"), true),
            (path("src/a"), path("src/b"), false),
            (path("src/a"), path("srca"), false),
            (path("src/a"), tree("src"), true),
            (path("src/a"), tree("other"), false),
            (tree("src"), path("src/deep/er"), true),
            (tree("src"), path("src"), true),
            (tree("src"), path("."), true),
            (tree("src"), path("srca"), false),
            (tree("src"), path("doc/a"), false),
            (tree("src/in"), tree("src"), true),
            (tree("src"), tree("src/in"), true),
            (named("n"), named("n"), true),
            (named("n"), named("m"), false),
            (named("n"), path("n"), false),
            (path("n"), named("n"), false),
        ] {
            let (reads, writes) = (
                EffectTargets::Known(vec![read.clone()]),
                EffectTargets::Known(vec![write.clone()]),
            );
            assert_eq!(
                meets(&reads, "/w", &writes, "/w"),
                meet,
                "{read:?} {write:?}"
            );
        }
    }

    #[test]
    fn persistent_domains_are_bounded_by_buckets() {
        let mut all = std::collections::BTreeSet::new();
        for number in 0..40_000 {
            let writes =
                EffectTargets::Known(vec![path(&format!("dir{}/file{number}", number % 97))]);
            all.extend(
                raised_domains(&writes, Path::new("/w")).for_engine(EngineLifetime::Persistent),
            );
        }
        assert!(all.len() <= 1 << 16, "{}", all.len());
        assert!(all.len() > 30_000, "they spread: {}", all.len());
        assert_eq!(bucket("path:/w/a"), "files:cd4d");
        assert_eq!(bucket("ltm"), "ltm");
        assert_eq!(bucket("workspace:/w"), "workspace:/w");
    }

    #[test]
    fn listing_conflicts_with_created_and_removed_children_only() {
        let home = std::env::temp_dir();
        let home = home.join(format!("cachalot-domains-{}", std::process::id()));
        std::fs::create_dir_all(home.join("there/deep")).unwrap_or_default();
        let root = home.to_string_lossy().into_owned();
        let lists = |directory: &str, write: &str| {
            let (reads, writes) = (
                EffectTargets::Known(vec![path(directory)]),
                EffectTargets::Known(vec![path(write)]),
            );
            meets(&reads, &root, &writes, &root)
        };
        let flat = EffectTargets::Known(vec![EffectTarget::Glob {
            root: "there".into(),
            pattern: "*.rs".into(),
        }]);
        for (write, meet) in [("there/a", true), ("there", true), ("there/deep/a", false)] {
            let writes = EffectTargets::Known(vec![path(write)]);
            assert_eq!(meets(&flat, &root, &writes, &root), meet, "{write}");
        }
        assert!(lists("there", "there/a"));
        assert!(lists(".", "there"));
        assert!(!lists(".", "there/a"));
        assert!(!lists("there", "there/deep/a"));
        assert!(
            lists(".", "new/deep/a"),
            "it makes `new`, which shows in the root"
        );
        assert!(
            lists("there/deep", "there"),
            "who moves a directory moves what is in it"
        );
        let _ = std::fs::remove_dir_all(&home);
    }

    #[test]
    fn unknown_effects_conflict_with_overlapping_workspaces() {
        let unknown = EffectTargets::Unknown;
        let nothing = EffectTargets::NOTHING;
        for reads in [path("a"), path("a/b"), tree("src"), tree("."), named("n")] {
            let reads = EffectTargets::Known(vec![reads]);
            assert!(meets(&reads, "/w", &unknown, "/w"), "{reads:?}");
            assert!(meets(&reads, "/w/in", &unknown, "/w"), "{reads:?}");
            assert!(!meets(&reads, "/w", &nothing, "/w"), "{reads:?}");
        }
        assert!(meets(&nothing, "/w", &unknown, "/w"));
        assert!(!meets(&nothing, "/v", &unknown, "/w"));
        for writes in [path("a"), path("a/b"), tree("src"), named("n")] {
            let writes = EffectTargets::Known(vec![writes]);
            assert!(meets(&unknown, "/w", &writes, "/w"), "{writes:?}");
        }
        let inside = EffectTargets::Known(vec![path("in/a")]);
        assert!(meets(&inside, "/w", &unknown, "/w/in"));
        let beside = EffectTargets::Known(vec![path("a")]);
        assert!(!meets(&beside, "/w", &unknown, "/w/in"));
        assert!(meets(
            &EffectTargets::Known(vec![named("n")]),
            "/v",
            &unknown,
            "/w"
        ));
        assert!(meets(
            &unknown,
            "/v",
            &EffectTargets::Known(vec![named("n")]),
            "/w"
        ));
    }
}
