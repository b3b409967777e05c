//! The tokio control plane: supervisor, socket server, motion and telemetry over UDP, scene service.
