//! Real-time set-up of the servo thread, with a report of every shortfall and its cure.
