//! The 3-DoF haptic point: a ball against an object.
