//! The editable scene: materials, meshes, objects, tool, settings.
