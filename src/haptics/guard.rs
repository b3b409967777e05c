//! The last code before the device: finite check, limits, slew, arming ramp, watchdog.
