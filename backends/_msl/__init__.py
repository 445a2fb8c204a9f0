"""Emits lowered IR as source of the Metal Shading Language."""
