"""The part of the random kernels that is about vectors and matrices: values, locals, elements of memory, and funcs.

A local vector is named after its size, ``V3_7``, a local 2 x 2 matrix ``X_4``; both are assigned where their scope may.
"""

SIZES = (2, 3, 4)
SWIZZLES = {2: ("xy", "yx"), 3: ("xyz", "zxy", "yzx", "zyx"), 4: ("xyzw", "wzyx", "yxwz")}
LETTERS = "xyzw"
IN_FUNC = -1  # the "task" of code in a func, which does not know where it will stand


class Vectors:
    """Vector and matrix expressions and statements, beside the scalar ones of the writer that it is mixed into."""

    # --- where

    def component(self, s, n: int) -> str:
        """A subscript of a vector of ``n`` elements: known at compile time or not."""
        choices = [str(k) for k in range(n)]
        if self.chance(50):
            choices = [f"{k} % {n}" for k in (*s.ints, *s.indices)] or choices
            choices += s.indices if n == 4 else []
        return self.pick(*choices)

    def vectors(self, s, n: int) -> list[str]:
        return [v for v in s.vectors if v.startswith(f"V{n}")]

    def vector_field(self, s) -> str:
        return f"{self.pick(*s.vector_fields)}[{self.index(s)}]"

    # --- expressions

    def number_of_a_vector(self, s) -> str:
        """A small scalar made of a vector or matrix."""
        how = self.draw_below(8)
        if how < 3 and s.vectors:
            v = self.pick(*s.vectors)
            return f"{v}[{self.component(s, int(v[1]))}]"
        if how == 3 and s.vector_fields:
            return f"{self.vector_field(s)}[{self.component(s, 3)}]"
        if how == 4 and s.vector_fields:
            return f"{self.vector_field(s)}.{self.pick(*'xyz')}"
        if how == 5 and s.matrices:
            return f"{self.pick(*s.matrices)}[{self.component(s, 2)}, {self.component(s, 2)}]"
        if how == 6:
            return f"{self.matrix(s, 1)}.determinant() * 0.3"
        n = self.pick(*SIZES)
        a = self.vector(s, n, 1)
        return f"{a}.dot({self.vector(s, n, 1)}) * 0.2" if self.chance(60) else f"({a}).sum() * 0.3"

    def vector(self, s, n: int, depth: int = 2) -> str:
        """A vector of ``n`` small reals, as an operand."""
        known = self.vectors(s, n)
        how = self.draw_below(16)
        if depth == 0 or how < 3:
            if known and self.chance(70):
                return self.pick(*known)
            if n == 3 and s.vector_fields and self.chance(60):
                return self.vector_field(s)
            if self.chance(20):
                return f"(qd.Vector([{', '.join(self.pick('0.3', '-0.6', '0.9') for _ in range(n))}]))"
            return f"qd.Vector([{', '.join(self.leaf(s) for _ in range(n))}])"
        a = self.vector(s, n, depth - 1)
        if how < 9:
            b = self.vector(s, n, depth - 1)
            return (
                f"(({a} + {b}) * 0.5)", f"({a} * {b} * 0.6)", f"({a} * 0.7 - {b} * 0.4)", f"({a} / (1.0 + {b} * {b}))",
                f"max({a}, {b} - 0.013)", f"({a} if {self.condition(s)} else {b})",
            )[how - 3]
        if how == 15 and s.matrices and n == 2:
            return f"({self.matrix(s, 1)} @ {a} * 0.4)"
        if how == 14 and (fs := [f for f, (_, r) in self.funcs.items() if r == n]):
            return self.call(s, self.pick(*fs), depth)
        number = self.value(s, depth - 1)
        return (
            f"qd.sin({a})", f"({a} * ({number}) * 0.7)", f"({a} + 0.3 * ({number}))", f"qd.exp(-{a} * {a})",
            f"({a}).{self.pick(*SWIZZLES[n])}", f"min({a}, {number})", f"(-{a})",
        )[how - 9]

    def matrix(self, s, depth: int = 2) -> str:
        """A 2 x 2 matrix of small reals, as an operand."""
        if depth == 0 or self.chance(35):
            choices = [*s.matrices, f"B[{self.index(s)}]"]
            if self.chance(40):
                a, b, c, d = (self.leaf(s) for _ in range(4))
                return f"qd.Matrix([[{a}, {b}], [{c}, {d}]])"
            return self.pick(*choices)
        a, b = self.matrix(s, depth - 1), self.matrix(s, depth - 1)
        return self.pick(
            f"({a} @ {b} * 0.4)", f"({a} * 0.7 - {b} * 0.4)", f"{a}.transpose()", f"({a} * ({self.value(s, 1)}) * 0.6)"
        )

    def call(self, s, name: str, depth: int) -> str:
        kinds, _ = self.funcs[name]
        given = [self.value(s, depth - 1) if k == 1 else self.vector(s, k, depth - 1) for k in kinds]
        return f"{name}({', '.join(given)})"

    # --- statements

    def vector_statement(self, s, pad: str) -> list[str]:
        """A local vector or matrix made or changed, as a whole or in part."""
        own = [v for v in s.own_vectors if v[0] == "V"]
        how = self.draw_below(12)
        if not own or how < 2:
            n = self.pick(*SIZES)
            name = self.fresh(f"V{n}_")
            line = f"{pad}{name} = {self.vector(s, n)}"
            s.vectors.append(name)
            s.own_vectors.append(name)
            return [line]
        if how == 2:
            name = self.fresh("X_")
            line = f"{pad}{name} = {self.matrix(s)}"
            s.matrices.append(name)
            s.own_vectors.append(name)
            return [line]
        matrices = [m for m in s.own_vectors if m[0] == "X"]
        if how == 3 and matrices:
            m = self.pick(*matrices)
            i, j = self.component(s, 2), self.component(s, 2)
            return [f"{pad}{m}[{i}, {j}] {self.pick('=', '+=', '*=')} {self.value(s)}"]
        if how == 4 and matrices:
            return [f"{pad}{self.pick(*matrices)} = {self.matrix(s)}"]
        v = self.pick(*own)
        n = int(v[1])
        if how < 8:
            return [f"{pad}{v}[{self.component(s, n)}] {self.pick('=', '+=', '=', '*=', '-=')} {self.value(s)}"]
        if how == 8:
            two = "".join(self.pick(("x", "y"), ("y", "x"), (LETTERS[n - 1], "x")))
            return [f"{pad}{v}.{two} {self.pick('=', '+=')} {self.vector(s, 2, 1)}"]
        others = [w for w in self.vectors(s, n) if w in s.own_vectors and w != v]
        if how == 9 and others:
            w = self.pick(*others)
            return [f"{pad}{v}, {w} = {w}, {self.vector(s, n, 1)}"]
        return [
            pad
            + self.pick(
                f"{v} = {self.vector(s, n)}",
                f"{v} += 0.2 * {self.vector(s, n, 1)}",
                f"{v} *= {self.value(s, 1)}",
                f"{v} -= {self.vector(s, n, 1)}",
            )
        ]

    def vector_write(self, s, pad: str) -> list[str]:
        """A vector, or a part of one, into the memory of the task."""
        t, three = s.task, self.vector(s, 3, 1)
        where = self.index(s)
        forms = [
            f"W{t}[{where}] += {three}",
            f"qd.atomic_sub(W{t}[{where}], {three})",
            f"W{t}[{where}][{self.component(s, 3)}] += {self.value(s, 1)}",
            f"W{t}[{where}].{self.pick('xy', 'zx')} += {self.vector(s, 2, 1)}",
        ]
        if s.here and len(s.indices) == 1:
            forms += [
                f"U{t}[{s.here}] = {three}",
                f"U{t}[{s.here}] += {three}",
                f"U{t}[{s.here}][{self.component(s, 3)}] = {self.value(s, 1)}",
                f"U{t}[{s.here}].{self.pick(*'xyz')} *= 0.7",
            ]
        return [pad + self.pick(*forms)]
