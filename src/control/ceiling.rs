//! What a device cannot render as stiff as a client asks: told in the answer to the edit that asks it.

use super::status::StatusBoard;
use crate::protocol::edit::Edit;
use crate::scene::model::Scene;
use std::collections::BTreeSet;

/// The materials that these edits set, or give to an object.
pub(super) fn named(edits: &[Edit]) -> BTreeSet<String> {
    let of = |edit: &Edit| match edit {
        Edit::MaterialSet { name, .. } => Some(name.clone()),
        Edit::ObjectCreate { material, .. } => Some(material.clone()),
        Edit::ObjectUpdate { material, .. } => material.clone(),
        _ => None,
    };
    edits.iter().filter_map(of).collect()
}

/// For people: which of these materials are stiffer than a device renders, and what is felt of them instead. A contact that is larger than
/// the material's reference area is stiffer than its material, and lowered likewise: what is said here holds for one of just that area.
pub(super) fn notes(scene: &Scene, named: &BTreeSet<String>, board: &StatusBoard) -> Vec<String> {
    let ceilings: Vec<(usize, f64)> =
        (0..board.roles().len()).filter_map(|d| Some((d, board.counters(d)?.stiffest()?))).collect();
    let stiff = scene.materials().filter_map(|m| {
        let name = m.meta.name.as_deref().filter(|n| named.contains(*n))?;
        Some((name, m.material.stiffness))
    });
    stiff
        .flat_map(|(name, k)| ceilings.iter().map(move |(d, most)| (name, k, *d, *most)))
        .filter(|(_, k, _, most)| k > most)
        .map(|(name, k, d, most)| {
            let device = board.name(d).map_or_else(|| "the device".into(), |role| format!("device '{role}'"));
            format!(
                "material '{name}': {k:.0} N/m is more than the {most:.0} N/m that {device} renders stably; no more than that is felt"
            )
        })
        .collect()
}
