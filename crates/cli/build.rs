//! With the feature `duckdb`, lets the program find the library in the folder in which it was linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=DUCKDB_LIB_DIR");
    let is_linked = std::env::var_os("CARGO_FEATURE_DUCKDB").is_some();
    if let (true, Ok(folder)) = (is_linked, std::env::var("DUCKDB_LIB_DIR")) {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
