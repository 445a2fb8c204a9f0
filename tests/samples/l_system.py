"""A plant grows by a grammar: symbols are rewritten at places that a running sum finds, then a turtle draws them."""

F, LEFT, RIGHT, PUSH, POP = range(5)
RULE = (F, PUSH, LEFT, F, POP, F, PUSH, RIGHT, F, POP)
GROWTH = len(RULE)
MOST, ROUNDS = 1024, 3


def make(qd):
    symbols = qd.field(qd.i32, shape=(2, MOST))
    place = qd.field(qd.i32, shape=MOST)
    length = qd.field(qd.i32, shape=())
    lines = qd.Vector.field(4, float, shape=MOST)

    @qd.func
    def size(symbol):
        return qd.select(symbol == F, GROWTH, 1)

    @qd.kernel
    def rewrite(old: qd.template()):
        end = 0
        for _ in range(1):
            for k in range(length[None]):
                place[k] = end
                end += size(symbols[old, k])
        for k in range(length[None]):
            if symbols[old, k] == F:
                for m in qd.static(range(GROWTH)):
                    symbols[1 - old, place[k] + m] = RULE[m]
            else:
                symbols[1 - old, place[k]] = symbols[old, k]
        length[None] = end

    @qd.kernel
    def draw(now: qd.template(), angle: float) -> qd.i32:
        drawn = 0
        at, heading, depth = qd.Vector([0.0, 0.0]), 0.5 * qd.math.pi, 0
        kept = qd.Matrix.zero(float, 8, 3)
        qd.loop_config(serialize=True)
        for k in range(length[None]):
            symbol = symbols[now, k]
            if symbol == F:
                to = at + qd.Vector([qd.cos(heading), qd.sin(heading)])
                lines[drawn] = [at.x, at.y, to.x, to.y]
                at = to
                drawn += 1
            elif symbol == LEFT:
                heading += angle
            elif symbol == RIGHT:
                heading -= angle
            elif symbol == PUSH:
                for c, value in qd.static(enumerate((at.x, at.y, heading))):
                    kept[depth, c] = value
                depth += 1
            else:
                depth -= 1
                at = qd.Vector([kept[depth, 0], kept[depth, 1]])
                heading = kept[depth, 2]
        return drawn

    def run():
        symbols[0, 0], length[None] = F, 1
        for k in range(ROUNDS):
            rewrite(k % 2)
        drawn = draw(ROUNDS % 2, 0.4)
        return {"text": symbols.to_numpy()[ROUNDS % 2, : length[None]], "lines": lines.to_numpy()[:drawn]}

    return run
