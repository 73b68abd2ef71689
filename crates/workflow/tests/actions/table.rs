//! The tables of all actions: names, parameters, documentation.

use std::collections::BTreeSet;

use cachalot_workflow::CacheClass;
use cachalot_workflow::actions::builtin;

#[test]
fn every_action_has_a_dotted_and_a_legacy_name() {
    let registry = builtin();
    for name in registry.names() {
        let metadata = registry.get(name).unwrap().metadata();
        let flat = format!("actions.{}", metadata.name.replacen('.', "_", 1));
        assert_eq!(metadata.aliases, [flat], "{name}");
    }
    for name in [
        "file.read",
        "actions.file_read",
        "http.get",
        "storage.hash",
        "actions.storage_hash",
        "ltm.store",
        "actions.ltm_search",
    ] {
        assert!(registry.get(name).is_some(), "{name}");
    }
}

#[test]
fn every_parameter_is_documented_once() {
    let registry = builtin();
    for name in registry.names() {
        let about = registry.get(name).unwrap().metadata();
        assert!(
            about.version >= 1 && about.description.ends_with('.'),
            "{name}"
        );
        assert!(
            !about.description.contains("  "),
            "{name}: {}",
            about.description
        );
        let mut seen = BTreeSet::new();
        for parameter in about.parameters.table() {
            assert!(
                seen.insert(parameter.name),
                "{name}: {} twice",
                parameter.name
            );
            assert!(parameter.doc.ends_with('.'), "{name}: {}", parameter.name);
        }
    }
}

#[test]
fn effect_only_actions_cannot_be_memoized() {
    let registry = builtin();
    let memoizable = |name: &str| registry.get(name).unwrap().metadata().cache_class;
    for name in ["file.write", "ltm.store", "ltm.delete"] {
        assert_eq!(memoizable(name), CacheClass::EffectOnly, "{name}");
    }
    for name in [
        "file.read",
        "http.post",
        "shell.run",
        "llamaextract.extract",
        "ltm.retrieve",
        "storage.hash",
    ] {
        assert_eq!(memoizable(name), CacheClass::Wrappable, "{name}");
    }
}
