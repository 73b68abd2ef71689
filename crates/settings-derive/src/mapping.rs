//! Structs: the keys of a mapping.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{
    DataStruct, DeriveInput, Error, Field, Fields, GenericArgument, Ident, PathArguments, Result,
    Type,
};

use crate::attributes::{
    DefaultValue, FieldAttributes, MappingAttributes, documentation, is_float,
};

/// The parts of the derived code.
#[derive(Default)]
struct Parts {
    /// The declarations of the keys since the last flattened struct.
    parameters: Vec<TokenStream>,
    /// The keys before them: groups of declarations, and those of flattened structs.
    groups: Vec<TokenStream>,
    /// The defaults of the fields.
    defaults: Vec<TokenStream>,
    /// True if an invalid value has the default of its key.
    has_default: bool,
    /// Reads the fields. Required ones are checked after all of them are read, so that all problems are found.
    reads: Vec<TokenStream>,
    /// Creates the fields.
    fields: Vec<TokenStream>,
}

/// Derives `CallArguments` for a struct with named fields.
pub(crate) fn derive_arguments(input: &DeriveInput, data: &DataStruct) -> Result<TokenStream> {
    let name = &input.ident;
    let parameters = Parts::of(input, data, false)?.declarations();
    Ok(quote! {
        impl ::cachalot_core::config::CallArguments for #name {
            const PARAMETERS: &'static [::cachalot_core::config::Parameter] = #parameters;
        }
    })
}

/// Derives `Settings` and `SettingValue` for a struct with named fields.
pub(crate) fn derive(input: &DeriveInput, data: &DataStruct) -> Result<TokenStream> {
    let attributes = MappingAttributes::parse(&input.attrs)?;
    let Some(title) = &attributes.name else {
        return Err(Error::new_spanned(
            &input.ident,
            "`#[settings(name = \"…\")]` names the mapping in messages",
        ));
    };
    let parts = Parts::of(input, data, attributes.has_default)?;
    let parameters = parts.declarations();
    let name = &input.ident;
    let default = parts.default_of(name);
    let Parts { reads, fields, .. } = parts;
    let sentence = match attributes.sentence {
        Some(sentence) => sentence.value(),
        None => documentation(&input.attrs),
    };
    let also = attributes.also.map(|also| quote!(, #also));
    let open = attributes.is_open.then(|| quote!(.open()));
    let check = attributes
        .check
        .map(|check| quote!(#check(&mut settings, values, problems);));
    let mutable = check.is_some().then(|| quote!(mut));
    Ok(quote! {
        #default

        impl ::cachalot_core::config::Settings for #name {
            const PARAMETERS: &'static [::cachalot_core::config::Parameter] = #parameters;
            const TABLE: &'static ::cachalot_core::config::Table = {
                static TABLE: ::cachalot_core::config::Table = ::cachalot_core::config::Table::new(
                    #title,
                    #sentence,
                    &[
                        <#name as ::cachalot_core::config::Settings>::PARAMETERS
                        #also
                    ],
                )#open;
                &TABLE
            };

            fn from_values(
                values: ::cachalot_core::config::Values<'_>,
                problems: &mut ::std::vec::Vec<::cachalot_core::Problem>,
            ) -> ::std::option::Option<Self> {
                #(#reads)*
                let #mutable settings = Self { #(#fields),* };
                #check
                ::std::option::Option::Some(settings)
            }
        }

        impl ::cachalot_core::config::SettingValue for #name {
            const KIND: ::cachalot_core::config::ParameterKind =
                ::cachalot_core::config::ParameterKind::Table(
                    <#name as ::cachalot_core::config::Settings>::TABLE,
                );

            fn from_node(
                node: &::cachalot_core::tree::Node,
                _: ::cachalot_core::config::ParameterKind,
                problems: &mut ::std::vec::Vec<::cachalot_core::Problem>,
            ) -> ::std::option::Option<Self> {
                let table = <Self as ::cachalot_core::config::Settings>::TABLE;
                <Self as ::cachalot_core::config::Settings>::from_values(table.values(node)?, problems)
            }
        }
    })
}

impl Parts {
    fn of(input: &DeriveInput, data: &DataStruct, has_default: bool) -> Result<Self> {
        let Fields::Named(fields) = &data.fields else {
            return Err(Error::new_spanned(input, "keys are named fields"));
        };
        let mut parts = Self {
            has_default,
            ..Self::default()
        };
        for field in &fields.named {
            parts.add(field)?;
        }
        parts.close_group();
        Ok(parts)
    }

    /// Returns the declarations of all keys.
    fn declarations(&self) -> TokenStream {
        let groups = &self.groups;
        quote!({
            const GROUPS: &[&[::cachalot_core::config::Parameter]] = &[#(#groups),*];
            const COUNT: usize = ::cachalot_core::config::count(GROUPS);
            const ALL: [::cachalot_core::config::Parameter; COUNT] =
                ::cachalot_core::config::joined(GROUPS);
            &ALL
        })
    }

    fn add(&mut self, field: &Field) -> Result<()> {
        let attributes = FieldAttributes::parse(&field.attrs)?;
        let (name, kind) = (&field.ident, &field.ty);
        let of_type = quote!(#name: ::std::default::Default::default());
        if attributes.is_skipped {
            self.fields.push(of_type.clone());
            self.defaults.push(of_type);
            return Ok(());
        }
        if attributes.is_place {
            self.fields.push(quote!(#name: values.mapping().head()));
            self.defaults.push(of_type);
            return Ok(());
        }
        let optional = inner(kind, "Option");
        let value = optional.unwrap_or(kind);
        if attributes.is_flattened {
            self.close_group();
            self.defaults.push(of_type);
            self.groups
                .push(quote!(<#value as ::cachalot_core::config::Settings>::PARAMETERS));
            self.reads.push(quote! {
                let #name = <#value as ::cachalot_core::config::Settings>::from_values(values, problems);
            });
            self.fields.push(if optional.is_some() {
                quote!(#name)
            } else {
                quote!(#name: #name?)
            });
            return Ok(());
        }
        let spelled = name.as_ref().map(ToString::to_string).unwrap_or_default();
        let key = attributes.key.as_ref().map_or(spelled, |key| key.value());
        // Without entries, a list or a mapping is empty.
        let may_be_empty = ["Vec", "BTreeMap"]
            .iter()
            .any(|name| inner(kind, name).is_some())
            || matches!(kind, Type::Path(path) if path.path.is_ident("bool"));
        let is_required = attributes.is_required
            || (optional.is_none() && !may_be_empty && attributes.default.is_none());
        let literal = match &attributes.default {
            Some(default) => default.literal(value)?,
            None => None,
        };
        let stated = literal.as_ref().map(|literal| {
            quote!(<#value as ::cachalot_core::config::SettingValue>::from_literal(#literal))
        });
        self.defaults.push(match (&stated, optional) {
            (Some(stated), Some(_)) => quote!(#name: #stated),
            (Some(stated), None) => quote!(#name: #stated.unwrap_or_default()),
            (None, _) => of_type,
        });
        let declared = declaration(&key, value, &attributes, literal, is_required, field);
        self.parameters.push(declared);
        let following = attributes.following.iter();
        self.parameters.extend(following.map(|path| quote!(#path)));
        let or_default = stated
            .filter(|_| self.has_default)
            .map(|stated| quote!(.or_else(|| #stated)));
        self.reads.push(match &attributes.with {
            Some(read) => quote!(let #name = values.node(#key).and_then(#read) #or_default;),
            None => quote!(let #name = values.setting::<#value>(#key, problems) #or_default;),
        });
        self.fields.push(if optional.is_some() {
            quote!(#name)
        } else if may_be_empty || matches!(attributes.default, Some(DefaultValue::OfType)) {
            quote!(#name: #name.unwrap_or_default())
        } else {
            quote!(#name: #name?)
        });
        Ok(())
    }

    /// Ends a group of declarations.
    fn close_group(&mut self) {
        let parameters = std::mem::take(&mut self.parameters);
        if !parameters.is_empty() {
            self.groups.push(quote!(&[#(#parameters),*]));
        }
    }

    /// Returns the implementation of `Default`.
    fn default_of(&self, name: &Ident) -> Option<TokenStream> {
        let defaults = &self.defaults;
        self.has_default.then(|| {
            quote! {
                impl ::std::default::Default for #name {
                    fn default() -> Self {
                        Self { #(#defaults),* }
                    }
                }
            }
        })
    }
}

/// Returns the declaration of a key.
fn declaration(
    key: &str,
    value: &Type,
    attributes: &FieldAttributes,
    default: Option<TokenStream>,
    is_required: bool,
    field: &Field,
) -> TokenStream {
    let kind = match (&attributes.kind, &attributes.range) {
        (Some(kind), _) => quote!(#kind),
        (None, Some((minimum, maximum))) if is_float(minimum) => {
            quote!(::cachalot_core::config::ParameterKind::NumberIn(#minimum, #maximum))
        }
        (None, Some((minimum, maximum))) => {
            quote!(::cachalot_core::config::ParameterKind::IntegerIn(#minimum, #maximum))
        }
        (None, None) => quote!(<#value as ::cachalot_core::config::SettingValue>::KIND),
    };
    let sentence = documentation(&field.attrs);
    let declare = if is_required {
        quote!(required)
    } else {
        quote!(key)
    };
    let aliases = &attributes.aliases;
    let with_aliases = (!aliases.is_empty()).then(|| quote!(.with_aliases(&[#(#aliases),*])));
    let default = default.map(|literal| quote!(.default(#literal)));
    quote! {
        ::cachalot_core::config::#declare(#key, #kind, #sentence) #default #with_aliases
    }
}

/// Returns the argument of a generic type of this name, the last one if there are several.
fn inner<'a>(kind: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(path) = kind else {
        return None;
    };
    let last = path.path.segments.last()?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    if last.ident != name {
        return None;
    }
    arguments
        .args
        .iter()
        .rev()
        .find_map(|argument| match argument {
            GenericArgument::Type(kind) => Some(kind),
            _ => None,
        })
}
