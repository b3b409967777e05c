//! One tick: the specification of the servo.
