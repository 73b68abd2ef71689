//! Derives `Settings` of `cachalot_core::config`: the declaration of a mapping of a configuration file, and its reader,
//! from a struct whose fields are the keys; or the words that a key accepts, from an enum.
//!
//! The trait documents the attributes.

mod attributes;
mod mapping;
mod words;

use proc_macro::TokenStream;
use syn::{Data, DeriveInput, Error, parse_macro_input};

/// Derives `Settings` and `SettingValue` for a struct, or `SettingValue` for an enum.
#[proc_macro_derive(Settings, attributes(settings, setting))]
pub fn derive_settings(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let derived = match &input.data {
        Data::Struct(data) => mapping::derive(&input, data),
        Data::Enum(data) => words::derive(&input, data),
        Data::Union(_) => Err(Error::new_spanned(
            &input,
            "settings are a struct or an enum",
        )),
    };
    derived.unwrap_or_else(Error::into_compile_error).into()
}

/// Derives `CallArguments` for a struct.
#[proc_macro_derive(CallArguments, attributes(setting))]
pub fn derive_arguments(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let derived = match &input.data {
        Data::Struct(data) => mapping::derive_arguments(&input, data),
        Data::Enum(_) | Data::Union(_) => Err(Error::new_spanned(&input, "arguments are a struct")),
    };
    derived.unwrap_or_else(Error::into_compile_error).into()
}
