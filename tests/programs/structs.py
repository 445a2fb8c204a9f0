"""Programs over structs: fields of them, locals, carried through loops, in funcs, with methods, nested."""

# ruff: noqa: F821
from programs import F, I, program

BALL = {"b.pos": F((6,), element=(3,)), "b.r": F((6,), 0.2, 1.0)}
BALLS = """
Ball = qd.types.struct(pos=qd.types.vector(3, real), r=real)
"""
PARTICLES = """
@qd.dataclass
class Particle:
    pos: qd.types.vector(2, real)
    vel: qd.types.vector(2, real)
    mass: real

    @qd.func
    def energy(self):
        return 0.5 * self.mass * self.vel.dot(self.vel)

    @qd.func
    def force(self, k):
        return -k * self.pos * self.mass

    @qd.func
    def step(self, f, dt):
        self.vel += dt * f / self.mass
        self.pos += dt * self.vel
"""
PARTICLE = {
    "p.pos": F((5,), element=(2,)),
    "p.vel": F((5,), element=(2,)),
    "p.mass": F((5,), 0.5, 1.5),
}


@program({**BALL, "c.pos": F((6,), element=(3,)), "c.r": F((6,))})
def members_written():
    for i in b:
        c[i].pos = b[i].pos * b[i].r
        c[i].r += qd.sin(b[i].r)
        c[i].pos.x += b[i].pos.y * 0.5
        c.pos[i].z *= 0.7

@program({**BALL, "c.pos": F((6,), element=(3,)), "c.r": F((6,)), "y": F()})
def elements_copied():
    for i in b:
        v = b[i]
        v.pos.y = v.r * v.pos.x
        w = v
        w.r += v.pos.z
        c[i] = w
        y[None] += v.r * b[5 - i].r

@program({"x": F((6,)), "y": F((6,)), "n": I((6,), 0, 4)})
def struct_carried_with_exits():
    for i in x:
        s = qd.Struct(a=x[i], b=1.0 - x[i], k=0)
        while s.k < n[i]:
            s.k += 1
            if s.k == 2:
                continue
            s.a, s.b = s.b * s.a, s.a + 0.1 * s.k
            if s.a > 0.7:
                break
        y[i] = s.a + s.b * s.b

def moved(ball, by):
    ball.pos += by * ball.r
    return ball

def bounced(ball, limit):
    if ball.pos.x > limit:
        ball.pos.x = limit - (ball.pos.x - limit)
        return Ball(pos=ball.pos, r=ball.r * 0.9)
    return ball

@program(
    {**BALL, "n": I((), 0, 4), "y": F()}, funcs=(moved, bounced), definitions=BALLS, structs={"b": "Ball"},
    cases=({"n": 0}, {"n": 4}),
)  # fmt: skip
def structs_returned_early():
    for i in b:
        v = Ball(pos=b[i].pos, r=b[i].r)
        for j in range(n[None]):
            v = bounced(moved(v, qd.Vector([0.3, -0.1, 0.2])), 0.45)
        y[None] += v.pos.x * v.pos.y + v.r

@program({**PARTICLE, "y": F()}, definitions=PARTICLES, structs={"p": "Particle"})
def methods_of_elements():
    for i in p:
        y[None] += p[i].energy() + p[i].force(0.4).dot(p[i].vel)

@program(
    {**PARTICLE, "n": I((), 0, 6), "y": F()}, definitions=PARTICLES, structs={"p": "Particle"},
    cases=({"n": 0}, {"n": 1}, {"n": 6}),
)  # fmt: skip
def methods_that_change_a_local():
    for i in p:
        q = p[i]
        for t in range(n[None]):
            q.step(q.force(1.3), 0.1)
        y[None] += q.energy() + q.pos.x * q.pos.y

@program({"x": F((4,)), "y": F()}, definitions="""
Part = qd.types.struct(v=qd.types.vector(2, real), m=real)
Pair = qd.types.struct(a=Part, b=Part, k=real)
""")
def structs_in_structs():
    for i in x:
        s = Pair(a=Part(v=x[i], m=2.0), b=Part(m=x[i] * x[i]), k=0.5)
        s.b.v = s.a.v * s.k + s.b.m
        s.a.m *= s.b.v.x
        t = s.b
        t.m += s.a.m
        for j in range(3):
            s.a.v[j % 2] += t.v.y * s.k
            s.k *= 0.9 + 0.1 * s.a.v.x
        y[None] += s.a.v.x * s.a.v.y + s.b.m * t.m + s.k

@program({"g.m": F((3, 4), 0.2, 1.0), "g.v": F((3, 4), element=(2,)), "y": F((3, 4))})
def grid_of_structs():
    for J in qd.grouped(g):
        if g[J].m > 0.3:
            y[J] += g[J].v.x / g[J].m
    for i, j in g:
        if i > 0:
            y[i, j] += g[i, j].v.y * g[i - 1, j].m

@program({"x": F((8,)), "g.m": F((10,)), "g.v": F((10,), element=(2,)), "v": F((8,), element=(2,))})
def particles_to_a_grid_of_structs():
    for i in x:
        base = qd.cast(x[i] * 2.0 + 3.0, qd.i32)
        f = x[i] * 2.0 + 3.0 - float(base)
        for k in qd.static(range(2)):
            w = (1.0 - f) if k == 0 else f
            g[base + k].m += w * 0.5
            g[base + k].v += w * v[i]
            qd.atomic_sub(g[base + k].v.y, w * w)
