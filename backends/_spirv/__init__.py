"""Structured IR to SPIR-V words, for Vulkan."""
