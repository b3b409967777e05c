//! `[objects.NAME.motion]`: what a client's motion stream would send.

use super::unit;
use crate::config::source::{SourceError, Table};
use crate::geometry::{Pose, Vec3};
use crate::scene::motion::{Keyframe, MotionScript, Path};
use nalgebra::Quaternion;

pub(super) fn read(t: &Table<'_>) -> Result<MotionScript, SourceError> {
    let path = match t.opt::<Vec<[f64; 8]>>("keyframes")? {
        Some(rows) => keyframes(t, rows)?,
        None => analytic(t)?,
    };
    let rate_hz = t.within("rate_hz", 500.0, 1.0..=1000.0)?;
    let start = t.within("start_s", 0.0, 0.0..=1e6)?;
    Ok(MotionScript {
        path,
        rate_hz,
        delay: t.within("delay_s", 2.0 / rate_hz, 0.0..=1.0)?,
        span: (start, t.within("stop_s", 1e6, start..=1e6)?),
        timeout: t.within("timeout_s", 0.1, 0.001..=10.0)?,
        jitter: t.within("jitter_s", 0.0, 0.0..=0.1)?,
        loss: t.within("loss", 0.0, 0.0..=1.0)?,
    })
}

fn analytic(t: &Table<'_>) -> Result<Path, SourceError> {
    let axis = Vec3::from(t.or("axis", [0.0, 0.0, 1.0])?);
    let axis = axis.try_normalize(1e-9).ok_or_else(|| t.error("axis", "has no direction"))?;
    Ok(Path::Analytic {
        amplitude: t.or("amplitude_m", [0.0; 3])?.into(),
        frequency: t.within("frequency_hz", 1.0, 0.0..=100.0)?,
        phase: t.or("phase_rad", 0.0)?,
        axis,
        rate: t.within("turn_rate_rad_s", 0.0, -100.0..=100.0)?,
        turn: t.within("turn_rad", 0.0, -10.0..=10.0)?,
    })
}

/// Rows of time, position, orientation (x y z w).
fn keyframes(t: &Table<'_>, rows: Vec<[f64; 8]>) -> Result<Path, SourceError> {
    let frame = |[time, x, y, z, qx, qy, qz, qw]: [f64; 8]| {
        let rotation = unit(Quaternion::new(qw, qx, qy, qz)).ok_or_else(|| {
            t.error("keyframes", format!("at {time} s: not a unit quaternion (x y z w at columns 5 to 8)"))
        })?;
        Ok(Keyframe { time, pose: Pose::from_parts([x, y, z].into(), rotation) })
    };
    let frames = rows.into_iter().map(frame).collect::<Result<Vec<_>, SourceError>>()?;
    if frames.is_empty() {
        return Err(t.error("keyframes", "empty"));
    }
    if let Some(w) = frames.windows(2).find(|w| w[1].time <= w[0].time) {
        return Err(t.error("keyframes", format!("times must rise; {} s follows {} s", w[1].time, w[0].time)));
    }
    Ok(Path::Keyframes(frames))
}
