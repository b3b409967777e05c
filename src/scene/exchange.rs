//! One-slot mailbox with a return ring: control to servo, lock-free.
