//! Sampling a field: value and gradient, scalar and SIMD.
