//! Unit tests of the compiler.
