//! Dividing a tick's budget among the objects that are touched at once. Pure and real-time safe.

#![cfg_attr(
    not(test),
    deny(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::disallowed_types,
        clippy::expect_used,
        clippy::panic,
        clippy::unwrap_used
    )
)]

/// Divides `total` work units among objects by what each needed in the last tick (`needs`, 0 = not known yet).
///
/// Everyone gets a floor: half of an equal part, or less when it needs less. What is left goes in proportion to the
/// needs above the floor; when all needs are met, the surplus is spread evenly, so that an object whose contact
/// grows has room. A small change of a need changes the shares by little, so a force does not jump.
///
/// The shares add up to at most `total`, but that none is 0 (which would mean unlimited): each gets at least 1. `total` 0 means unlimited and gives 0 to all. Uses the common length of both slices.
pub fn share(total: u32, needs: &[u32], out: &mut [u32]) {
    let n = needs.len().min(out.len());
    if n == 0 {
        return;
    }
    if total == 0 {
        out[..n].fill(0);
        return;
    }
    let count = n as u64;
    let total = u64::from(total);
    let floor = total / (2 * count);
    // An unknown need counts as an equal part.
    let need = |i: usize| if needs[i] == 0 { (total / count).max(1) } else { u64::from(needs[i]) };
    let wanted: u64 = (0..n).map(need).sum();
    let base: u64 = (0..n).map(|i| need(i).min(floor)).sum();
    let above = wanted - base;
    for (i, out) in out[..n].iter_mut().enumerate() {
        let units = if wanted <= total {
            need(i) + (total - wanted) / count
        } else {
            // Within u64: both factors are below 2^32 * 4096.
            let part = u128::from(need(i) - need(i).min(floor)) * u128::from(total - base)
                / u128::from(above.max(1));
            need(i).min(floor) + part as u64
        };
        *out = units.clamp(1, u64::from(u32::MAX)) as u32;
    }
}

/// As [`share`], but a share moves by at most a sixteenth (at least 16 units) from its value in the last tick
/// (`last`, 0 = new): when another object joins, the force of those already touched does not jump to a coarser
/// sampling. The newcomer takes what is left, and its whole share some ticks later. Where that would exceed `total`
/// all the same, those already touched give way by a common part.
pub fn share_gently(total: u32, needs: &[u32], last: &[u32], out: &mut [u32]) {
    let n = needs.len().min(out.len()).min(last.len());
    share(total, &needs[..n], &mut out[..n]);
    if total == 0 {
        return;
    }
    let moved = |goal: u32, last: u32| {
        let step = (last / 16).max(16);
        i128::from(goal.clamp(last.saturating_sub(step).max(1), last.saturating_add(step)))
    };
    let (mut old_goals, mut old_wishes, mut new_goals, mut newcomers) = (0i128, 0i128, 0i128, 0i128);
    for (&goal, &last) in out[..n].iter().zip(last) {
        if last == 0 {
            new_goals += i128::from(goal);
            newcomers += 1;
        } else {
            old_goals += i128::from(goal);
            old_wishes += moved(goal, last);
        }
    }
    let for_old = (i128::from(total) - newcomers).max(0);
    let for_new = (i128::from(total) - old_wishes).max(newcomers);
    for (out, &last) in out[..n].iter_mut().zip(last) {
        let goal = i128::from(*out);
        let units = if last == 0 {
            if new_goals <= for_new { goal } else { goal * for_new / new_goals }
        } else if old_wishes <= for_old {
            moved(*out, last)
        } else {
            // The largest common part of the way back from goal to wish that fits; rounded down.
            let (room, over) = ((for_old - old_goals).max(0), (old_wishes - old_goals).max(1));
            goal + ((moved(*out, last) - goal) * room).div_euclid(over)
        };
        *out = units.clamp(1, i128::from(u32::MAX)) as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shares(total: u32, needs: &[u32]) -> Vec<u32> {
        let mut out = vec![0; needs.len()];
        share(total, needs, &mut out);
        out
    }

    #[test]
    fn needs_are_met_when_they_fit() {
        let out = shares(1000, &[100, 300, 200]);
        assert!(out.iter().zip([100, 300, 200]).all(|(&o, n)| o >= n));
        assert_eq!(shares(0, &[5, 9]), [0, 0]);
        assert_eq!(shares(10, &[]), [0u32; 0]);
    }

    #[test]
    fn one_giant_does_not_starve_nineteen_others() {
        let mut needs = [500; 20];
        needs[7] = 1_000_000;
        let out = shares(8000, &needs);
        for (i, &units) in out.iter().enumerate() {
            assert!(units >= 200, "object {i} got {units}");
        }
        assert!(out[7] > 3000);
    }

    #[test]
    fn a_newcomer_does_not_make_the_others_jump() {
        let last = [4000, 0];
        let mut out = [0; 2];
        share_gently(5000, &[4000, 0], &last, &mut out);
        assert!(out[0] >= 3700, "{out:?}");
        assert!(out[1] >= 16 && out[0] + out[1] <= 5000, "{out:?}");
    }

    proptest! {
        #[test]
        fn never_more_than_the_total_never_zero(
            total in 1u32..200_000,
            needs in proptest::collection::vec(0u32..2_000_000, 1..40),
            last in proptest::collection::vec(0u32..20_000, 40),
        ) {
            let mut out = vec![0; needs.len()];
            share(total, &needs, &mut out);
            let mut gentle = vec![0; needs.len()];
            share_gently(total, &needs, &last, &mut gentle);
            for out in [&out, &gentle] {
                prop_assert!(out.iter().all(|&o| o > 0));
                if total as usize >= needs.len() {
                    prop_assert!(out.iter().map(|&o| u64::from(o)).sum::<u64>() <= u64::from(total) + needs.len() as u64);
                }
            }
        }

        #[test]
        fn a_small_change_of_one_need_changes_all_shares_by_little(
            total in 1000u32..100_000,
            needs in proptest::collection::vec(1u32..50_000, 1..20),
            at in 0usize..20,
        ) {
            let at = at % needs.len();
            let mut changed = needs.clone();
            changed[at] += 16;
            for (a, b) in shares(total, &needs).iter().zip(shares(total, &changed)) {
                prop_assert!(a.abs_diff(b) <= 17, "{} {}", a, b);
            }
        }
    }
}
