//! The three-armed delta of Novint's Falcon, in Stamper's notation (R. E. Stamper, "A Three Degree of Freedom
//! Parallel Manipulator with Only Translational Degrees of Freedom", PhD 97-4, University of Maryland, 1997).
//!
//! Each leg i has an azimuth phi. In its own axes (u outwards, v sideways, z along the device) the tool p satisfies
//!
//! ```text
//! X = u + c - r            radial distance from the arm's pivot, the platform's offset included
//! L = v + offset           sideways: b cos(theta3) = L
//! rho = d + e + sqrt(b^2 - L^2)      length of the shin seen in the leg's plane
//! (X - a cos theta)^2 + (z - a sin theta)^2 = rho^2
//! ```
//!
//! So inverse kinematics is closed-form. Forward kinematics solves three such equations for p by Newton's method to
//! the last bits, from a closed-form start; it keeps no state, so there is no lag. (libnifalcon's solver stops at
//! 0.01 rad of the previous answer and so filters the position; see its FalconKinematicStamper.cpp.)

use super::Mount;
use crate::geometry::pose::Vec3;
use nalgebra::Matrix3;

/// Lengths in m, angles in rad.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delta {
    /// Thigh (driven arm).
    pub a: f64,
    /// Shin parallelogram.
    pub b: f64,
    /// d + e: offsets at both ends of the shin.
    pub de: f64,
    /// c - r: platform radius less base radius.
    pub radial: f64,
    /// Sideways offset of platform against base.
    pub lateral: f64,
    /// cos and sin of the legs' azimuths.
    pub legs: [[f64; 2]; 3],
    /// Smallest arm angles.
    pub min: [f64; 3],
    /// Largest arm angles.
    pub max: [f64; 3],
    /// Mechanism frame in the device frame.
    pub mount: Mount,
}

/// Most Newton steps; each one doubles the good digits, so a handful is used.
const MAX_STEPS: usize = 30;

impl Delta {
    /// Leg coordinates (X, L) of a tool point.
    #[inline]
    fn leg(&self, i: usize, p: &Vec3) -> (f64, f64) {
        let [c, s] = self.legs[i];
        (c * p.x + s * p.y + self.radial, c * p.y - s * p.x + self.lateral)
    }

    /// Arm angles for a tool point in the mechanism's frame; `None` out of reach. Of the two solutions that with
    /// the knee outwards, as the Falcon is built.
    pub fn inverse(&self, p: &Vec3) -> Option<Vec3> {
        let mut q = Vec3::zeros();
        for i in 0..3 {
            let (x, l) = self.leg(i, p);
            let w2 = self.b * self.b - l * l;
            if w2.is_nan() || w2 < 0.0 {
                return None;
            }
            let rho = self.de + w2.sqrt();
            let reach = x.hypot(p.z);
            // a (X cos theta + z sin theta) = (X^2 + z^2 + a^2 - rho^2) / 2
            let cos = (x * x + p.z * p.z + self.a * self.a - rho * rho) / (2.0 * self.a * reach);
            if !(-1.0..=1.0).contains(&cos) {
                return None;
            }
            q[i] = p.z.atan2(x) - cos.acos();
        }
        Some(q)
    }

    /// Residual of leg i and its derivatives with respect to p and theta.
    #[inline]
    fn residual(&self, i: usize, theta: (f64, f64), p: &Vec3) -> Option<(f64, Vec3, f64)> {
        let (x, l) = self.leg(i, p);
        let w2 = self.b * self.b - l * l;
        if w2 <= 0.0 || w2.is_nan() {
            return None;
        }
        let w = w2.sqrt();
        let rho = self.de + w;
        let (sin, cos) = theta;
        let (du, dz) = (x - self.a * cos, p.z - self.a * sin);
        let [c, s] = self.legs[i];
        // d(rho)/dL = -L / w
        let along_l = rho * l / w;
        let g = Vec3::new(du * c - along_l * s, du * s + along_l * c, dz);
        let dtheta = self.a * (du * sin - dz * cos);
        Some((0.5 * (du * du + dz * dz - rho * rho), g, dtheta))
    }

    /// Start for Newton's method: straight shins (v = 0 in every leg) make three spheres about the knees.
    fn start(&self, trig: &[(f64, f64); 3]) -> Option<Vec3> {
        let radius = self.de + self.b;
        let mut k = [Vec3::zeros(); 3];
        for i in 0..3 {
            let [c, s] = self.legs[i];
            let u = self.a * trig[i].1 - self.radial;
            k[i] = Vec3::new(u * c, u * s, self.a * trig[i].0);
        }
        // Circumcentre of the knees, then outwards along the normal of their plane.
        let (ab, ac) = (k[1] - k[0], k[2] - k[0]);
        let n = ab.cross(&ac);
        let n2 = n.norm_squared();
        if n2 <= 1e-16 || n2.is_nan() {
            return None;
        }
        let centre = (n.cross(&ab) * ac.norm_squared() + ac.cross(&n) * ab.norm_squared()) / (2.0 * n2);
        let h2 = radius * radius - centre.norm_squared();
        let h = if h2 > 0.0 { h2.sqrt() } else { 0.0 };
        let up = if n.z < 0.0 { -n } else { n };
        Some(k[0] + centre + up * (h / n2.sqrt()))
    }

    /// Tool point for arm angles, mechanism frame; exact to rounding. `hint` is a point close to the answer.
    /// `None` where the legs cannot meet.
    pub fn forward(&self, q: &Vec3, hint: Option<&Vec3>) -> Option<Vec3> {
        let trig = [q.x.sin_cos(), q.y.sin_cos(), q.z.sin_cos()];
        if let Some(p) = hint
            && let Some(p) = self.newton(&trig, *p)
        {
            return Some(p);
        }
        self.newton(&trig, self.start(&trig)?)
    }

    fn newton(&self, trig: &[(f64, f64); 3], mut p: Vec3) -> Option<Vec3> {
        for _ in 0..MAX_STEPS {
            let mut r = Vec3::zeros();
            let mut j = Matrix3::zeros();
            for i in 0..3 {
                let (value, gradient, _) = self.residual(i, trig[i], &p)?;
                r[i] = value;
                j.set_row(i, &gradient.transpose());
            }
            let mut step = j.try_inverse()? * r;
            let size = step.norm();
            if !size.is_finite() {
                return None;
            }
            // Far from the answer keep inside the shins' reach.
            if size > 0.5 * self.b {
                step *= 0.5 * self.b / size;
            }
            p -= step;
            // Quadratic convergence: after a step of 1e-9 m the error is below 1e-16 m.
            if size < 1e-9 {
                return Some(p);
            }
        }
        None
    }

    /// d p / d theta in the mechanism's frame, at arm angles and the tool point that belongs to them. `None` when
    /// singular.
    pub fn jacobian(&self, q: &Vec3, p: &Vec3) -> Option<Matrix3<f64>> {
        self.gradients(&[q.x.sin_cos(), q.y.sin_cos(), q.z.sin_cos()], p).map(|(_, jacobian)| jacobian)
    }

    /// Inverse of the residuals' derivative with respect to p, and the Jacobian.
    fn gradients(&self, trig: &[(f64, f64); 3], p: &Vec3) -> Option<(Matrix3<f64>, Matrix3<f64>)> {
        let mut g = Matrix3::zeros();
        let mut d = Vec3::zeros();
        for i in 0..3 {
            let (_, gradient, dtheta) = self.residual(i, trig[i], p)?;
            g.set_row(i, &gradient.transpose());
            d[i] = dtheta;
        }
        // Implicit functions: G dp + D dtheta = 0.
        let inverse = g.try_inverse()?;
        let jacobian = -inverse * Matrix3::from_diagonal(&d);
        jacobian.iter().all(|v| v.is_finite()).then_some((inverse, jacobian))
    }

    /// [`Delta::jacobian`] and the tool's acceleration at zero arm acceleration, Jdot w (m/s²), for arm speeds `w`
    /// (rad/s).
    pub fn motion(&self, q: &Vec3, w: &Vec3, p: &Vec3) -> Option<(Matrix3<f64>, Vec3)> {
        let trig = [q.x.sin_cos(), q.y.sin_cos(), q.z.sin_cos()];
        let (inverse, jacobian) = self.gradients(&trig, p)?;
        let v = jacobian * w;
        let mut second = Vec3::zeros();
        for i in 0..3 {
            let (sin, cos) = trig[i];
            // Second derivative of the residual along (v, w) with all accelerations zero.
            let (x, l) = self.leg(i, p);
            let [c, s] = self.legs[i];
            let (du, dz) = (x - self.a * cos, p.z - self.a * sin);
            let (xd, ld) = (c * v.x + s * v.y, c * v.y - s * v.x);
            let (dud, dzd) = (xd + self.a * sin * w[i], v.z - self.a * cos * w[i]);
            let width = (self.b * self.b - l * l).sqrt();
            let rhod = -l * ld / width;
            // rho'' at zero acceleration
            let rhodd = -(ld * ld) / width * (1.0 + l * l / (width * width));
            second[i] = dud * dud + dzd * dzd - rhod * rhod + self.a * w[i] * w[i] * (du * cos + dz * sin)
                - (self.de + width) * rhodd;
        }
        Some((jacobian, -(inverse * second)))
    }
}
