"""Implements GLSL's functions of vectors, under the same names, and matrices of rotations, translations and
scalings.

Matrices for three dimensions are homogeneous: they have 4 rows and columns.
"""

from __future__ import annotations

from typing import Any

from quadrants_lab.frontend.library import formula, ops, public

_sin, _cos, _sqrt, _matrix, _vector = ops("sin cos sqrt Matrix Vector")

formula("length", "The Euclidean length of the vector x; its derivative is 0 where it is 0.", lambda x: x.norm(),
        vectors=("x",))  # fmt: skip
formula("distance", "The length of x - y.", lambda x, y: (x - y).norm(), vectors=("x", "y"))
formula("normalize", "v / length(v): NaNs for zeros (v.normalized() gives zeros).", lambda v: v / v.norm(),
        vectors=("v",))  # fmt: skip
formula("reflect", "The direction of a ray along x that is mirrored at a plane with the unit normal n.",
        lambda x, n: x - 2.0 * x.dot(n) * n, vectors=("x", "n"))  # fmt: skip


@public(vectors=("x", "n"))
def refract(x: Any, n: Any, eta: Any) -> Any:
    """The direction in which a ray with the direction x continues behind a surface with the normal n; x and n are unit
    vectors, and eta is the ratio of the indices of refraction. The result is 0 where the ray is totally reflected."""
    along = x.dot(n)
    k = 1.0 - eta * eta * (1.0 - along * along)
    bent = 0.0 * x
    if k >= 0.0:
        bent = eta * x - (eta * along + _sqrt(k)) * n
    return bent


formula("vdir", "The unit vector at the angle ang (radians) from the first axis.",
        lambda ang: _vector([_cos(ang), _sin(ang)]))  # fmt: skip


@public()
def rotation2d(ang: Any) -> Any:
    """The counter-clockwise rotation by ang radians."""
    c, s = _cos(ang), _sin(ang)
    return _matrix([[c, -s], [s, c]])


@public()
def rot_yaw_pitch_roll(yaw: Any, pitch: Any, roll: Any) -> Any:
    """The rotation by Euler angles in radians. A row vector times this matrix turns by yaw about the y axis, then by
    pitch about the x axis, then by roll about the z axis; the axes turn with the vector."""
    cy, sy = _cos(yaw), _sin(yaw)
    cx, sx = _cos(pitch), _sin(pitch)
    cz, sz = _cos(roll), _sin(roll)
    return _matrix([
        [cy * cz + sy * sx * sz, sz * cx, -sy * cz + cy * sx * sz, 0.0],
        [-cy * sz + sy * sx * cz, cz * cx, sz * sy + cy * sx * cz, 0.0],
        [sy * cx, -sx, cy * cx, 0.0],
        [0.0, 0.0, 0.0, 1.0],
    ])


formula("rotation3d", "rot_yaw_pitch_roll(ang_z, ang_x, ang_y).",
        lambda ang_x, ang_y, ang_z: rot_yaw_pitch_roll(ang_z, ang_x, ang_y))  # fmt: skip


@public(vectors=("axis",), length=3)
def rot_by_axis(axis: Any, ang: Any) -> Any:
    """The rotation by ang radians about axis, a vector of any length but 0, by Rodrigues' formula. A row vector times
    this matrix turns counter-clockwise."""
    u = axis.normalized()
    c, s = _cos(ang), _sin(ang)
    d = 1.0 - c
    x, y, z = u[0], u[1], u[2]
    return _matrix([
        [c + d * x * x, d * x * y + s * z, d * x * z - s * y, 0.0],
        [d * x * y - s * z, c + d * y * y, d * y * z + s * x, 0.0],
        [d * x * z + s * y, d * y * z - s * x, c + d * z * z, 0.0],
        [0.0, 0.0, 0.0, 1.0],
    ])


formula("translate", "The translation by (dx, dy, dz).", lambda dx, dy, dz: _matrix(
    [[1.0, 0.0, 0.0, dx], [0.0, 1.0, 0.0, dy], [0.0, 0.0, 1.0, dz], [0.0, 0.0, 0.0, 1.0]]
))  # fmt: skip
formula("scale", "The scaling of the axes by sx, sy and sz.", lambda sx, sy, sz: _matrix(
    [[sx, 0.0, 0.0, 0.0], [0.0, sy, 0.0, 0.0], [0.0, 0.0, sz, 0.0], [0.0, 0.0, 0.0, 1.0]]
))  # fmt: skip
