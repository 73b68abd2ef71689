//! Runs every target with its seeds.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cachalot_fuzz::TARGETS;

#[test]
fn properties_hold_for_all_seeds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, check) in TARGETS {
        let mut seeds = 0;
        for entry in fs::read_dir(corpus.join(name)).expect(name) {
            let path = entry.expect(name).path();
            println!("{}", path.display());
            check(&fs::read(&path).expect(name));
            seeds += 1;
        }
        assert!(seeds > 0, "{name} has no seeds");
    }
}

#[test]
fn every_target_has_a_program_for_libfuzzer() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    let programs: BTreeSet<String> = fs::read_dir(programs)
        .expect("the folder")
        .filter_map(|entry| {
            let name = entry.expect("an entry").file_name();
            Some(name.to_str()?.strip_suffix(".rs")?.to_owned())
        })
        .collect();
    let targets: BTreeSet<String> = TARGETS.map(|(name, _)| name.to_owned()).into();
    assert_eq!(programs, targets);
}
