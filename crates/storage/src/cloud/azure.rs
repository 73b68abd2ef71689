//! Configuration of Azure Blob Storage by the environment.

use std::collections::BTreeMap;

use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};

use super::settings::set;
use crate::location::Bucket;

/// Configures a client from a connection string, overridden by single variables:
/// `AZURE_STORAGE_CONNECTION_STRING`; `AZURE_STORAGE_ACCOUNT` or `AZURE_STORAGE_ACCOUNT_NAME`;
/// `AZURE_STORAGE_KEY` or `AZURE_STORAGE_ACCOUNT_KEY`; `AZURE_STORAGE_SAS_TOKEN`; `AZURE_CLIENT_ID`,
/// `AZURE_TENANT_ID` with `AZURE_CLIENT_SECRET` or `AZURE_FEDERATED_TOKEN_FILE`; `AZURE_STORAGE_ENDPOINT`;
/// `AZURE_STORAGE_USE_EMULATOR`. An account in the URI overrides all of these.
pub(super) fn settings(
    environment: &BTreeMap<String, String>,
    bucket: &Bucket,
) -> MicrosoftAzureBuilder {
    let mut builder = MicrosoftAzureBuilder::new();
    let text = environment
        .get("AZURE_STORAGE_CONNECTION_STRING")
        .map_or("", String::as_str);
    for (key, value) in connection_string(text) {
        builder = builder.with_config(key, value);
    }
    for (name, value) in set(environment, "AZURE_") {
        // Names used by the Azure command line tool, which the library does not know.
        let key = match name {
            "AZURE_STORAGE_ACCOUNT" => Ok(AzureConfigKey::AccountName),
            "AZURE_STORAGE_KEY" => Ok(AzureConfigKey::AccessKey),
            _ => name.to_ascii_lowercase().parse(),
        };
        match key {
            Err(_) | Ok(AzureConfigKey::Client(_)) => {}
            Ok(key) => builder = builder.with_config(key, value),
        }
    }
    if let Some((_, endpoint)) = set(environment, "IDENTITY_ENDPOINT").next() {
        builder = builder.with_msi_endpoint(endpoint);
    }
    match &bucket.account {
        Some(host) => builder.with_url(format!("abfss://{}@{host}", bucket.name)),
        None => builder.with_container_name(&bucket.name),
    }
}

/// Parses `DefaultEndpointsProtocol=https;AccountName=…;AccountKey=…;EndpointSuffix=…`.
fn connection_string(text: &str) -> Vec<(AzureConfigKey, String)> {
    let parts: BTreeMap<String, &str> = text
        .split(';')
        .filter_map(|part| part.trim().split_once('='))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim()))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let part = |name: &str| parts.get(name).copied();
    let mut found = Vec::new();
    if part("usedevelopmentstorage").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        found.push((AzureConfigKey::UseEmulator, "true".to_owned()));
    }
    for (name, key) in [
        ("accountname", AzureConfigKey::AccountName),
        ("accountkey", AzureConfigKey::AccessKey),
        ("sharedaccesssignature", AzureConfigKey::SasKey),
    ] {
        found.extend(part(name).map(|value| (key, value.to_owned())));
    }
    let protocol = part("defaultendpointsprotocol").unwrap_or("https");
    let standard = part("accountname")
        .zip(part("endpointsuffix"))
        .map(|(account, suffix)| format!("{protocol}://{account}.blob.{suffix}"));
    let endpoint = part("blobendpoint").map(str::to_owned).or(standard);
    found.extend(endpoint.map(|endpoint| {
        (
            AzureConfigKey::Endpoint,
            endpoint.trim_end_matches('/').to_owned(),
        )
    }));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::Cloud;

    fn value(pairs: &[(&str, &str)], key: AzureConfigKey) -> Option<String> {
        let environment = pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let bucket = Bucket {
            cloud: Cloud::Azure,
            name: "box".to_owned(),
            account: None,
        };
        settings(&environment, &bucket).get_config_value(&key)
    }

    #[test]
    fn connection_string_is_parsed_and_variables_take_precedence() {
        let text = "DefaultEndpointsProtocol=https;AccountName=me;AccountKey=a2V5==;EndpointSuffix=core.windows.net";
        let string = ("AZURE_STORAGE_CONNECTION_STRING", text);
        assert_eq!(
            value(&[string], AzureConfigKey::AccountName).as_deref(),
            Some("me")
        );
        assert_eq!(
            value(&[string], AzureConfigKey::AccessKey).as_deref(),
            Some("a2V5==")
        );
        assert_eq!(
            value(&[string], AzureConfigKey::Endpoint).as_deref(),
            Some("https://me.blob.core.windows.net")
        );
        let both = [string, ("AZURE_STORAGE_ACCOUNT", "other")];
        assert_eq!(
            value(&both, AzureConfigKey::AccountName).as_deref(),
            Some("other")
        );
        assert_eq!(
            value(&both, AzureConfigKey::ContainerName).as_deref(),
            Some("box")
        );
    }

    #[test]
    fn an_emulator_and_a_signature_are_recognised() {
        let emulator = [(
            "AZURE_STORAGE_CONNECTION_STRING",
            "UseDevelopmentStorage=true",
        )];
        assert_eq!(
            value(&emulator, AzureConfigKey::UseEmulator).as_deref(),
            Some("true")
        );
        let signed = [(
            "AZURE_STORAGE_CONNECTION_STRING",
            "BlobEndpoint=https://me.blob.core.windows.net/;SharedAccessSignature=sv=1&sig=x%3D",
        )];
        assert_eq!(
            value(&signed, AzureConfigKey::SasKey).as_deref(),
            Some("sv=1&sig=x%3D")
        );
        assert_eq!(
            value(&signed, AzureConfigKey::Endpoint).as_deref(),
            Some("https://me.blob.core.windows.net")
        );
    }
}
