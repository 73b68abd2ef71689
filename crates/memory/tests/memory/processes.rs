//! processes
