"""Structured IR to source of the Metal Shading Language."""
