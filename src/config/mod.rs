//! Configuration: file to raw to validated; errors name file, line and key.
