"""Two Julia sets: how many times a complex number is squared before it escapes, with numbers as vectors."""

SIZE, ROUNDS = 20, 40


def make(qd):
    counts = qd.field(qd.i32)
    shade = qd.field(float)
    qd.root.dense(qd.ij, (2 * SIZE, SIZE)).place(counts, shade)

    @qd.func
    def square(z):
        return qd.Vector([z[0] * z[0] - z[1] * z[1], 2.0 * z[0] * z[1]])

    @qd.kernel
    def paint(c: qd.types.vector(2, float), half: qd.i32):
        for i, j in qd.ndrange((half * SIZE, (half + 1) * SIZE), SIZE):
            z = qd.Vector([(i - half * SIZE) / SIZE - 0.5, j / SIZE - 0.5]) * 3.0
            rounds = 0
            while z.norm_sqr() < 400.0 and rounds < ROUNDS:
                z = square(z) + c
                rounds += 1
            counts[i, j] = rounds
            shade[i, j] = 0.0 if rounds == ROUNDS else qd.log(rounds + 1.0)

    def run():
        paint(qd.Vector([-0.8, 0.2]), 0)
        paint(qd.Vector([0.28, 0.01]), 1)
        return {"counts": counts.to_numpy(), "shade": shade.to_numpy()}

    return run
