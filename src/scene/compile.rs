//! Model to snapshot: validate, build fields (cached), bound.
