//! The simulated device: plant, actuator, encoder, hand. An ordinary registry entry of the shipped binary.
