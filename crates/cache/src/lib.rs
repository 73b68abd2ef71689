//! The engine: one door for every memoized piece of work.
