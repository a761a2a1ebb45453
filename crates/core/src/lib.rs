//! See the workspace's DESIGN.md.
