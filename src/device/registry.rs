//! Names to devices: one ordered table of what can be opened.
