//! One scene, several devices: each may have a tool and a place of its own. Objects, materials and effects are the same for all.

use super::lookup::{check_pose, within};
use super::{DeviceMapping, EditError, Scene};
use crate::geometry::Pose;
use std::sync::Arc;

impl Scene {
    /// The scene as the device of that role feels it: with its own tool and place, where it was given them. O(objects); meshes are shared.
    pub fn felt_by(&self, role: &str) -> Self {
        let mut view = self.clone();
        if let Some(tool) = self.tools.get(role) {
            view.tool = tool.clone();
        }
        if let Some(mapping) = self.mappings.get(role) {
            view.mapping = *mapping;
        }
        view
    }

    /// Roles of the devices that were given a tool or a place of their own.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        self.tools.keys().chain(self.mappings.keys()).map(|role| &**role)
    }

    /// Places one device, or all; what is `None` stays.
    pub(super) fn set_mapping(
        &mut self,
        device: Option<&Arc<str>>,
        device_in_scene: Option<&Pose>,
        workspace_scale: Option<f64>,
    ) -> Result<(), EditError> {
        if let Some(pose) = device_in_scene {
            check_pose("device_in_scene", pose)?;
        }
        if let Some(scale) = workspace_scale {
            within("workspace_scale", scale, 0.01, 100.0, "")?;
        }
        let place = |mapping: &mut DeviceMapping| {
            mapping.device_in_scene = device_in_scene.copied().unwrap_or(mapping.device_in_scene);
            mapping.workspace_scale = workspace_scale.unwrap_or(mapping.workspace_scale);
        };
        match device {
            Some(role) => place(self.mappings.entry(role.clone()).or_insert(self.mapping)),
            None => self.mappings.values_mut().chain([&mut self.mapping]).for_each(place),
        }
        Ok(())
    }
}
