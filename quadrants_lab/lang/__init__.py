"""The language as users see it: the objects that programs use after `import quadrants_lab as qd`."""
