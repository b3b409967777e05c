//! A device's data sheet: kinematics, limits, workspace, read from `devices/*.toml`.

/// Everything the daemon knows about a kind of device. SI units.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Registry name, e.g. `ideal-6dof`.
    pub name: String,
    /// Which of x, y, z, rx, ry, rz are sensed.
    pub sensed: [bool; 6],
    /// Which of x, y, z, rx, ry, rz are driven.
    pub actuated: [bool; 6],
    /// Largest force, N.
    pub max_force: f64,
    /// Largest torque, N·m.
    pub max_torque: f64,
    /// Largest stable translational stiffness at 1 kHz, N/m.
    pub max_stiffness: f64,
    /// Largest stable rotational stiffness at 1 kHz, N·m/rad.
    pub max_rot_stiffness: f64,
    /// Largest damping, N·s/m.
    pub max_damping: f64,
    /// Largest rotational damping, N·m·s/rad.
    pub max_rot_damping: f64,
    /// Fastest plausible motion of the tool point, m/s.
    pub max_velocity: f64,
    /// Fastest plausible rotation, rad/s.
    pub max_angular_velocity: f64,
    /// Radius of the largest ball inside the workspace, m.
    pub workspace_radius: f64,
    /// How long the device holds its last torque without fresh commands, s; `None` = unknown or for ever.
    pub torque_hold: Option<f64>,
}
