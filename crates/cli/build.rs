//! Arguments of the linker: where the library of the feature `duckdb` is, and a compact table of relocations.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=DUCKDB_LIB_DIR");
    let is_linked = std::env::var_os("CARGO_FEATURE_DUCKDB").is_some();
    if let (true, Ok(folder)) = (is_linked, std::env::var("DUCKDB_LIB_DIR")) {
        // The program finds the library in the folder in which it was linked.
        println!("cargo::rustc-link-arg=-Wl,-rpath,{folder}");
    }
    if has_compact_relocations() {
        // The program is 3 MB smaller (of 47), and needs glibc 2.36: it has relative relocations as a bitmap
        // (`DT_RELR`).
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns true if the program is built for this machine, and its loader reads `DT_RELR`: glibc does since 2.36.
fn has_compact_relocations() -> bool {
    let variable = |name| std::env::var(name).unwrap_or_default();
    if variable("HOST") != variable("TARGET") || variable("CARGO_CFG_TARGET_ENV") != "gnu" {
        return false;
    }
    let Ok(output) = Command::new("getconf").arg("GNU_LIBC_VERSION").output() else {
        return false;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text
        .trim()
        .strip_prefix("glibc ")
        .and_then(|version| version.split_once('.'));
    let Some((major, minor)) = version else {
        return false;
    };
    matches!((major.parse::<u32>(), minor.parse::<u32>()), (Ok(major), Ok(minor)) if (major, minor) >= (2, 36))
}
