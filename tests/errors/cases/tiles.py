# ruff: noqa
def a_shape_that_no_type_has():
    for i in z:
        s = qd.simt.block.SharedArray(4, qd.Vector)

def vectors_without_a_dtype():
    for i in z:
        s = qd.simt.block.SharedArray(4, loose)

def made_outside_of_loops():
    t = qd.simt.Tile16x16.zeros()

def more_rows_than_threads():
    qd.loop_config(block_dim=48)
    for i in range(96):
        t = qd.simt.Tile32x32.zeros(dtype=qd.f32)

def from_an_open_slice():
    for i in z:
        t = qd.simt.Tile16x16.zeros()
        t[:] = g[:16, 0:16]

def with_a_step():
    for i in z:
        t = qd.simt.Tile16x16.zeros()
        t[:] = g[0:16:2, 0:16]

def of_too_few_axes():
    for i in z:
        t = qd.simt.Tile16x16.zeros()
        t[:] = deep[0:16, 0:16]

def of_vectors():
    for i in z:
        t = qd.simt.Tile16x16.zeros()
        t[:] = balls.pos[0:16, 0:16]

def of_a_column():
    for i in z:
        t = qd.simt.Tile16x16.zeros()
        t[:] = g[0:16, 2]

def to_a_column():
    for i in z:
        g[0:16, 2] = qd.simt.Tile16x16.zeros()

def rows_and_columns_as_a_value():
    for i in z:
        z[i] = g[0:2, 0:2]

def rows_of_a_number():
    for i in z:
        g[0:16, 0:16] = 1.0

def a_row():
    for i in z:
        z[i] = g[1, 0:2]

def a_row_as_the_column():
    for i in z:
        t = qd.simt.Tile16x16.zeros()
        t += qd.outer(g[1, 0:2], 1.0)

def of_another_size():
    for i in z:
        t = qd.simt.Tile16x16.zeros()
        t = qd.simt.Tile32x32.zeros()

def rows_before_the_first():
    for i in z:
        t = qd.simt.Tile16x16.zeros()
        t[:] = g[-2:14, 0:16]

def an_atomic_on_a_column():
    for i in z:
        qd.atomic_add(g[0:16, 2], 1.0)

def a_solution_with_itself():
    for i in z:
        t = qd.simt.Tile16x16.eye()
        t.solve_triangular_(t)

def an_element():
    for i in z:
        t = qd.simt.Tile16x16.zeros()
        z[i] = t[0, i]

def a_tile_as_a_number():
    for i in z:
        t = qd.simt.Tile16x16.zeros()
        z[i] = t * 2.0

def an_unknown_method():
    for i in z:
        t = qd.simt.Tile16x16.zeros()
        t.cholesky(1e-6)

def two_products():
    for i in z:
        t = qd.simt.Tile16x16.zeros()
        t -= qd.outer(z[i], z[i]) + qd.outer(1.0, z[i])

def a_number_off_a_tile():
    for i in z:
        t = qd.simt.Tile16x16.zeros()
        t -= 1.0

def a_product_off_memory():
    for i in z:
        g[0:16, 0:16] -= qd.outer(z[i], z[i])

def a_product_in_a_variable():
    for i in z:
        p = qd.outer(z[i], z[i])

def the_upper_triangle():
    for i in z:
        t, u = qd.simt.Tile16x16.eye(), qd.simt.Tile16x16.eye()
        t.solve_triangular_(u, lower=False)

def a_solution_of_another_size():
    for i in z:
        t, u = qd.simt.Tile16x16.eye(), qd.simt.Tile32x32.eye()
        t.solve_triangular_(u)

def roots_of_integers():
    for i in z:
        t = qd.simt.Tile16x16.eye(qd.i32)
        t.cholesky_(1)
