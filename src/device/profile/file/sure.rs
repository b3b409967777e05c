//! `[certified]` and `[kept]`: what the energy guard may count on, and what it costs.

use super::raw::Raw;
use super::{Context, HUGE, Result};
use crate::device::kinematics::Kinematics;
use crate::device::profile::{Certified, Kept};

/// A file without the section certifies nothing.
pub(super) fn certified(cx: &Context<'_>, raw: &Raw, kinematics: &Kinematics) -> Result<Certified> {
    let Some(c) = &raw.certified else { return Ok(Certified::default()) };
    let [b0, b1, b2] = cx.triple("certified.damping", &c.damping, 0.0, HUGE)?;
    let [f0, f1, f2] = cx.triple("certified.coulomb", &c.coulomb, 0.0, HUGE)?;
    let turn = match &c.rot_damping {
        None => 0.0,
        Some(b) => cx.number("certified.rot_damping", b, 0.0, HUGE)?,
    };
    if *kinematics != Kinematics::Ideal {
        cx.refuse("certified.rot_damping", &c.rot_damping, "the device has joints")?;
    }
    Ok(Certified { damping: [b0, b1, b2, turn, turn, turn], coulomb: [f0, f1, f2, 0.0, 0.0, 0.0] })
}

/// A file without the section has measured nothing.
pub(super) fn kept(cx: &Context<'_>, raw: &Raw) -> Result<Kept> {
    let Some(k) = &raw.kept else { return Ok(Kept::default()) };
    let certified = match &k.certified {
        None => 0.0,
        Some(part) => cx.number("kept.certified", part, 0.0, 10.0)?,
    };
    Ok(Kept { controller: cx.number("kept.controller", &k.controller, 0.0, 10.0)?, certified })
}
