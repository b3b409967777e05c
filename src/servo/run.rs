//! The servo thread's body.
