//! Templates: minijinja, with native types for a string that is one `{{ expression }}`.
