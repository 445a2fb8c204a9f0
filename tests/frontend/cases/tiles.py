# ruff: noqa
def a_tile():
    """It is a row of shared memory in each thread; two products share the numbers of a row."""
    qd.loop_config(block_dim=32)
    for i in x:
        t = qd.simt.Tile16x16.zeros()
        t[:] = g[0:16, 1:17]
        u = t
        w = z[i]
        t += qd.outer(x[i], w)
        u -= qd.outer(g[0:3, 2], w)
        u -= qd.outer(z[i], g[1, 0:4])
        g[0:16, 0:16] = u
