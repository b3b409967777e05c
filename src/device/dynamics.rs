//! Rigid-body dynamics of the mechanisms: mass matrix, velocity terms, gravity. Pure and real-time safe.
//!
//! Convention: `M(q) q'' + h(q, q') + g(q) = tau`, so `g` is the torque that holds the mechanism still.

use crate::device::kinematics::Kinematics;
use crate::geometry::pose::Vec3;
use nalgebra::Matrix3;

/// Masses, friction and end stops of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dynamics {
    /// Gravity along -y of the device frame, m/s²; 0 for a balanced device.
    pub gravity: f64,
    /// Inertia by kind of mechanism.
    pub inertia: Inertia,
    /// Friction at the joints.
    pub friction: Friction,
    /// Joint stops: stiffness (N·m/rad; N/m for the ideal device).
    pub stop_stiffness: f64,
    /// Joint stops: damping (N·m·s/rad; N·s/m).
    pub stop_damping: f64,
    /// Housing that the tool runs into before any joint stop; `None` = the joint stops come first.
    pub housing: Option<Housing>,
}

/// A ball about the device frame's origin that the tool point cannot leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Housing {
    /// m.
    pub radius: f64,
    /// N/m.
    pub stiffness: f64,
    /// N·s/m.
    pub damping: f64,
}

impl Housing {
    /// Force on the tool point (N): a spring and a damper that push inwards, never outwards.
    pub fn force(&self, tip: &Vec3, velocity: &Vec3) -> Vec3 {
        let distance = tip.norm();
        if distance <= self.radius || distance.is_nan() {
            return Vec3::zeros();
        }
        let outward = tip / distance;
        let push = self.stiffness * (distance - self.radius) + self.damping * velocity.dot(&outward);
        outward * -push.max(0.0)
    }
}

/// Friction at each driven joint (N·m and N·m·s/rad; for the ideal device N and N·s/m along x, y, z).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Friction {
    /// Sliding friction.
    pub coulomb: [f64; 3],
    /// Break-away friction, at least the sliding friction.
    pub stiction: [f64; 3],
    /// Viscous friction.
    pub viscous: [f64; 3],
}

/// Inertia by kind of mechanism.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Inertia {
    /// A free rigid body, isotropic.
    Ideal {
        /// kg.
        mass: f64,
        /// kg·m².
        rot_inertia: f64,
        /// N·m·s/rad.
        rot_viscous: f64,
    },
    /// Three arms and a platform.
    Delta {
        /// Arm about its pivot with the motor's share, kg·m².
        arm_inertia: f64,
        /// Arm's mass times distance of its centre of mass from the pivot, kg·m.
        arm_moment: f64,
        /// Platform, grip and the shins' share, kg.
        tip_mass: f64,
    },
    /// Phantom family; see [`SerialInertia`].
    Serial(SerialInertia),
}

/// Inertia of the parallelogram arm in the form of Cavusoglu, Feygin and Tendick (2002):
///
/// ```text
/// M11 = k0 + k1 cos 2q2 + k2 cos 2q3 + k3 cos q2 sin q3
/// M22 = k4      M33 = k5      M23 = -k3/2 sin(q2 - q3)      M12 = M13 = 0
/// g2 = g w2 cos q2            g3 = g w3 sin q3
/// ```
///
/// A point mass at the tool and the reflected rotors fit the same form, so they are added to the coefficients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SerialInertia {
    /// k0 and the first rotor, kg·m².
    pub k0: f64,
    /// kg·m².
    pub k1: f64,
    /// kg·m².
    pub k2: f64,
    /// kg·m².
    pub k3: f64,
    /// kg·m².
    pub k4: f64,
    /// kg·m².
    pub k5: f64,
    /// First moment about the shoulder, kg·m.
    pub w2: f64,
    /// First moment about the elbow, kg·m.
    pub w3: f64,
}

impl SerialInertia {
    /// Adds a point mass (kg) at the tool of links `l1`, `l2` (m).
    pub fn add_tip(&mut self, mass: f64, l1: f64, l2: f64) {
        self.k0 += 0.5 * mass * (l1 * l1 + l2 * l2);
        self.k1 += 0.5 * mass * l1 * l1;
        self.k2 -= 0.5 * mass * l2 * l2;
        self.k3 += 2.0 * mass * l1 * l2;
        self.k4 += mass * l1 * l1;
        self.k5 += mass * l2 * l2;
        self.w2 += mass * l1;
        self.w3 += mass * l2;
    }

    /// Adds rotors (kg·m², at the joints: rotor inertia x ratio²).
    pub fn add_rotors(&mut self, at_joint: [f64; 3]) {
        self.k0 += at_joint[0];
        self.k4 += at_joint[1];
        self.k5 += at_joint[2];
    }
}

impl Dynamics {
    /// Weight of the ideal device's body, N; zero for other mechanisms.
    pub fn ideal_weight(&self) -> Vec3 {
        match self.inertia {
            Inertia::Ideal { mass, .. } => Vec3::new(0.0, -mass * self.gravity, 0.0),
            _ => Vec3::zeros(),
        }
    }

    /// Mass matrix in joint coordinates, kg·m² (kg for the ideal device). `jacobian` is that of the tool at `q`.
    pub fn mass_matrix(&self, q: &Vec3, jacobian: &Matrix3<f64>) -> Matrix3<f64> {
        match &self.inertia {
            Inertia::Ideal { mass, .. } => Matrix3::from_diagonal_element(*mass),
            Inertia::Delta { arm_inertia, tip_mass, .. } => {
                Matrix3::from_diagonal_element(*arm_inertia) + jacobian.tr_mul(jacobian) * *tip_mass
            }
            Inertia::Serial(k) => {
                let m11 =
                    k.k0 + k.k1 * (2.0 * q.y).cos() + k.k2 * (2.0 * q.z).cos() + k.k3 * q.y.cos() * q.z.sin();
                let m23 = -0.5 * k.k3 * (q.y - q.z).sin();
                Matrix3::new(m11, 0.0, 0.0, 0.0, k.k4, m23, 0.0, m23, k.k5)
            }
        }
    }

    /// Coriolis and centrifugal torques h(q, w), N·m. `bias` is Jdot w, the tool's acceleration at zero joint
    /// acceleration (m/s²).
    pub fn velocity_torque(&self, q: &Vec3, w: &Vec3, jacobian: &Matrix3<f64>, bias: &Vec3) -> Vec3 {
        match &self.inertia {
            Inertia::Ideal { .. } => Vec3::zeros(),
            Inertia::Delta { tip_mass, .. } => jacobian.tr_mul(bias) * *tip_mass,
            Inertia::Serial(k) => {
                // Christoffel symbols of the mass matrix above. (The copy of these terms in mahilab/Phantom has
                // the wrong sign in C32; the energy test in tests/plant.rs tells them apart.)
                let (s2, c2) = q.y.sin_cos();
                let (s3, c3) = q.z.sin_cos();
                let d2 = -2.0 * k.k1 * (2.0 * q.y).sin() - k.k3 * s2 * s3;
                let d3 = -2.0 * k.k2 * (2.0 * q.z).sin() + k.k3 * c2 * c3;
                let c = 0.5 * k.k3 * (q.y - q.z).cos();
                Vec3::new(
                    (d2 * w.y + d3 * w.z) * w.x,
                    -0.5 * d2 * w.x * w.x + c * w.z * w.z,
                    -0.5 * d3 * w.x * w.x - c * w.y * w.y,
                )
            }
        }
    }

    /// Torques that hold the mechanism against gravity, N·m (N for the ideal device).
    pub fn gravity_torque(&self, kinematics: &Kinematics, q: &Vec3, jacobian: &Matrix3<f64>) -> Vec3 {
        let g = self.gravity;
        match (&self.inertia, kinematics) {
            (Inertia::Serial(k), _) => Vec3::new(0.0, g * k.w2 * q.y.cos(), g * k.w3 * q.z.sin()),
            (Inertia::Delta { arm_moment, tip_mass, .. }, Kinematics::Delta(d)) => {
                let mut tau = jacobian.row(1).transpose() * (tip_mass * g);
                for i in 0..3 {
                    // The arm's centre of mass lies along (u cos theta + z sin theta); u's height is sin(azimuth).
                    tau[i] -= arm_moment * g * d.legs[i][1] * q[i].sin();
                }
                tau
            }
            _ => -self.ideal_weight(),
        }
    }

    /// Kinetic plus potential energy, J, up to a constant; for tests of the plant.
    pub fn energy(&self, kinematics: &Kinematics, q: &Vec3, w: &Vec3) -> Option<f64> {
        let state = kinematics.state(q, None)?;
        let kinetic = 0.5 * w.dot(&(self.mass_matrix(q, &state.jacobian) * w));
        let g = self.gravity;
        let potential = match (&self.inertia, kinematics) {
            (Inertia::Serial(k), _) => g * (k.w2 * q.y.sin() - k.w3 * q.z.cos()),
            (Inertia::Delta { arm_moment, tip_mass, .. }, Kinematics::Delta(d)) => {
                let arms: f64 = (0..3).map(|i| d.legs[i][1] * q[i].cos()).sum();
                g * (tip_mass * state.tip.y + arm_moment * arms)
            }
            (Inertia::Ideal { mass, .. }, _) => mass * g * state.tip.y,
            _ => 0.0,
        };
        Some(kinetic + potential)
    }
}
