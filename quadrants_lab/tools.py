"""Implements `qd.tools`, which writes meshes and points as PLY files, and grids of numbers as VTK files, without
other packages."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from quadrants_lab.lang.elsewhere import missing_attribute

__all__ = ["PLYWriter", "write_vtk"]
_DTYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4", "float": "f4",
    "double": "f8",
}  # fmt: skip
_CORNERS = {"tri": 3, "quad": 4}
Channels = list[tuple[str, npt.NDArray[Any]]]


class PLYWriter:
    """Writes a PLY file of ``num_vertices`` vertices and ``num_faces`` triangles ("tri") or quadrilaterals ("quad"). A
    channel is an array with one number for each vertex or face; the file has the channels in the order in which they
    are added."""

    def __init__(
        self, num_vertices: int, num_faces: int = 0, face_type: str = "tri", comment: str = "created by PLYWriter"
    ) -> None:
        if face_type not in _CORNERS:
            raise ValueError(f"face_type={face_type!r} is neither 'tri' nor 'quad'")
        self.num_vertices, self.num_faces, self.comment = num_vertices, num_faces, comment
        self.corners = _CORNERS[face_type]
        self.vertices: Channels = []
        self.face_channels: Channels = []
        self.faces: npt.NDArray[Any] | None = None

    def add_vertex_channel(self, key: str, data_type: str, data: Any) -> None:
        """Adds a channel. ``data_type``: char, uchar, short, ushort, int, uint, float or double. A value that does not
        fit into an integer type is a ValueError."""
        self._add(self.vertices, self.num_vertices, key, data_type, data)

    def add_face_channel(self, key: str, data_type: str, data: Any) -> None:
        self._add(self.face_channels, self.num_faces, key, data_type, data)

    def _add(self, to: Channels, n: int, key: str, data_type: str, data: Any) -> None:
        values = np.ravel(data)
        if data_type not in _DTYPES or len(values) != n or key in dict(to):
            why = f"{len(values)} values of {data_type!r} for {n}, {'again' if key in dict(to) else 'new'}"
            raise ValueError(f"channel {key!r} cannot be added: {why}; types are {', '.join(_DTYPES)}")
        to.append((key, _held(values, data_type, f"channel {key!r}")))

    def _add_all(self, keys: str, *data: Any) -> None:
        for key, values in zip(keys.split(), data, strict=True):
            self.add_vertex_channel(key, "float", values)

    def add_vertex_pos(self, x: Any, y: Any, z: Any) -> None:
        self._add_all("x y z", x, y, z)

    def add_vertex_normal(self, nx: Any, ny: Any, nz: Any) -> None:
        self._add_all("nx ny nz", nx, ny, nz)

    def add_vertex_color(self, r: Any, g: Any, b: Any) -> None:
        self._add_all("red green blue", r, g, b)

    def add_vertex_alpha(self, alpha: Any) -> None:
        self._add_all("Alpha", alpha)

    def add_vertex_rgba(self, r: Any, g: Any, b: Any, a: Any) -> None:
        self._add_all("red green blue Alpha", r, g, b, a)

    def add_vertex_vel(self, vx: Any, vy: Any, vz: Any) -> None:
        self._add_all("vx vy vz", vx, vy, vz)

    def add_vertex_id(self) -> None:
        self.add_vertex_channel("id", "int", np.arange(self.num_vertices))

    def add_vertex_piece(self, piece: Any) -> None:
        self.add_vertex_channel("piece", "int", piece)

    def add_face_id(self) -> None:
        self.add_face_channel("id", "int", np.arange(self.num_faces))

    def add_face_piece(self, piece: Any) -> None:
        self.add_face_channel("piece", "int", piece)

    def add_faces(self, indices: Any) -> None:
        """Sets the indices of the vertices of each face, one face after the other."""
        self.faces = _held(np.asarray(indices), "int", "faces").reshape(self.num_faces, self.corners)

    def sanity_check(self) -> None:
        """Raises ValueError if positions or faces are missing, or if a face has an index of no vertex."""
        if not {"x", "y", "z"} <= dict(self.vertices).keys():
            raise ValueError("a PLY file needs positions: add_vertex_pos")
        if self.num_faces and (self.faces is None or self.faces.min() < 0 or self.faces.max() >= self.num_vertices):
            raise ValueError(f"faces are missing, or name vertices beyond {self.num_vertices}: add_faces")

    def header(self, format: str) -> str:
        types = {np.dtype(f"<{short}"): name for name, short in _DTYPES.items()}

        def properties(channels: Channels) -> list[str]:
            return [f"property {types[values.dtype]} {key}" for key, values in channels]

        lines = ["ply", f"format {format}", f"comment {self.comment}", f"element vertex {self.num_vertices}"]
        lines += properties(self.vertices)
        if self.num_faces:
            lines += [f"element face {self.num_faces}", "property list uchar int vertex_indices"]
            lines += properties(self.face_channels)
        return "\n".join([*lines, "end_header", ""])

    def _tables(self) -> list[npt.NDArray[Any]]:
        """The vertices, and the faces if there are some, as structured arrays."""
        self.sanity_check()
        channels = [self.vertices]
        if self.faces is not None and self.num_faces:
            corners = [(f"corner {k}", self.faces[:, k]) for k in range(self.corners)]
            count = np.full(self.num_faces, self.corners, "u1")
            channels.append([("corners", count), *corners, *self.face_channels])
        return [np.rec.fromarrays([v for _, v in some], [(key, v.dtype) for key, v in some]) for some in channels]

    def export(self, path: str | Path) -> None:
        """Writes the file in binary form."""
        data = b"".join(table.tobytes() for table in self._tables())
        Path(path).write_bytes(self.header("binary_little_endian 1.0").encode() + data)

    def export_ascii(self, path: str | Path) -> None:
        """Writes the file as text."""
        rows = [" ".join(map(str, row.tolist())) for table in self._tables() for row in table]
        Path(path).write_text(self.header("ascii 1.0") + "\n".join(rows) + "\n", encoding="utf-8")

    def export_frame(self, series_num: int, path: str | Path) -> None:
        """Writes a frame of an animation in binary form, for example ``name_000007.ply`` for "name.ply" and 7."""
        self.export(_frame(series_num, path))

    def export_frame_ascii(self, series_num: int, path: str | Path) -> None:
        self.export_ascii(_frame(series_num, path))


def _held(values: npt.NDArray[Any], data_type: str, what: str) -> npt.NDArray[Any]:
    """The values converted to ``data_type``; real numbers are rounded to it. Raises ValueError if an integer type
    cannot hold a value."""
    with np.errstate(invalid="ignore", over="ignore"):
        made = values.astype(f"<{_DTYPES[data_type]}")
    if made.dtype.kind != "f" and not np.array_equal(made, values):
        raise ValueError(f"{what}: {values[made != values][0]} does not fit into {data_type!r}")
    return made


def _frame(number: int, path: str | Path) -> Path:
    path = Path(path)
    return path.with_name(f"{path.stem}_{number:06}.ply")


def write_vtk(scalar_field: Any, filename: str | Path) -> None:
    """Writes a field, ndarray or numpy array of numbers, of two or three axes, as points of a grid to the legacy VTK
    file ``filename.vtk``."""
    values = np.asarray(scalar_field.to_numpy() if hasattr(scalar_field, "to_numpy") else scalar_field)
    if getattr(scalar_field, "element_shape", ()):
        raise ValueError(f"write_vtk writes numbers, not the vectors or matrices of {scalar_field!r}")
    if values.ndim not in (2, 3):
        raise ValueError(f"write_vtk writes two or three axes, not the shape {values.shape}")
    size = " ".join(map(str, (*values.shape, 1)[:3]))
    lines = [
        "# vtk DataFile Version 3.0", "quadrants_lab", "BINARY", "DATASET STRUCTURED_POINTS", f"DIMENSIONS {size}",
        "ORIGIN 0 0 0", "SPACING 1 1 1", f"POINT_DATA {values.size}", "SCALARS data double 1",
        "LOOKUP_TABLE default", "",
    ]  # fmt: skip
    data = values.astype(">f8").ravel(order="F").tobytes()  # VTK's first axis varies fastest
    Path(f"{filename}.vtk").write_bytes("\n".join(lines).encode() + data)


def __getattr__(name: str) -> object:
    return missing_attribute("qd.tools", name, globals())


def __dir__() -> list[str]:
    return sorted(__all__)
