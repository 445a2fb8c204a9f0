"""Emits lowered IR as SPIR-V, for Vulkan."""
