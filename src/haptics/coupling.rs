//! Coupling between device and tool: a plain spring-damper for now.
