//! Period and overrun policy: skip whole periods, keep phase, count.
