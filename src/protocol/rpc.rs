//! JSON-RPC 2.0 envelopes (<https://www.jsonrpc.org/specification>), one object a line, no batches.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Identifier of a request: chosen by the client, repeated in the answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// A number.
    Number(u64),
    /// A string.
    Text(String),
}

/// The mark `"jsonrpc": "2.0"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TwoPointZero;

impl Serialize for TwoPointZero {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str("2.0")
    }
}

impl<'de> Deserialize<'de> for TwoPointZero {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match <std::borrow::Cow<'de, str>>::deserialize(d)?.as_ref() {
            "2.0" => Ok(Self),
            other => {
                Err(serde::de::Error::custom(format_args!("\"jsonrpc\" must be \"2.0\", not \"{other}\"")))
            }
        }
    }
}

/// A request; one without an id is a notification and gets no answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Always 2.0.
    pub jsonrpc: TwoPointZero,
    /// Chosen by the client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// What is asked for.
    pub method: String,
    /// Named arguments.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub params: Value,
}

/// An answer: `result` or `error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// Always 2.0.
    pub jsonrpc: TwoPointZero,
    /// The request's id; null when the request could not be read.
    pub id: Option<Id>,
    /// On success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// On failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<RpcError>,
}

/// A message from the daemon that answers nothing: `telemetry`, `progress`, `event`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notification {
    /// Always 2.0.
    pub jsonrpc: TwoPointZero,
    /// What happened.
    pub method: String,
    /// Details.
    pub params: Value,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// See [`codes`].
    pub code: i32,
    /// What happened and what to do.
    pub message: String,
    /// Where: field, object, generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<ErrorData>,
}

/// Machine-readable part of an error.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorData {
    /// The offending field, e.g. `edits[2].pose.orientation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The offending object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<u32>,
    /// The generation that stands (a failed change leaves it).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
}

/// Error codes. The -32xxx ones are JSON-RPC's; the others are ours and never change their meaning.
pub mod codes {
    /// The line is not JSON.
    pub const PARSE: i32 = -32700;
    /// Not a JSON-RPC 2.0 request.
    pub const INVALID_REQUEST: i32 = -32600;
    /// No such method.
    pub const UNKNOWN_METHOD: i32 = -32601;
    /// Arguments of the wrong type, missing or unknown.
    pub const INVALID_PARAMS: i32 = -32602;
    /// A bug of ours.
    pub const INTERNAL: i32 = -32603;
    /// The first request must be `hello`.
    pub const NO_HELLO: i32 = 1;
    /// No common version.
    pub const VERSION: i32 = 2;
    /// The session's role does not allow it.
    pub const FORBIDDEN: i32 = 3;
    /// Another session owns it.
    pub const NOT_OWNER: i32 = 4;
    /// No such object, material or mesh.
    pub const NOT_FOUND: i32 = 5;
    /// The change is not valid; the scene is as it was.
    pub const REJECTED: i32 = 6;
    /// A limit on size, rate or number.
    pub const LIMIT: i32 = 7;
    /// The servo refused, with the reason.
    pub const SERVO: i32 = 8;
    /// Cancelled on request.
    pub const CANCELLED: i32 = 9;
    /// The descriptor that came with the request is not acceptable, or is missing.
    pub const DESCRIPTOR: i32 = 10;
    /// The scene moved on: `expect_generation` does not hold.
    pub const CONFLICT: i32 = 11;
    /// The daemon is shutting down.
    pub const SHUTDOWN: i32 = 12;
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i32, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same error with the offending field named.
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.data.get_or_insert_default().field = Some(field.into());
        self
    }

    /// The same error with the generation that stands.
    pub fn generation(mut self, generation: u64) -> Self {
        self.data.get_or_insert_default().generation = Some(generation);
        self
    }
}

impl Response {
    /// A success.
    pub fn ok(id: Option<Id>, result: Value) -> Self {
        Self { jsonrpc: TwoPointZero, id, result: Some(result), error: None }
    }

    /// A failure.
    pub fn err(id: Option<Id>, error: RpcError) -> Self {
        Self { jsonrpc: TwoPointZero, id, result: None, error: Some(error) }
    }
}

impl Notification {
    /// A notification with these details.
    pub fn new(method: &str, params: Value) -> Self {
        Self { jsonrpc: TwoPointZero, method: method.into(), params }
    }
}

/// Reads one line. On failure: the code, and the id where it could be found.
///
/// # Errors
/// The error to answer with and the id to put into it.
pub fn parse_request(line: &[u8]) -> Result<Request, (Option<Id>, RpcError)> {
    let value: Value = serde_json::from_slice(line)
        .map_err(|e| (None, RpcError::new(codes::PARSE, format!("not JSON: {e}"))))?;
    let id = value.get("id").and_then(|v| Id::deserialize(v).ok());
    if value.is_array() {
        return Err((None, RpcError::new(codes::INVALID_REQUEST, "batches are not served; send one a line")));
    }
    serde_json::from_value(value)
        .map_err(|e| (id, RpcError::new(codes::INVALID_REQUEST, format!("not a JSON-RPC 2.0 request: {e}"))))
}
