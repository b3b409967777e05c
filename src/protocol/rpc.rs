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
    /// Chosen by the client. Null is refused: whether it wants an answer cannot be told.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    /// What is asked for.
    pub method: String,
    /// Named arguments.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub params: Value,
}

fn present<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<Id>, D::Error> {
    Id::deserialize(d).map(Some)
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

    /// The same error with the generation that stands, unless it names one already.
    pub fn or_generation(mut self, generation: impl FnOnce() -> u64) -> Self {
        let data = self.data.get_or_insert_default();
        data.generation = data.generation.or_else(|| Some(generation()));
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

/// Text of a client, file or device for a message: at most 64 characters, control and direction characters escaped.
pub fn shown(text: &str) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == 64 {
            out.push_str("...");
            break;
        }
        // U+200E, U+200F, U+202A to U+202E and U+2066 to U+2069 turn the direction of what a terminal shows.
        if c.is_control()
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// Reads named arguments. On failure the message and the data name the field.
///
/// # Errors
/// [`codes::INVALID_PARAMS`].
pub fn arguments<T: serde::de::DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    let map = match params {
        Value::Object(map) => map,
        Value::Null => serde_json::Map::new(),
        _ => return Err(RpcError::new(codes::INVALID_PARAMS, BY_NAME)),
    };
    // `T::deserialize(&Value)` reads the same way and leaves the value for the search below.
    let e = match T::deserialize(&Value::Object(map.clone())) {
        Ok(t) => return Ok(t),
        Err(e) => e.to_string(),
    };
    let error = |text: String| RpcError::new(codes::INVALID_PARAMS, text);
    if let Some(rest) = ["missing field `", "unknown field `"].iter().find_map(|p| e.strip_prefix(p)) {
        let name = shown(rest.split('`').next().unwrap_or_default());
        let what = if e.starts_with('m') { "is missing" } else { "is not an argument" };
        return Err(error(format!("'{name}' {what}")).field(name));
    }
    // Arguments are read in order, so the error appears with the argument that causes it.
    let mut some = serde_json::Map::new();
    if let Some(op) = map.get("op") {
        some.insert("op".into(), op.clone());
    }
    for (key, value) in &map {
        some.insert(key.clone(), value.clone());
        if T::deserialize(&Value::Object(some.clone())).is_err_and(|x| x.to_string() == e) {
            return Err(error(format!("{}: {}", shown(key), plain(&e))).field(shown(key)));
        }
    }
    Err(error(plain(&e)))
}

/// What positional arguments are answered with.
const BY_NAME: &str = "arguments are given by name: `params` is an object";

/// A reader's message without the names of our types.
fn plain(e: &str) -> String {
    let mut e = e.to_owned();
    for (ours, plain) in [
        (
            "data did not match any variant of untagged enum ObjectRef",
            "neither an object's number nor its name",
        ),
        ("data did not match any variant of untagged enum Id", "neither a whole number nor a string"),
        ("data did not match any variant of untagged enum Factors", "neither a number nor three numbers"),
        ("expected f64", "expected a number"),
        ("expected u64", "expected a whole number"),
        ("expected u32", "expected a whole number"),
        ("expected u8", "expected a whole number up to 255"),
        ("sequence", "list"),
        ("an array of length", "a list of length"),
        ("a tuple of size", "a list of length"),
    ] {
        e = e.replace(ours, plain);
    }
    while let Some(at) = e.find("struct ") {
        let end = e[at + 7..].find(|c: char| !c.is_alphanumeric()).map_or(e.len(), |n| at + 7 + n);
        e.replace_range(at..end, "an object");
    }
    shown_long(&e)
}

/// As [`shown`], with room for a sentence.
fn shown_long(text: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    let chars: Vec<char> = text.chars().take(240).collect();
    for chunk in chars.chunks(64) {
        parts.push(shown(&chunk.iter().collect::<String>()));
    }
    parts.concat()
}

/// Finds the id in JSON that holds what cannot be kept, such as a number out of range.
#[derive(Deserialize)]
struct OnlyId {
    #[serde(default)]
    id: Option<Id>,
}

/// Reads one line. On failure: the code, and the id where it could be found.
///
/// # Errors
/// The error to answer with and the id to put into it.
pub fn parse_request(line: &[u8]) -> Result<Request, (Option<Id>, RpcError)> {
    let value: Value = serde_json::from_slice(line).map_err(|e| match serde_json::from_slice(line) {
        // What is skipped is not converted, so this reads all that is JSON.
        Ok(OnlyId { id }) => (id, RpcError::new(codes::INVALID_PARAMS, format!("cannot be read: {e}"))),
        Err(_) => (None, RpcError::new(codes::PARSE, format!("not JSON: {e}"))),
    })?;
    let id = value.get("id").and_then(|v| Id::deserialize(v).ok());
    if value.is_array() {
        return Err((None, RpcError::new(codes::INVALID_REQUEST, "batches are not served; send one a line")));
    }
    let request: Request = serde_json::from_value(value).map_err(|e| {
        let text = format!("not a JSON-RPC 2.0 request: {}", plain(&e.to_string()));
        (id.clone(), RpcError::new(codes::INVALID_REQUEST, text))
    })?;
    if !(request.params.is_null() || request.params.is_object()) {
        return Err((id, RpcError::new(codes::INVALID_PARAMS, BY_NAME)));
    }
    Ok(request)
}
