//! stamps
