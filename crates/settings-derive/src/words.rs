//! Enums: the words that a key accepts.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DataEnum, DeriveInput, Error, Fields, Result};

use crate::attributes::FieldAttributes;

/// Derives `SettingValue` and `Word` for an enum without fields: each variant is a word, in lower case with underscores unless
/// `#[setting(key = "…")]` says otherwise.
pub(crate) fn derive(input: &DeriveInput, data: &DataEnum) -> Result<TokenStream> {
    let mut words = Vec::new();
    let mut variants = Vec::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new_spanned(variant, "a word has no fields"));
        }
        let attributes = FieldAttributes::parse(&variant.attrs)?;
        let word = attributes.key.map(|key| key.value());
        words.push(word.unwrap_or_else(|| snake_case(&variant.ident.to_string())));
        variants.push(&variant.ident);
    }
    let name = &input.ident;
    Ok(quote! {
        impl ::cachalot_core::config::Word for #name {
            const WORDS: &'static [(&'static str, Self)] = &[#((#words, Self::#variants)),*];
        }

        impl ::cachalot_core::config::SettingValue for #name {
            const KIND: ::cachalot_core::config::ParameterKind =
                ::cachalot_core::config::ParameterKind::Word(&[#(#words),*]);

            fn from_node(
                node: &::cachalot_core::tree::Node,
                _: ::cachalot_core::config::ParameterKind,
                _: &mut ::std::vec::Vec<::cachalot_core::Problem>,
            ) -> ::std::option::Option<Self> {
                ::cachalot_core::config::Word::from_word(node.as_text()?)
            }

            fn from_literal(literal: ::cachalot_core::config::Literal) -> ::std::option::Option<Self> {
                match literal {
                    ::cachalot_core::config::Literal::Text(word) => {
                        ::cachalot_core::config::Word::from_word(word)
                    }
                    _ => ::std::option::Option::None,
                }
            }
        }
    })
}

/// Returns a name in lower case, with underscores before its former capitals.
fn snake_case(name: &str) -> String {
    let mut word = String::new();
    for (at, character) in name.chars().enumerate() {
        if character.is_uppercase() && at > 0 {
            word.push('_');
        }
        word.extend(character.to_lowercase());
    }
    word
}
