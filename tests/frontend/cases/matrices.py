# ruff: noqa
def constructed():
    for i in range(4):
        v = qd.Vector([x[i], 2.0, 1])
        w = vec3(0.5, qd.Vector([i, 2]))
        p[i] = v * w + [1, 2, 3]
        m[i] = qd.Matrix([[v.x, v.y], [w.x, 1.0]])

def one_element_is_read():
    for i in p:
        x[i] = p[i][1] + p[i].z + m[i][1, 0]

def elementwise():
    v = qd.Vector([x[0], x[1]])
    w = -v + qd.sin(v) ** 2
    b[0] = (v < w)[0]
    w = qd.select(v < 0.0, w, max(v, 1.0))
    w /= 2
    z[0] = w[0] + w[1]

def parts_of_locals():
    v = qd.Vector([x[0], x[1], x[2]])
    v[1] = 2.0
    v.xz = v.zx
    v[n[None]] += 1.0
    z[0] = v[n[None]]
    v.zy[0] *= 3.0
    p[0] = v

def parts_in_memory():
    for i in p:
        p[i] = 0.0
        p[i][0] = 1
        p[i].yz = [x[i], 2.0]
        p[i] += 1.0
        p[i].x -= x[i]
        m[i][0, n[None]] *= 2.0
        qd.atomic_max(p[i].xy, p[0].zx)

def carried():
    for i in p:
        v = p[i]
        t = 0.0
        for j in range(n[None]):
            if v.x > 0.5:
                v[1] += v[0]
            else:
                t += v[j % 3]
        p[i] = v * t

def reduced():
    total = vec3(0.0)
    for i in p:
        total += p[i]
        total[i % 3] += x[i]
    y[None] = total.x + total.y * total.z

@qd.func
def turned(v: vec3, by=1.0):
    v.x += by
    return v, v.x

@qd.func
def twice(v) -> vec3:
    return v * 2

@kernel(matrix(f32, (3,)), scalar(f32))
def arguments(v, s) -> (vec3, f32):
    w, k = turned(v)
    return twice(w) if k > s else v, k

@qd.func
def grown(self, by):
    self.mass *= by
    return self.mass + by * self.pos.x


Ball.methods["grown"] = grown


def structs():
    for i in balls:
        s = Ball([x[i], 0.0, 1.0], hits=i)
        s.mass += 2.0
        s.pos[2] = s.mass
        if s.hits > 1:
            s.pos.x = 3.0
        balls[i] = s
        balls[i].hits += 1
        z[i] = balls[i].pos.y + s.grown(0.5)

def captured():
    for i in range(2):
        z[i] = gravity[1] * gravity[i]
        p[i] = gravity

def from_an_offset():
    for i in shifted:
        shifted[i] = shifted[-2] + i

@qd.func
def hit(self, by):
    if by > 2.0:
        self.hits += 1
        return self.pos.x
    self.mass -= by
    return 0.0

@qd.func
def moved(self):
    self.pos.x += 1.0


Ball.methods.update(hit=hit, moved=moved)


def methods_change_their_struct():
    for i in balls:
        s = balls[i]
        z[i] = s.hit(x[i]) + s.mass
        s.moved()
        balls[i].moved()
        x[i] = s.pos.x

def methods_in_loops():
    for i in balls:
        s = balls[i]
        for j in range(3):
            s.moved()
        x[i] = s.pos.x

@kernel(
    struct(Ball, (("pos", array(f32, 1, True, (3,))), ("mass", scalar(f32)), ("hits", const(a)))),
    array(f32, 2, False, (2, 2)),
)
def arrays_in_a_struct(s, w):
    for i in s.pos:
        s.pos[i].x += s.mass * s.hits[i]
        w[i, 0][1, 1] = s.pos.shape[0] + w.shape[1]

def declared_and_unnamed():
    v: vec3 = [1, x[0], 3]
    s = qd.Struct(a=v, b=n[None])
    s.b += 2
    z[0] = s.a.y + s.b
