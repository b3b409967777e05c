use super::*;

const ON: Situation =
    Situation { dt: 1e-3, small: true, scene: true, fresh: true, clutched: false, held: true };

fn config() -> ServoConfig {
    ServoConfig::default()
}

/// Armed by session 1 with an endless lease.
fn armed() -> Arming {
    let mut a = Arming::new(0);
    a.device(Lifecycle::Ready);
    assert_eq!(a.arm(1, 0, 0, 0, &config()), Ok(()));
    a.lease(u64::MAX);
    a
}

fn rendering() -> Arming {
    let mut a = armed();
    let ticks = (1..2000).find(|_| {
        a.device(Lifecycle::Ready);
        a.step(&ON, &config()) >= 1.0
    });
    assert!(ticks.is_some_and(|n| n >= 50 + 300), "gate and ramp take their time: {ticks:?}");
    assert_eq!(a.state(), ServoState::Rendering);
    a
}

#[test]
fn the_gate_holds_zero_while_the_wanted_force_is_large() {
    let mut a = armed();
    for _ in 0..1000 {
        assert_eq!(a.step(&Situation { small: false, ..ON }, &config()), 0.0);
    }
    assert_eq!((a.state(), a.zero(&ON, true, false)), (ServoState::Armed, ZeroReason::ArmingGate));
}

#[test]
fn a_disarm_ramps_down_within_fifty_milliseconds_and_ends_idle() {
    let mut a = rendering();
    a.watch(2, 0);
    let mut last = 1.0;
    let ticks = (1..100).find(|_| {
        let gain = a.step(&ON, &config());
        assert!(gain <= last);
        last = gain;
        gain == 0.0
    });
    assert!(ticks.is_some_and(|n| (20..=50).contains(&n)), "{ticks:?}");
    assert_eq!((a.state(), a.owner(), a.zero(&ON, true, false)), (ServoState::Idle, 0, ZeroReason::Disarmed));
}

#[test]
fn an_arm_command_from_before_a_disarm_does_not_count() {
    let mut a = Arming::new(0);
    a.device(Lifecycle::Ready);
    assert_eq!(a.arm(1, 0, 1, 0, &config()), Err(Refusal::Disarmed));
    assert_eq!(a.arm(1, 1, 1, 0, &config()), Ok(()));
}

#[test]
fn the_lease_ends_and_the_force_with_it() {
    let mut a = Arming::new(0);
    a.device(Lifecycle::Ready);
    a.arm(1, 0, 0, 1_000, &config()).unwrap();
    a.watch(0, 1_000 + 500_000_000 - 1);
    a.step(&ON, &config());
    assert_eq!(a.state(), ServoState::Armed);
    a.watch(0, 1_000 + 500_000_000);
    a.step(&ON, &config());
    assert_eq!((a.state(), a.zero(&ON, false, false)), (ServoState::Idle, ZeroReason::LeaseLost));
}

#[test]
fn others_are_refused_and_the_owner_is_not() {
    let mut a = rendering();
    assert_eq!(a.arm(2, 0, 0, 0, &config()), Err(Refusal::Owned));
    assert_eq!(a.arm(1, 0, 0, 0, &config()), Ok(()));
    a.leave(ZeroReason::Disarmed);
    assert_eq!(a.arm(1, 0, 0, 0, &config()), Err(Refusal::Disarmed));
}

#[test]
fn without_a_device_in_a_fault_or_degraded_nobody_arms() {
    let mut a = Arming::new(0);
    for lifecycle in [Lifecycle::Absent, Lifecycle::Booting, Lifecycle::Uncalibrated] {
        a.device(lifecycle);
        assert_eq!(a.arm(1, 0, 0, 0, &config()), Err(Refusal::NotReady));
    }
    a.device(Lifecycle::Ready);
    a.rt_ok = false;
    assert_eq!(a.arm(1, 0, 0, 0, &config()), Err(Refusal::Degraded));
    a.rt_ok = true;
    a.fail(Fault::Overrun);
    assert_eq!(a.arm(1, 0, 0, 0, &config()), Err(Refusal::InFault));
}

#[test]
fn a_fault_is_zero_at_once_latches_and_is_left_explicitly() {
    let mut a = rendering();
    a.fail(Fault::Velocity);
    a.fail(Fault::Overrun);
    assert_eq!((a.state(), a.fault(), a.gain(), a.owner()), (ServoState::Fault, Fault::Velocity, 0.0, 0));
    a.device(Lifecycle::Ready);
    assert_eq!(a.state(), ServoState::Fault);
    assert_eq!(a.clear(), Ok(()));
    assert_eq!(a.clear(), Err(Refusal::NoFault));
    a.device(Lifecycle::Ready);
    assert_eq!((a.state(), a.fault()), (ServoState::Idle, Fault::None));
}

#[test]
fn a_device_lost_while_armed_is_a_fault_with_a_reason() {
    for lifecycle in [Lifecycle::Absent, Lifecycle::Fault, Lifecycle::Booting, Lifecycle::Uncalibrated] {
        let mut a = rendering();
        a.device(lifecycle);
        assert_eq!((a.state(), a.fault(), a.gain()), (ServoState::Fault, Fault::DeviceGone, 0.0));
    }
}

#[test]
fn a_new_tool_fades_the_last_command_and_goes_through_the_gate() {
    let mut a = rendering();
    let last = Wrench { force: crate::geometry::Vec3::new(3.0, 0.0, 0.0), ..Wrench::ZERO };
    a.regate(&last);
    assert_eq!((a.frozen(), a.gain()), (Some(last), 1.0));
    let ticks = (1..100).find(|_| a.step(&ON, &config()) == 0.0);
    assert!(ticks.is_some_and(|n| (20..=50).contains(&n)), "{ticks:?}");
    assert_eq!((a.state(), a.owner(), a.frozen()), (ServoState::Armed, 1, None));
    for _ in 0..49 {
        assert_eq!(a.step(&ON, &config()), 0.0);
    }
    a.step(&ON, &config());
    assert_eq!(a.state(), ServoState::Rendering);
}

#[test]
fn a_disarm_during_a_tool_change_wins() {
    let mut a = rendering();
    a.regate(&Wrench::ZERO);
    a.watch(2, 0);
    while a.gain() > 0.0 {
        a.step(&ON, &config());
    }
    assert_eq!((a.state(), a.zero(&ON, false, false)), (ServoState::Idle, ZeroReason::Disarmed));
}

#[test]
fn stale_samples_clutch_and_a_missing_scene_ramp_down_and_back_up() {
    for (off, reason) in [
        (Situation { fresh: false, ..ON }, ZeroReason::StaleSample),
        (Situation { clutched: true, ..ON }, ZeroReason::Clutch),
        (Situation { scene: false, ..ON }, ZeroReason::NoScene),
    ] {
        let mut a = rendering();
        let down = (1..100).find(|_| a.step(&off, &config()) == 0.0);
        assert!(down.is_some_and(|n| (20..=50).contains(&n)), "{down:?}");
        assert_eq!((a.state(), a.zero(&off, true, false)), (ServoState::Rendering, reason));
        let up = (1..1000).find(|_| a.step(&ON, &config()) >= 1.0);
        assert!(up.is_some_and(|n| n >= 299), "{up:?}");
    }
}

/// Let go of, the force is gone within the release time and comes back through the gate, not under a hand that still presses.
#[test]
fn the_dead_man_button_takes_the_force_and_gives_it_back_through_the_gate() {
    let off = Situation { held: false, ..ON };
    let mut a = rendering();
    let down = (1..100).find(|_| a.step(&off, &config()) == 0.0);
    assert!(down.is_some_and(|n| (20..=50).contains(&n)), "{down:?}");
    a.step(&off, &config());
    assert_eq!(
        (a.state(), a.owner(), a.zero(&off, true, false)),
        (ServoState::Armed, 1, ZeroReason::DeadMan)
    );
    // Held again, but pressed against something.
    let pressed = Situation { small: false, ..ON };
    for _ in 0..500 {
        assert_eq!(a.step(&pressed, &config()), 0.0);
    }
    assert_eq!(a.zero(&pressed, true, false), ZeroReason::ArmingGate);
    // Not held in the free, it does not open either.
    for _ in 0..500 {
        assert_eq!(a.step(&off, &config()), 0.0);
    }
    let opened = (1..1000).find(|_| a.step(&ON, &config()) > 0.0);
    assert!(opened.is_some_and(|n| n >= config().gate_ticks), "{opened:?}");
    let up = (1..1000).find(|_| a.step(&ON, &config()) >= 1.0);
    assert!(up.is_some_and(|n| n >= 299), "{up:?}");
    // A press too short for the ramp does not stop it half way; what ends the force for good goes on to idle.
    a.step(&off, &config());
    let mut last = a.gain();
    while a.gain() > 0.0 {
        a.step(&ON, &config());
        assert!(a.gain() < last, "{} after {last}", a.gain());
        last = a.gain();
    }
    let mut a = rendering();
    a.step(&off, &config());
    a.leave(ZeroReason::Disarmed);
    while a.gain() > 0.0 {
        a.step(&off, &config());
    }
    assert_eq!((a.state(), a.zero(&off, false, false)), (ServoState::Idle, ZeroReason::Disarmed));
}
