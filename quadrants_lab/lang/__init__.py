"""The language as users see it: what `import quadrants_lab as qd` shows."""
