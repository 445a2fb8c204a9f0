# ruff: noqa
@kernel()
def product_of_wrong_shapes():
    m = qd.Matrix([[1.0, 2.0], [3.0, 4.0]])
    v = qd.Vector([1.0, 2.0, 3.0])
    z[0] = (m @ v)[0]


@kernel()
def product_with_a_number():
    v = qd.Vector([1.0, 2.0])
    z[0] = v @ 2.0


@kernel()
def inner_product_of_wrong_shapes():
    v = qd.Vector([1.0, 2.0])
    z[0] = v.dot(qd.Vector([1.0, 2.0, 3.0]))


@kernel()
def cross_product_of_four():
    v = qd.Vector([1.0, 2.0, 3.0, 4.0])
    z[0] = v.cross(v)[0]


@kernel()
def transposed_vector():
    v = qd.Vector([1.0, 2.0])
    z[0] = v.transpose()[0]


@kernel()
def trace_of_a_rectangle():
    m = qd.Matrix([[1.0, 2.0]])
    z[0] = m.trace()


@kernel()
def inverse_of_a_rectangle():
    m = qd.Matrix([[1.0, 2.0]])
    z[0] = m.inverse()[0, 0]


@kernel()
def singular_values_of_four_rows():
    u, s, v = qd.svd(qd.Matrix.identity(float, 4))


@kernel()
def eigenvalues_of_a_vector():
    w, q = qd.sym_eig(qd.Vector([1.0, 2.0]))


@kernel()
def length_of_a_number():
    z[0] = qd.math.length(2.0)


@kernel()
def distance_of_wrong_shapes():
    z[0] = qd.math.distance(qd.Vector([1.0, 2.0]), qd.Vector([1.0, 2.0, 3.0]))


@kernel()
def complex_number_of_three():
    w = qd.math.cmul(qd.Vector([1.0, 2.0]), qd.Vector([1.0, 2.0, 3.0]))


@kernel()
def unit_vector_outside():
    v = qd.Vector.unit(3, 3)


@kernel()
def size_at_run_time():
    m = qd.Matrix.identity(float, n[None])


@kernel()
def normalized_matrix():
    m = qd.Matrix([[1.0, 2.0]]).normalized()


@kernel()
def method_that_does_not_exist():
    v = qd.Vector([1.0, 2.0])
    z[0] = v.lenght()


@kernel()
def slice_at_run_time():
    m = qd.Matrix([[1.0, 2.0], [3.0, 4.0]])
    z[0] = m[n[None], :][0]


@kernel()
def row_outside():
    m = qd.Matrix([[1.0, 2.0], [3.0, 4.0]])
    z[0] = m[2, :][0]


@kernel()
def number_filled_with_a_vector():
    v = qd.Vector([1.0, 2.0])
    v.fill(v)
