//! Wire types only: control messages (JSON-RPC 2.0) and motion and state datagrams (bytes). No behaviour.
