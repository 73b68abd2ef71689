//! The tools for files.

mod apply_patch;
pub(crate) mod denied;
mod edit_file;
mod effects;
mod glob;
mod grep;
mod list_dir;
mod properties;
mod read_file;
mod witnesses;
mod write_file;

use cachalot_core::Digest;
use cachalot_tools::builtin::files;

/// The definitions of tools are at the beginning of every prompt, and results of tools are kept across
/// versions: a change of a byte is a miss of the provider's cache.
#[test]
fn the_schemas_are_what_they_always_were() {
    let schemas: Vec<(String, String)> = files()
        .iter()
        .map(|tool| {
            let metadata = tool.metadata();
            let schema = metadata.parameters.schema().to_string();
            let digest = Digest::sha256(schema.as_bytes()).to_string();
            (metadata.name.to_string(), digest[..16].to_owned())
        })
        .collect();
    let expected = [
        ("read_file", "abf6b216dad0ae6a"),
        ("list_dir", "b5df12a906a5ac57"),
        ("glob", "a4eded823ebddd6a"),
        ("grep", "396895e9b126f398"),
        ("write_file", "270a760460f285a9"),
        ("edit_file", "b5a02821185a3b07"),
        ("apply_patch", "f107e9a1eef0b3ab"),
    ];
    assert_eq!(
        schemas,
        expected.map(|(name, digest)| (name.to_owned(), digest.to_owned()))
    );
}
