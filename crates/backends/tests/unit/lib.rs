//! Unit tests of `src/lib.rs`.

use super::*;

#[test]
fn features_are_those_of_the_manifest() {
    for backend in &BACKENDS {
        let declared = format!("\n{} = [\"dep:", backend.feature);
        assert!(
            include_str!("../../Cargo.toml").contains(&declared),
            "{declared}"
        );
    }
}

#[test]
fn examples_are_urls_of_their_backends_and_no_scheme_has_two() {
    for backend in &BACKENDS {
        let url = StoreUrl::recognize(backend.example);
        let found = url.and_then(|url| url.backend());
        assert_eq!(found, Some(backend.name));
        for scheme in backend.schemes {
            let of_scheme = Backend::of_scheme(scheme).map(|found| found.name);
            assert_eq!(of_scheme, Some(backend.name));
        }
    }
}

#[test]
fn stores_that_are_not_built_are_known_by_name() {
    let error = |url| open(&StoreUrl::recognize(url).unwrap(), &OpenOptions::default()).err();
    #[cfg(not(feature = "duckdb"))]
    assert_eq!(
        error("duckdb:file.db"),
        Some(StoreUrlError::NotBuilt("duckdb"))
    );
    assert_eq!(
        error("mysql://host"),
        Some(StoreUrlError::UnknownScheme("mysql".into()))
    );
    assert!(matches!(
        error("postgres://host:no/x"),
        Some(StoreUrlError::Invalid(_))
    ));
    for url in [
        "redis://host/no",
        "s3://bucket",
        "gs://bucket/",
        "az:///x.db",
    ] {
        let error = error(url);
        assert!(
            matches!(error, Some(StoreUrlError::Invalid(_))),
            "{url}: {error:?}"
        );
    }
}
