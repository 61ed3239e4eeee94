//! The suite that any backend can run on itself.
